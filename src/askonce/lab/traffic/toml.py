"""Advice as a configuration file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.lab.traffic.advice import Advice, Value

_NAMESPACES = "trust.namespaces."


def snippet(advice: Sequence[Advice]) -> str:
    """Tables with what changes, each key below its evidence; nothing else."""
    tables: dict[str, list[str]] = {}
    for one in advice:
        if one.changes:
            table, name = _split(one.key)
            line = f"{name} = {_literal(one.then)}"
            lines = tables.setdefault(table, [])
            lines += [f"# {_plain(one.why)}", f"# {line}" if one.optional else line]
    if not tables:
        return "# Nothing to change: the log speaks for the settings as they are.\n"
    return "\n".join(
        "\n".join([f"[{table}]", *lines, ""]) for table, lines in sorted(tables.items())
    )


def _split(key: str) -> tuple[str, str]:
    """Table and name; a namespace may have any name, so it is quoted."""
    table, _, name = key.rpartition(".")
    if table.startswith(_NAMESPACES):
        table = _NAMESPACES + _quoted(table.removeprefix(_NAMESPACES))
    return table, name


def _literal(value: Value) -> str:
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
