"""Settings that a log speaks for, each with its evidence; all but those about meaning."""

from __future__ import annotations

from itertools import pairwise
from math import ceil, log2
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.lab.traffic.repeats import AGES
from askonce.lab.traffic.tables import percent, span
from askonce.trust.account.bound import Tally, lower, upper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.config import Config
    from askonce.lab.traffic.ingest import Asked
    from askonce.lab.traffic.repeats import Change, Demand, Repeats, Sharing

Value = bool | int | float | str

FEW = 30
"""Observations below which nothing is advised."""
ENOUGH = 0.95
"""Share of what could be had that a setting should give."""
_JUDGED = 20
_NOISE = 0.02
_MOST = 0.9
"""Share of re-asks below which other reasons than lives keep them from being served."""
_ALPHA = 0.05
_HEADROOM = 1.5
_BUSY = 0.6
"""Share of a core that embedding may take in the busiest minute."""
_ACROSS = 100
"""Judged pairs across tenants that show whether their answers agree."""
_WORTH = 0.01
_MIB = 1024 * 1024


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One setting."""

    key: str
    """As `exact.ttl`."""
    now: Value
    then: Value
    why: str
    """The evidence, one line."""
    risk: str = ""
    """What it may cost; empty where nothing changes."""
    optional: bool = False
    """For the operator to decide: it stands in the snippet as a comment."""

    @property
    def changes(self) -> bool:
        """Whether it differs from what is set."""
        return self.now != self.then


class Timing(NamedTuple):
    """How fast questions come, and how fast they are read."""

    busiest: float
    """Questions a second in the busiest minute."""
    seconds: float
    """Of the embedder for one."""


def exact_ttl(found: Repeats, config: Config, seconds: float) -> Advice:
    """How long answers should live; seconds: how long the log is."""
    now = config.exact.ttl
    kept = dict(zip(AGES, found.kept, strict=True))
    if found.again < FEW or not seconds:
        why = f"only {found.again} requests came again: too few to tell"
        return Advice(key="exact.ttl", now=now, then=now, why=why)
    fresh = fresh_until(found.changes)
    seen = [age for age in AGES if age <= max(seconds, AGES[0])]
    needed = next((age for age in seen if kept[age] >= ENOUGH * kept[seen[-1]]), seen[-1])
    then = min(max(now, needed), fresh)
    held = sum(change.same for change in found.changes if now < change.age <= then)
    return Advice(
        key="exact.ttl",
        now=now,
        then=then,
        why=_why_ttl(found, kept, needed, fresh),
        risk=_risk_of_age(found.changes, then),
        optional=then > now and held < _JUDGED,
    )


def _why_ttl(found: Repeats, kept: dict[float, float], needed: float, fresh: float) -> str:
    p95 = span(found.intervals[3])
    serves = f"{span(needed)} serves {_share(kept[needed])}"
    if max(kept.values()) < _MOST:
        serves += f" of at most {_share(max(kept.values()))}, as not all answers are stored"
    why = f"95 % of {found.again} re-asks come within {p95}; {serves}"
    if fresh < AGES[-1]:
        why += f"; beyond {span(fresh)} the engine answers otherwise"
    return why


def fresh_until(changes: Sequence[Change]) -> float:
    """The longest life before answers to the same request change more than the engine's noise."""
    noise = max(_NOISE, changes[0].different / changes[0].judged if changes[0].judged else 0.0)
    for before, change in pairwise(changes):
        tally = Tally(float(change.same), ((1.0, float(change.different)),))
        if change.judged >= _JUDGED and lower(tally, _ALPHA) > noise:
            return before.age
    return AGES[-1]


def _risk_of_age(changes: Sequence[Change], life: float) -> str:
    within = [change for change in changes if change.age <= life]
    judged = sum(change.judged for change in within)
    changed = sum(change.different for change in within)
    if not judged:
        return f"answers up to {span(life)} old; the log does not show whether they change"
    return f"answers up to {span(life)} old: {changed} of {judged} judged had changed by then"


def semantic_ttl(ages: Sequence[float], config: Config, seconds: float) -> Advice:
    """ages: of the answers of semantic hits, had they lived long."""
    now = config.semantic.ttl
    if len(ages) < FEW or not seconds:
        why = f"only {len(ages)} answers by meaning: too few to tell"
        return Advice(key="semantic.ttl", now=now, then=now, why=why)
    ordered = sorted(ages)
    p95 = ordered[int(0.95 * len(ordered))]
    needed = next((age for age in AGES if age >= p95), AGES[-1])
    then = max(now, needed)
    return Advice(
        key="semantic.ttl",
        now=now,
        then=then,
        why=f"95 % of {len(ages)} answers by meaning are younger than {span(p95)}",
        risk=f"answers by meaning up to {span(then)} old",
    )


def sizes(found: Demand, config: Config) -> list[Advice]:
    """Memory, disk and entries that this traffic fills."""
    exact, semantic = config.exact, config.semantic
    hot = dict(found.hot_hits)[ENOUGH]
    share = f"{100 * ENOUGH:.0f} % of the exact hits"
    per = f"{found.entries:,} answers of {_bytes(found.entry)} alive at once"
    return [
        Advice(
            key="exact.memory_bytes",
            now=exact.memory_bytes,
            then=max(exact.memory_bytes, _rounded(hot)),
            why=f"{_bytes(hot)} keep {share} in memory",
            risk="memory, in each worker",
        ),
        Advice(
            key="exact.disk_bytes",
            now=exact.disk_bytes,
            then=max(exact.disk_bytes, _rounded(found.live)),
            why=f"{per}: {_bytes(found.live)}",
            risk="disk",
        ),
        Advice(
            key="semantic.max_entries",
            now=semantic.max_entries,
            then=max(semantic.max_entries, ceil(_HEADROOM * found.entries / 1000) * 1000),
            why=f"{found.entries:,} answers alive at once",
            risk="2 KiB of memory and disk for each",
        ),
    ]


def _rounded(size: int) -> int:
    """With headroom, up to the next power of two of MiB."""
    wanted = max(1.0, _HEADROOM * size / _MIB)
    return _MIB << max(0, ceil(log2(wanted)))


def tenants(found: Sharing, config: Config, calls: int) -> Advice:
    """Whether callers' answers would serve each other; never more than a comment."""
    now, across = config.tenants.scope, found.across
    gain = found.together - found.own
    counted = f"{gain} more exact hits ({percent(gain, calls)} % of the calls) if all share"
    if found.tenants < 2:
        return Advice(key="tenants.scope", now=now, then=now, why="the log has one tenant")
    if gain < _WORTH * calls:
        return Advice(key="tenants.scope", now=now, then=now, why=f"only {counted}")
    bound = upper(Tally(float(across.same), ((1.0, float(across.different)),)), _ALPHA)
    seen = f"{across.different} of {across.judged} judged answers differ across tenants"
    safe = across.judged >= _ACROSS and bound <= 0.05
    return Advice(
        key="tenants.scope",
        now=now,
        then="shared" if safe else now,
        why=f"{counted}; {seen}" + ("" if safe else ": too little evidence to share"),
        risk="a caller can tell by time what others asked; not where requests hold secrets",
        optional=True,
    )


def timing(calls: Sequence[Asked], took: Sequence[float]) -> Timing:
    """From questions that the exact tier leaves, and the embedder's times in this run."""
    minutes: dict[int, int] = {}
    asked: set[int] = set()
    for call in calls:
        if call.semantic and call.key not in asked:
            asked.add(call.key)
            minutes[int(call.time // 60)] = minutes.get(int(call.time // 60), 0) + 1
    ordered = sorted(took)
    seconds = ordered[len(ordered) // 2] if ordered else 0.0
    return Timing(max(minutes.values(), default=0) / 60, seconds)


def embedder(found: Timing, config: Config) -> list[Advice]:
    """Whether reading questions keeps up, and how many may wait."""
    if not found.seconds:
        return []
    now, workers = config.semantic, config.server.workers
    load = found.busiest * found.seconds / workers
    told = f"{found.busiest:.2g} questions/s in the busiest minute x {1e3 * found.seconds:.0f} ms"
    needed = max(workers, ceil(workers * load / _BUSY))
    useful = max(1, int(now.deadline / found.seconds))
    return [
        Advice(
            key="server.workers",
            now=workers,
            then=needed,
            why=f"{told}, measured here: {_share(load)} of a core in each worker",
            risk='a core and a memory cache for each; or semantic.mode = "fast"',
            optional=True,
        ),
        Advice(
            key="semantic.queue",
            now=now.queue,
            then=min(now.queue, useful),
            why=f"after {useful} texts of {1e3 * found.seconds:.0f} ms the deadline of"
            f" {1e3 * now.deadline:.0f} ms has passed",
            risk="none, if the gateway's machine is no faster: what waits longer is late anyhow",
            optional=True,
        ),
    ]


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _bytes(size: int) -> str:
    for unit, length in (("GiB", _MIB * 1024), ("MiB", _MIB), ("KiB", 1024)):
        if size >= length:
            return f"{size / length:.3g} {unit}"
    return f"{size} bytes"
