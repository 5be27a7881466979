"""The very same request asked again: how soon, whether its answer had changed, what it takes."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING

import msgspec

from askonce.trust.text.judge import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.lab.traffic.ingest import Asked, Traffic

AGES = (60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 86400.0, 3 * 86400.0, 7 * 86400.0)
"""Lives to choose among, in seconds."""
_COMPARED = 1000
"""Pairs of answers to the same request that are compared, spread over the log."""
_OVERHEAD = 256 + 512
"""Bytes of a hot entry beside its answer and question."""


class Change(msgspec.Struct, frozen=True):
    """Fresh answers to the same request, this far apart at most and farther than the last row."""

    age: float
    same: int
    different: int
    unsure: int

    @property
    def judged(self) -> int:
        """Pairs with a verdict."""
        return self.same + self.different


class Repeats(msgspec.Struct, frozen=True, kw_only=True):
    """What the log says about asking the very same again."""

    calls: int
    again: int
    """Calls whose request had come before, however long ago."""
    intervals: tuple[float, ...]
    """Seconds since the same request was last asked, at the quantiles 50, 75, 90, 95 and 99 %."""
    kept: tuple[float, ...]
    """Share of `again` that an answer of each life in AGES would serve."""
    changes: tuple[Change, ...]
    """For each of AGES."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What caches of some size would have to hold."""

    hot_hits: tuple[tuple[float, int], ...]
    """Share of the exact hits, and the bytes of memory that keep so many hot."""
    live: int
    """Most bytes of answers alive at once."""
    entry: int
    """Mean bytes of an answer."""
    entries: int
    """Most answers alive at once."""


class Sharing(msgspec.Struct, frozen=True, kw_only=True):
    """What it would bring if tenants answered for each other."""

    tenants: int
    own: int
    """Exact hits as each tenant has them alone."""
    together: int
    across: Change
    """Answers to the same request of different tenants, compared."""


def repeats(traffic: Traffic) -> Repeats:
    """Over all calls that may be answered by the exact tier."""
    calls = [call for call in traffic.calls if call.exact]
    last: dict[int, Asked] = {}
    gaps, pairs = [], []
    for call in calls:
        before = last.get(call.key)
        if before is not None:
            gaps.append(max(0.0, call.time - before.time))
            pairs.append((before, call))
        last[call.key] = call
    gaps.sort()
    return Repeats(
        calls=len(traffic.calls),
        again=len(gaps),
        intervals=tuple(_quantile(gaps, share) for share in (0.5, 0.75, 0.9, 0.95, 0.99)),
        kept=tuple(
            exact_hits(calls, life, lambda call: call.key) / max(1, len(gaps)) for life in AGES
        ),
        changes=_changes(traffic, pairs),
    )


def exact_hits(calls: Sequence[Asked], life: float, key: Callable[[Asked], int]) -> int:
    """Calls that an answer of this life serves; callers' own lives hold."""
    until: dict[int, float] = {}
    hits = 0
    for call in calls:
        if until.get(key(call), -1.0) > call.time:
            hits += 1
        elif call.stored:
            until[key(call)] = call.ends + (call.ttl if call.ttl >= 0 else life)
    return hits


def _changes(traffic: Traffic, pairs: Sequence[tuple[Asked, Asked]]) -> tuple[Change, ...]:
    chosen = [(one, two) for one, two in pairs if _both_fresh(one, two)]
    step = max(1, ceil(len(chosen) / _COMPARED))
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one, two in chosen[::step]:
        row = bisect_left(AGES, two.time - one.time)
        found[row][_agreement(traffic, one, two)] += 1
    return tuple(
        Change(age, found[row]["same"], found[row]["different"], found[row]["unsure"])
        for row, age in enumerate(AGES)
    )


def _both_fresh(one: Asked, two: Asked) -> bool:
    return one.fresh and two.fresh and one.answer >= 0 and two.answer >= 0


def _agreement(traffic: Traffic, one: Asked, two: Asked) -> str:
    if one.answer == two.answer:
        return "same"
    number = traffic.questions[two.key]
    question = traffic.texts.get(number) if number >= 0 else ""
    return compare(traffic.texts.get(one.answer), traffic.texts.get(two.answer), question).agreement


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def demand(traffic: Traffic, exact: float, longest: float) -> Demand:
    """exact: life of a hit in the exact tier; longest: of an entry in any tier."""
    distances = sorted(_distances(traffic.calls, exact))
    shares = (0.8, 0.9, 0.95, 0.99)
    live, entries = _alive(traffic.calls, longest)
    sizes = [call.size for call in traffic.calls if call.stored]
    return Demand(
        hot_hits=tuple((share, int(_quantile(distances, share))) for share in shares),
        live=live,
        entry=round(sum(sizes) / len(sizes)) if sizes else 0,
        entries=entries,
    )


def _distances(calls: Sequence[Asked], life: float) -> list[int]:
    """For each exact hit the bytes of all that was used since: what an LRU must hold to keep it."""
    place: dict[int, int] = {}
    tree = _Sums(len(calls))
    until: dict[int, float] = {}
    found = []
    for at, call in enumerate(calls):
        if not call.exact:
            continue
        size = call.size + _OVERHEAD
        hit = until.get(call.key, -1.0) > call.time
        if not hit and call.stored:
            until[call.key] = call.ends + (call.ttl if call.ttl >= 0 else life)
        before = place.get(call.key)
        if before is not None:
            if hit:
                found.append(tree.up_to(at) - tree.up_to(before) + size)
            tree.add(before, -tree.held[before])
        if call.stored or hit:
            tree.add(at, size)
            place[call.key] = at
    return found


class _Sums:
    """Sums over ranges, in logarithmic time."""

    def __init__(self, size: int) -> None:
        self._tree = [0] * (size + 1)
        self.held: dict[int, int] = defaultdict(int)

    def add(self, at: int, value: int) -> None:
        self.held[at] += value
        at += 1
        while at < len(self._tree):
            self._tree[at] += value
            at += at & -at

    def up_to(self, at: int) -> int:
        """The sum of all places up to and with this one."""
        total, at = 0, at + 1
        while at:
            total += self._tree[at]
            at &= at - 1
        return total


def _alive(calls: Sequence[Asked], life: float) -> tuple[int, int]:
    """Most bytes, and most entries, alive at once."""
    moves: list[tuple[float, int, int]] = []
    until: dict[int, float] = {}
    for call in calls:
        if call.stored and until.get(call.key, -1.0) <= call.time:
            until[call.key] = call.ends + life
            moves += [(call.ends, call.size, 1), (call.ends + life, -call.size, -1)]
    size = entries = most = many = 0
    for _, bytes_, one in sorted(moves):
        size, entries = size + bytes_, entries + one
        most, many = max(most, size), max(many, entries)
    return most, many


def sharing(traffic: Traffic, life: float) -> Sharing:
    """Exact hits of tenants alone and together, and whether their answers agree."""
    calls = [call for call in traffic.calls if call.exact]
    last: dict[int, Asked] = {}
    said: dict[str, int] = defaultdict(int)
    for call in calls:
        before = last.get(call.shared)
        apart = before is not None and before.tenant != call.tenant
        if before is not None and apart and _both_fresh(before, call):
            said[_agreement(traffic, before, call)] += 1
        last[call.shared] = call
    return Sharing(
        tenants=len(traffic.tenants),
        own=exact_hits(calls, life, lambda call: call.key),
        together=exact_hits(calls, life, lambda call: call.shared),
        across=Change(life, said["same"], said["different"], said["unsure"]),
    )
