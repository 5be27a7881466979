"""What a caller may ask of the cache, read from `Cache-Control` and `X-AskOnce-*` headers."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

import msgspec

from askonce.errors import RequestError
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from askonce.config import ControlConfig

CONTROL_HEADERS = frozenset(
    {
        b"cache-control",
        b"x-askonce-ttl",
        b"x-askonce-namespace",
        b"x-askonce-tags",
        b"x-askonce-semantic",
    }
)
"""Headers that steer the cache; they are never forwarded."""

MAX_NAME = 128
"""Longest namespace or tag, in characters."""
MAX_TAGS = 16
LONGEST = 2.0**31
"""Seconds."""
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")


class Controls(msgspec.Struct, frozen=True):
    """One request's wishes, already limited by policy."""

    no_cache: bool = False
    """Do not answer from the cache; the fresh answer may be stored."""
    no_store: bool = False
    """Do not store the answer."""
    only_if_cached: bool = False
    """Do not ask the engine."""
    max_age: Seconds | None = None
    """Accept no answer older than this."""
    ttl: Seconds | None = None
    """How long the fresh answer may live, in both tiers."""
    namespace: str = ""
    tags: tuple[str, ...] = ()
    semantic: bool = True


def read_controls(pairs: Iterable[tuple[bytes, bytes]], policy: ControlConfig) -> Controls:
    """The controls in raw header pairs; what policy does not allow is ignored.

    Raises RequestError when a control that is allowed has a value that means nothing.
    """
    wishes: dict[str, object] = {}
    for name, value in pairs:
        if name == b"cache-control":
            wishes.update(_directives(value.decode("latin-1")))
        else:
            wishes.update(_product_header(name, _text(value)))
    allowed: dict[str, Any] = {k: wish for k, wish in wishes.items() if k in policy.allow}
    for control, wish in allowed.items():
        if wish is None:
            raise RequestError(
                f"The cache control {control!r} has a value that means nothing.",
                code="invalid_cache_control",
                param=control,
            )
    if "ttl" in allowed:
        allowed["ttl"] = min(allowed["ttl"], policy.max_ttl)
    return msgspec.convert({k.replace("-", "_"): v for k, v in allowed.items()}, Controls)


def _directives(text: str) -> dict[str, object]:
    """RFC 9111 section 5.2.1: unknown directives are ignored; None marks a bad value."""
    wishes: dict[str, object] = {}
    for part in text.split(","):
        name, _, value = part.strip().lower().partition("=")
        if name in {"no-cache", "no-store", "only-if-cached"}:
            wishes[name] = True
        elif name == "max-age":
            wishes[name] = _seconds(value.strip('"'))
    return wishes


def _text(value: bytes) -> str:
    """As whoever typed it reads it, so that rules and settings in their own words match."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = value.decode("latin-1")
    return unicodedata.normalize("NFC", text).strip()


def _product_header(name: bytes, text: str) -> dict[str, object]:
    if name == b"x-askonce-ttl":
        return {"ttl": _seconds(text)}
    if name == b"x-askonce-namespace":
        return {"namespace": _name(text)}
    if name == b"x-askonce-tags":
        return {"tags": _tags(text)}
    if name == b"x-askonce-semantic":
        return {"semantic": {"on": True, "off": False}.get(text.lower())}
    return {}


def _seconds(text: str) -> float | None:
    """Past the bound a number means the bound (RFC 9111 section 1.2.2)."""
    return min(float(text), LONGEST) if _SECONDS.fullmatch(text) else None


def _name(text: str) -> str | None:
    return text if 0 < len(text) <= MAX_NAME and text.isprintable() else None


def _tags(text: str) -> tuple[str, ...] | None:
    names = [_name(part.strip()) for part in text.split(",") if part.strip()]
    tags = tuple(sorted({name for name in names if name is not None}))
    return tags if len(names) <= MAX_TAGS and None not in names else None
