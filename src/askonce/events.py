"""What the core tells the world, as typed events; it knows no metric names."""

from __future__ import annotations

from typing import Literal

import msgspec

from askonce.units import USD, Bytes, Seconds, Tokens

Tier = Literal["exact", "semantic", "collapsed", "engine", "passthrough", "none"]
"""Who answered: `collapsed` is a follower of somebody else's engine call, `none` a refusal."""

Part = Literal[
    "hot",
    "store",
    "store_write",
    "flight",
    "embedder",
    "index",
    "semantic",
    "semantic_write",
    "trust",
    "verifier",
    "evidence",
    "audit",
    "revocations",
]
"""A cache part that can fail on its own and has a breaker of its own."""

SkipCause = Literal["deadline", "breaker", "busy", "too_long", "error", "unreadable"]

RecordOutcome = Literal["written", "no_store", "too_long", "unreadable", "busy", "failed"]

BreakerState = Literal["closed", "open", "half_open"]


class Event(msgspec.Struct, frozen=True, gc=False):
    """The root of all events."""


class Served(Event, frozen=True, gc=False):
    """One request was answered."""

    tier: Tier
    outcome: Literal["ok", "client_error", "upstream_error", "disconnected"]
    streamed: bool
    latency: Seconds
    """Request fully read to last byte handed to the server."""
    ttft: Seconds
    """Request fully read to first body byte handed to the server."""
    saved_prompt: Tokens = Tokens(0)
    """Prompt tokens that a hit or a collapsed call did not cost."""
    saved_completion: Tokens = Tokens(0)


class AdmissionRefused(Event, frozen=True, gc=False):
    """An engine answer was not stored."""

    reason: str


class GuardVetoed(Event, frozen=True, gc=False):
    """A semantic candidate was refused by a guard."""

    guard: str


class StepSkipped(Event, frozen=True, gc=False):
    """A cache step was given up: the request went on without it."""

    part: Part
    cause: SkipCause


class BreakerMoved(Event, frozen=True, gc=False):
    """A breaker changed its state."""

    part: Part
    state: BreakerState


class Evicted(Event, frozen=True, gc=False):
    """Entries left to make room (`capacity`), for their tenant's share (`tenant`), because their
    life ended (`expired`), or because they were taken away (`cleared`)."""

    part: Part
    cause: Literal["capacity", "tenant", "expired", "cleared"]
    entries: int


class Unreadable(Event, frozen=True, gc=False):
    """Stored bytes could not be used, which made a miss; the reason is the store's word for it."""

    part: Part
    reason: str


class HeldBytes(Event, frozen=True, gc=False):
    """How much a part holds now."""

    part: Part
    size: Bytes
    entries: int


class Judged(Event, frozen=True, gc=False):
    """A cached answer was compared with a fresh one, or somebody said whether it was right."""

    source: Literal["miss", "audit", "shadow", "operator", "caller", "hit"]
    verdict: Literal["same", "different", "unsure"]


class Confirmation(Event, frozen=True, gc=False):
    """An answer was kept from a caller who shares answers, or compared with another caller's."""

    outcome: Literal["withheld", "same", "different", "unsure"]


class Paid(Event, frozen=True, gc=False):
    """An engine was asked for evidence alone."""

    purpose: Literal["audit", "judge"]
    cost: USD


class TrustMoved(Event, frozen=True, gc=False):
    """Evidence came in: how far a namespace may go now."""

    namespace: str
    """A configured name or a digest, never a caller's text."""
    threshold: float
    """Log odds from which on the cache answers; infinite while it does not."""
    bound: float
    """The wrong rate at or above the threshold is below this."""
    labels: float
    """Verdicts so far."""
    told: float = 1.0
    """How often the judge can tell of late, of hits or of what might be one."""


class IndexedLate(Event, frozen=True, gc=False):
    """A question that a busy embedder had no time for: it waits, is indexed after all, or not."""

    outcome: Literal["waits", "indexed", "lost"]


class Embedded(Event, frozen=True, gc=False):
    """One text was embedded."""

    took: Seconds


class Recorded(Event, frozen=True, gc=False):
    """A call went into the request log, or did not and why."""

    outcome: RecordOutcome
