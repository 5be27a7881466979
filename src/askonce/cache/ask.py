"""What goes into the cache and what comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from askonce.cache.flight import Head, Seat
from askonce.canonical.answer import Answer
from askonce.canonical.entry import Entry
from askonce.canonical.key import Scope
from askonce.canonical.request import Call, Question
from askonce.flow import GiveUp, Hit, Plan
from askonce.ports import UpstreamResponse
from askonce.units import Seconds


class Limits(msgspec.Struct, frozen=True):
    """Bounds of the cache's work."""

    exact_deadline: Seconds
    semantic_deadline: Seconds
    write_deadline: Seconds
    max_entry_bytes: int


class Look(msgspec.Struct, frozen=True, gc=False):
    """What the exact store holds for a request."""

    entry: Entry | None = None
    detail: str = ""
    """Why it could not tell, for `Cache-Status`."""
    away: bool = False
    """It is known to be away."""


class Ask(msgspec.Struct, frozen=True):
    """One request on its way through the cascade."""

    call: Call
    question: Question | None
    scope: Scope
    key: bytes
    plan: Plan
    send: Callable[[], Awaitable[UpstreamResponse]]
    """Asks the engine; called at most once, by the leader of a flight or by an audit of its hit."""
    request_id: str = ""
    """As the caller is told it; empty where nobody is."""
    author: bytes = b""
    """Who asks, where answers need another's confirmation; else empty."""
    looked: Look | None = None
    """What a look into the exact store has brought already."""


class Live(msgspec.Struct, frozen=True):
    """The engine's own answer, whole or as it comes."""

    flight: Seat
    """The reader's own place in it."""
    head: Head
    collapsed: bool
    """Somebody else's engine call answers this request too."""


class Collapsed(msgspec.Struct, frozen=True):
    """Somebody else's engine call answers this request, in the other delivery."""

    answer: Answer
    head: Head


Reply = Hit | Live | Collapsed | GiveUp
