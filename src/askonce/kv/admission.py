"""Which blocks are worth the store's bytes, and for how long.

Most blocks are never read again, so a store that takes everything is full of them. What a block is
worth is told by its class: how often it was seen, and whether it goes on from a prefix that was
seen before (a session) rather than from one that many share (a system prompt). For each class the
rate of blocks, the share that is seen again, and the time until then are measured on a sample.

The budget is a knapsack. A block that should still be there when it is wanted again occupies its
bytes for the time that most reuse takes, so a class that is admitted costs rate x time. Classes
are admitted from the likeliest down until the budget is full, the last one in part. With room to
spare everything is admitted; under pressure first sights go first, then second sights. Evicting
the block whose time runs out first (Redis: `volatile-ttl`) keeps the likely ones longest.

Replicas tell each other what they saw, 8 bytes a block (`drain`, `hear`): behind a router that
spreads a session over replicas none of them would see it twice. So rates are those of the fleet,
and the budget is the fleet's; what a replica itself stores may have a bound of its own.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import msgspec

from askonce.kv.reuse import CLASSES, COUNTS, ReuseProfile
from askonce.kv.sights import Journal
from askonce.kv.sketch import Sketch
from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHARED_HEAD: Final = 4
"""Children from which on a prefix counts as shared by strangers, not as one session."""
_ROOT: Final = 2
"""Which block tells sessions apart where a class is admitted in part."""
_EVERYTHING: Final = (1.0,) * CLASSES


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the store holds and how long."""

    budget: Bytes
    """Of all replicas that are heard of."""
    own_budget: Bytes | None = None
    """Of what this replica stores; None for no bound of its own."""
    block_bytes: Bytes
    shortest: Seconds = Seconds(60.0)
    """No block is kept for less."""
    longest: Seconds = Seconds(1800.0)
    """For a block that is certain to be seen again; others get their chance's share of it. What
    counts is the order, since a full store evicts the block with the least time left."""
    spare: Seconds = Seconds(0.0)
    """By which every block lives longer: the order stays, and a store with room loses nothing."""
    first: Seconds = Seconds(300.0)
    """Kept for so long before anything was measured."""
    plan_every: Seconds = Seconds(10.0)
    half_life: Seconds = Seconds(600.0)
    """After which a measured rate counts half."""
    least: float = 0.05
    """A class with a smaller chance to be seen again is not stored, however much room there is."""
    journal: int = 8
    """Most pages of sights kept for other replicas."""

    def within(self, ttl: Seconds) -> Limits:
        """The same, with lives up to that and none longer."""
        return msgspec.structs.replace(
            self,
            shortest=min(self.shortest, ttl),
            longest=min(self.longest, ttl),
            first=min(self.first, ttl),
            spare=Seconds(max(0.0, ttl - self.longest)),
        )


class Sighting(msgspec.Struct, frozen=True, gc=False):
    """One request's blocks as admission sees them."""

    classes: tuple[int, ...]
    lot: float
    """Where its session stands in a class that is admitted in part, 0 to 1."""


class Admission:
    """Decides for one replica; deterministic given what it has seen; any thread may call."""

    def __init__(self, limits: Limits, *, width: int = 1 << 18) -> None:
        """width: of the sketch, as in `Sketch`."""
        self._limits = limits
        self._seen = Sketch(width)
        self._children = Sketch(max(2, width // 4))
        self._profile = ReuseProfile(half_life=limits.half_life)
        self._shares: tuple[float, ...] = _EVERYTHING
        self._lives: tuple[float, ...] = (limits.first,) * CLASSES
        self._planned: float | None = None
        self._journal = Journal(limits.journal)
        self._noted, self._own = [0.0] * CLASSES, [0.0] * CLASSES
        """Blocks of each class, and those of them that this replica met itself."""
        self._lock = threading.Lock()

    @property
    def shares(self) -> tuple[float, ...]:
        """Share admitted of each class."""
        return self._shares

    def see(self, hashes: Sequence[int], now: Seconds) -> Sighting:
        """Note a request's blocks, in order, as low 64 bits of their hashes; once a request."""
        with self._lock:
            self._journal.write_down(hashes)
            seen = self._note(hashes, now)
            for kind in seen.classes:
                self._own[kind] += 1
            return seen

    def hear(self, hashes: Sequence[int], now: Seconds) -> None:
        """Note a request that another replica met."""
        with self._lock:
            self._note(hashes, now)

    def keep(self, sighting: Sighting, known: int = 0) -> list[Seconds]:
        """Times to live of the leading blocks to store; no block without those before it.

        known: how many leading blocks the store has: they stay, and get the time given here.
        """
        lives: list[Seconds] = []
        shortest = self._limits.longest
        for place, kind in enumerate(sighting.classes):
            if place >= known and sighting.lot >= self._shares[kind]:
                break
            shortest = Seconds(min(shortest, self._lives[kind]))
            lives.append(Seconds(self._limits.spare + shortest))
        return lives

    def drain(self) -> list[bytes]:
        """Pages of what this replica saw since the last call, for the others to read."""
        with self._lock:
            return self._journal.drain()

    def _note(self, hashes: Sequence[int], now: Seconds) -> Sighting:
        if self._planned is None:
            self._planned = now
        elif now - self._planned >= self._limits.plan_every:
            self._plan(now - self._planned)
            self._planned = now
        counts = [self._seen.add(each) for each in hashes]
        first = next((place for place, count in enumerate(counts) if not count), len(counts))
        session = first > 0 and self._children.count(hashes[first - 1]) < _SHARED_HEAD
        if 0 < first < len(hashes):
            self._children.add(hashes[first - 1])
        base = COUNTS if session else 0
        classes = tuple([base + min(count, COUNTS - 1) for count in counts])
        self._profile.note(hashes, classes, now)
        for kind in classes:
            self._noted[kind] += 1
        root = hashes[min(_ROOT, len(hashes) - 1)] if hashes else 0
        return Sighting(classes, (root * 0x9E3779B97F4A7C15 >> 32 & 0xFFFF) / 65536)

    def _plan(self, passed: Seconds | float) -> None:
        """Fill the budget with the likeliest classes."""
        profile, limits = self._profile, self._limits
        profile.age(passed)
        kept = 0.5 ** (passed / limits.half_life)
        for counts in (self._noted, self._own):
            counts[:] = [kept * each for each in counts]
        chances = [profile.chance(kind) for kind in range(CLASSES)]
        hold = profile.reuse_time()
        if hold is None:
            self._shares = tuple(float(chance >= limits.least) for chance in chances)
            return
        held = [self._held_for(kind, hold) for kind in range(CLASSES)]
        fill = [rate * time for rate, time in zip(profile.rates(), held, strict=True)]
        shares = self._filled(fill, chances, limits.budget)
        if limits.own_budget is not None:
            met = zip(fill, self._own, self._noted, strict=True)
            own = [all_ * mine / noted if noted else 0.0 for all_, mine, noted in met]
            bound = self._filled(own, chances, limits.own_budget)
            shares = [min(pair) for pair in zip(shares, bound, strict=True)]
        self._shares = tuple(shares)
        self._lives = tuple(max(limits.shortest, limits.longest * chance) for chance in chances)

    def _filled(
        self, fill: Sequence[float], chances: Sequence[float], budget: Bytes
    ) -> list[float]:
        """Share of each class for which there is room; fill: blocks that it would occupy."""
        room = budget / self._limits.block_bytes
        shares = [0.0] * CLASSES
        for kind in sorted(range(CLASSES), key=lambda kind: -chances[kind]):
            if chances[kind] >= self._limits.least and room > 0:
                shares[kind] = min(1.0, room / fill[kind]) if fill[kind] else 1.0
                room -= fill[kind]
        return shares

    def _held_for(self, kind: int, hold: Seconds) -> float:
        """Mean time in the store of a block of the class: until it is seen again, or given up."""
        chance = self._profile.chance(kind)
        return (1 - chance) * hold + chance * min(hold, self._profile.gap(kind))
