"""Write the tables of `docs/reference/` that come from the code.

.venv/bin/python scripts/reference.py
"""

from __future__ import annotations

import argparse
import ast
import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce import config
from askonce.cli.flags import make_parser
from askonce.settings.schema import SECTIONS, Key
from askonce.telemetry.prometheus import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).resolve().parent.parent / "docs" / "reference"

CONFIG_HEAD = """# Configuration

Defaults < TOML file < environment < flags. A key's variable is `ASKONCE_` with section and key in
capitals, joined by two underscores: `exact.ttl` is `ASKONCE_EXACT__TTL`. Lists are separated by
commas there, and tables are JSON. An upstream has its place in between:
`ASKONCE_UPSTREAM__0__URL`. For a single upstream there are `ASKONCE_UPSTREAM_URL`, which stands in
for all upstreams of the file, and `ASKONCE_UPSTREAM_API_KEY`.

Times are in seconds, sizes in bytes.
"""
CLI_HEAD = """# Command line

Exit codes: 0 all is well; 1 something is wrong or differs; 2 flags, files or settings cannot be
used.
"""
METRICS_HEAD = """# Metrics

`GET /metrics` speaks Prometheus' text format. With several workers every figure is the whole
server's. A tier is one of `exact`, `semantic`, `collapsed`, `engine`, `passthrough`, `none` (a
refusal). There are no labels for models, tenants or callers: their number is not bounded.

| metric | kind | labels | what |
|---|---|---|---|
"""


def pages() -> dict[str, str]:
    """The text of each page by file name."""
    return {
        "config.md": CONFIG_HEAD + "\n".join(_config()) + "\n",
        "cli.md": CLI_HEAD + "\n".join(_cli()) + "\n",
        "metrics.md": METRICS_HEAD + "\n".join(_metrics()) + "\n",
    }


def _config() -> Iterator[str]:
    texts = _docstrings()
    for section, keys in SECTIONS.items():
        title, _, about = texts[section, ""].partition(": ")
        yield f"\n## {title}\n\n{about[0].upper()}{about[1:]}\n"
        yield "| key | default | takes | what |\n|---|---|---|---|"
        for key in keys.values():
            what = texts.get((section, key.name), "")
            yield f"| `{key.name}` | {_default(key)} | {key.describe()} | {what} |"


def _docstrings() -> dict[tuple[str, str], str]:
    """Of every section and key, as they stand in the source."""
    names = {
        each.type.__name__: each.name
        for each in msgspec.structs.fields(config.Config)
        if isinstance(each.type, type)
    }
    names["UpstreamConfig"] = "upstream"
    found = {}
    for node in ast.parse(inspect.getsource(config)).body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            section = names[node.name]
            found[section, ""] = ast.get_docstring(node) or ""
            for one, following in zip(node.body, node.body[1:], strict=False):
                if isinstance(one, ast.AnnAssign) and isinstance(following, ast.Expr):
                    text: str = ast.literal_eval(following.value)
                    found[section, ast.unparse(one.target)] = " ".join(text.split())
    return found


def _default(key: Key) -> str:
    if key.default is msgspec.NODEFAULT:
        return "required"
    if key.is_table or key.default is None:
        return "none"
    if isinstance(key.default, tuple):
        return "all" if len(key.default) > 4 else ", ".join(f"`{each}`" for each in key.default)
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return f"`{key.default}`" if key.default != "" else "empty"


def _cli() -> Iterator[str]:
    commands = next(
        action
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    helps = {each.dest: each.help for each in commands._choices_actions}
    shared = {
        flag for action in commands.choices["serve"]._actions for flag in action.option_strings
    }
    yield "\n## Flags of every command but `kv`\n\n| flag | what |\n|---|---|"
    yield from _rows(commands.choices["serve"], set())
    for name, parser in commands.choices.items():
        yield f"\n## askonce {name}\n\n{_sentence(helps[name])}"
        yield from _table(parser, shared)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for each in action._choices_actions:
                    yield f"\n### askonce {name} {each.dest}\n\n{_sentence(each.help)}"
                    yield from _table(action.choices[each.dest], {"-h", "--help"})


def _table(parser: argparse.ArgumentParser, without: set[str]) -> Iterator[str]:
    rows = list(_rows(parser, without))
    if rows:
        yield "\n| argument | what |\n|---|---|"
        yield from rows


def _sentence(text: str | None) -> str:
    return f"{(text or '')[:1].upper()}{(text or '')[1:]}."


def _rows(parser: argparse.ArgumentParser, without: set[str]) -> Iterator[str]:
    for action in parser._actions:
        if without.issuperset(action.option_strings) and action.option_strings:
            continue
        if isinstance(action, argparse._SubParsersAction):
            continue
        flag = ", ".join(action.option_strings)
        value = "" if action.nargs == 0 else _value(action)
        yield f"| `{f'{flag} {value}'.strip()}` | {action.help} |"


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    return str(action.metavar or action.dest.upper())


def _metrics() -> Iterator[str]:
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
