"""What tells two requests apart."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from askonce.canonical.request import Call
    from askonce.canonical.value import Json


_ABSENT: Final = object()


def differences(a: Call, b: Call) -> list[str]:
    """JSON paths of the canonical fields that differ, in order; empty when the keys are equal."""
    return list(_walk("$", msgspec.json.decode(a.canonical), msgspec.json.decode(b.canonical)))


def _walk(path: str, a: Json, b: Json) -> Iterator[str]:
    if type(a) is not type(b):
        yield path
    elif type(a) is dict:
        for name in sorted(a.keys() | b.keys()):
            yield from _walk(path + _step(name), a.get(name, _ABSENT), b.get(name, _ABSENT))
    elif type(a) is list:
        for at, (one, other) in enumerate(zip_longest(a, b, fillvalue=_ABSENT)):
            yield from _walk(f"{path}[{at}]", one, other)
    elif a != b:
        yield path


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{msgspec.json.encode(name).decode()}]"
