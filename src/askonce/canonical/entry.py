"""What a store keeps: an answer, sealed, with its two ends of life."""

from __future__ import annotations

import msgspec

from askonce.canonical.answer import Answer
from askonce.units import Seconds, UnixTime


class Entry(msgspec.Struct, frozen=True):
    """One cached answer."""

    key: bytes
    """Exact key, 32 bytes."""
    answer: Answer
    created_at: UnixTime
    exact_until: UnixTime
    semantic_until: UnixTime
    """0 when the answer may not serve other questions."""
    tags: tuple[str, ...]
    model: str
    upstream: str
    question: str
    """The last user text when semantic_until is not 0, else empty."""
    engine_time: Seconds
    """How long the engine took."""


def seal(entry: Entry) -> bytes:
    """Versioned bytes with a digest that binds them to the entry's key."""
    raise NotImplementedError


def unseal(key: bytes, sealed: bytes) -> Entry:
    """The entry in sealed bytes; raises EntryUnreadable when wrong, foreign or of another age."""
    raise NotImplementedError
