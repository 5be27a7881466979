"""The states of one request, and what may follow each.

    begin -> LookExact -> Hit
                       -> LookSemantic -> Hit
                                       -> AskEngine -> (settle) Keep | Skip
                                       -> GiveUp

Nothing here does anything: each state only says what comes next. `cache.py` drives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from askonce.canonical.entry import Entry
from askonce.units import Cosine, Seconds, UnixTime

if TYPE_CHECKING:
    from askonce.policy.controls import Controls

SKEW = Seconds(60.0)
"""By so much the clock of the replica that stored an entry may be ahead."""

Forward = Literal["miss", "stale", "request", "bypass"]
"""Why the engine is asked, in the words of RFC 9211 section 2.2."""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """What one request may use; equal plans for one key may share a flight."""

    exact: bool = True
    semantic: bool = False
    """The request has a question, and semantics are on for it."""
    store: bool = True
    share: bool = True
    """One engine call may answer this request together with equal ones in flight."""
    fresh: bool = False
    """The caller wants an answer computed for this request alone."""
    only_if_cached: bool = False
    max_age: Seconds | None = None
    exact_ttl: Seconds = Seconds(0)
    semantic_ttl: Seconds = Seconds(0)
    tags: tuple[str, ...] = ()


class Lives(msgspec.Struct, frozen=True):
    """Default lives of an answer in the two tiers; 0 turns the tier off."""

    exact: Seconds
    semantic: Seconds


def plan(controls: Controls, lives: Lives, *, has_question: bool) -> Plan:
    """What a request with these controls may use."""
    fresh = controls.no_cache or (controls.max_age is not None and controls.max_age <= 0)
    semantic = has_question and controls.semantic and lives.semantic > 0
    kept = controls.ttl != Seconds(0) and not controls.no_store
    return Plan(
        exact=lives.exact > 0 and not fresh,
        semantic=semantic and not fresh,
        store=kept and (lives.exact > 0 or semantic),
        share=not controls.no_store and not fresh,
        fresh=fresh,
        only_if_cached=controls.only_if_cached,
        max_age=controls.max_age,
        exact_ttl=_life(lives.exact, controls),
        semantic_ttl=_life(lives.semantic, controls) if semantic else Seconds(0),
        tags=controls.tags,
    )


def _life(default: Seconds, controls: Controls) -> Seconds:
    return default if controls.ttl is None or default == Seconds(0) else controls.ttl


class Hit(msgspec.Struct, frozen=True, gc=False):
    """End: the cache answers."""

    entry: Entry
    tier: Literal["exact", "semantic"]
    age: Seconds
    ttl: Seconds
    """Seconds of life left in this tier."""
    score: Cosine | None = None


class AskEngine(msgspec.Struct, frozen=True, gc=False):
    """The engine answers."""

    forward: Forward
    details: tuple[str, ...] = ()
    """What the cache steps said on the way, for `Cache-Status`."""


class GiveUp(msgspec.Struct, frozen=True):
    """End: nothing cached, and the caller wants nothing else."""

    details: tuple[str, ...] = ()


class LookSemantic(msgspec.Struct, frozen=True, gc=False):
    """Look for an answer to the same question in other words."""

    plan: Plan
    forward: Forward = "miss"
    details: tuple[str, ...] = ()

    def found(self, entry: Entry, score: Cosine, now: UnixTime) -> Hit | AskEngine | GiveUp:
        """A candidate passed every proof."""
        hit = fresh_hit(entry, "semantic", self.plan, now)
        if hit is not None:
            return msgspec.structs.replace(hit, score=score)
        return _ask(self.plan, "stale", self.details)

    def missed(self, detail: str = "") -> AskEngine | GiveUp:
        """Nothing to serve; detail says why when it was not a plain miss."""
        return _ask(self.plan, self.forward, _with(self.details, detail))


class LookExact(msgspec.Struct, frozen=True, gc=False):
    """Look for the answer to the very same request."""

    plan: Plan

    def found(self, entry: Entry, now: UnixTime) -> Hit | LookSemantic | AskEngine | GiveUp:
        """An entry is there; it may be past its life or too old for the caller."""
        hit = fresh_hit(entry, "exact", self.plan, now)
        return hit if hit is not None else _after_exact(self.plan, "stale", ())

    def missed(self, detail: str = "") -> LookSemantic | AskEngine | GiveUp:
        """Nothing there; detail says why when it was not a plain miss."""
        return _after_exact(self.plan, "miss", _with((), detail))


State = LookExact | LookSemantic | AskEngine | Hit | GiveUp


def begin(plan: Plan) -> LookExact | LookSemantic | AskEngine | GiveUp:
    """The first state of a request."""
    if plan.exact:
        return LookExact(plan)
    if plan.semantic:
        return LookSemantic(plan)
    return _ask(plan, "request" if plan.fresh else "bypass", ())


def fresh_hit(
    entry: Entry, tier: Literal["exact", "semantic"], plan: Plan, now: UnixTime
) -> Hit | None:
    """The hit that this entry gives now, or None when it is past its life or too old.

    One of a time to come was stored by a clock that was wrong: it would live as much too long.
    """
    until = entry.exact_until if tier == "exact" else entry.semantic_until
    age = Seconds(max(now - entry.created_at, 0.0))
    if until <= now or entry.created_at > now + SKEW:
        return None
    if plan.max_age is not None and age > plan.max_age:
        return None
    return Hit(entry, tier, age, Seconds(until - now))


def _after_exact(
    plan: Plan, forward: Forward, details: tuple[str, ...]
) -> LookSemantic | AskEngine | GiveUp:
    if plan.semantic:
        return LookSemantic(plan, forward, details)
    return _ask(plan, forward, details)


def _ask(plan: Plan, forward: Forward, details: tuple[str, ...]) -> AskEngine | GiveUp:
    return GiveUp(details) if plan.only_if_cached else AskEngine(forward, details)


def _with(details: tuple[str, ...], detail: str) -> tuple[str, ...]:
    return (*details, detail) if detail else details
