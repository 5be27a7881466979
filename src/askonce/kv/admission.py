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

Replicas tell each other what they saw, 8 bytes a block (`drain`, `merge`): behind a router that
spreads a session over replicas none of them would see it twice.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import msgspec

from askonce.kv.reuse import CLASSES, COUNTS, ReuseProfile
from askonce.kv.sketch import Sketch
from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHARED_HEAD: Final = 4
"""Children from which on a prefix counts as shared by strangers, not as one session."""
_ROOT: Final = 2
"""Which block tells sessions apart where a class is admitted in part."""
_COUNT: Final = struct.Struct("<I")
_EVERYTHING: Final = (1.0,) * CLASSES


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the store holds and how long."""

    budget: Bytes
    block_bytes: Bytes
    shortest: Seconds = Seconds(60.0)
    """No block is kept for less."""
    longest: Seconds = Seconds(1800.0)
    """For a block that is certain to be seen again; others get their chance's share of it. What
    counts is mostly the order, since a full store evicts the block with the least time left."""
    first: Seconds = Seconds(300.0)
    """Kept for so long before anything was measured."""
    plan_every: Seconds = Seconds(10.0)
    half_life: Seconds = Seconds(600.0)
    """After which a measured rate counts half."""
    least: float = 0.05
    """A class with a smaller chance to be seen again is not stored, however much room there is."""
    journal: int = 1 << 20
    """Most bytes of sights kept for other replicas, older ones are dropped, or taken from one."""


class Sighting(msgspec.Struct, frozen=True, gc=False):
    """One request's blocks as admission sees them."""

    classes: tuple[int, ...]
    lot: float
    """Where its session stands in a class that is admitted in part, 0 to 1."""


class Admission:
    """Decides for one replica; deterministic given what it has seen."""

    def __init__(self, limits: Limits, *, width: int = 1 << 18) -> None:
        """width: of the sketch, as in `Sketch`."""
        self._limits = limits
        self._seen = Sketch(width)
        self._children = Sketch(max(2, width // 4))
        self._profile = ReuseProfile(half_life=limits.half_life)
        self._shares: tuple[float, ...] = _EVERYTHING
        self._lives: tuple[float, ...] = (limits.first,) * CLASSES
        self._planned: float | None = None
        self._journal = bytearray()

    @property
    def shares(self) -> tuple[float, ...]:
        """Share admitted of each class."""
        return self._shares

    def see(self, hashes: Sequence[int], now: Seconds) -> Sighting:
        """Note a request's blocks, in order, as low 64 bits of their hashes; once a request."""
        self._write_down(hashes)
        return self._note(hashes, now)

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
            lives.append(shortest)
        return lives

    def drain(self) -> bytes:
        """What this replica saw since the last call, for the others to merge."""
        told = bytes(self._journal)
        self._journal.clear()
        return told

    def merge(self, told: bytes, now: Seconds) -> bool:
        """Note what another replica saw; False, and nothing noted, where bytes make no sense."""
        if len(told) > self._limits.journal:
            return False
        requests: list[tuple[int, ...]] = []
        place = 0
        while place < len(told):
            if len(told) - place < _COUNT.size:
                return False
            (count,) = _COUNT.unpack_from(told, place)
            place += _COUNT.size
            if not 0 < count <= (len(told) - place) // 8:
                return False
            requests.append(struct.unpack_from(f"<{count}Q", told, place))
            place += 8 * count
        for hashes in requests:
            self._note(hashes, now)
        return True

    def _write_down(self, hashes: Sequence[int]) -> None:
        size = _COUNT.size + 8 * len(hashes)
        if not hashes or size > self._limits.journal:
            return
        if len(self._journal) + size > self._limits.journal:
            self._journal.clear()
        self._journal += struct.pack(f"<I{len(hashes)}Q", len(hashes), *hashes)

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
        root = hashes[min(_ROOT, len(hashes) - 1)] if hashes else 0
        return Sighting(classes, (root * 0x9E3779B97F4A7C15 >> 32 & 0xFFFF) / 65536)

    def _plan(self, passed: Seconds | float) -> None:
        """Fill the budget with the likeliest classes."""
        profile, limits = self._profile, self._limits
        profile.age(passed)
        chances = [profile.chance(kind) for kind in range(CLASSES)]
        hold = profile.reuse_time()
        if hold is None:
            self._shares = tuple(float(chance >= limits.least) for chance in chances)
            return
        held = [self._held_for(kind, hold) for kind in range(CLASSES)]
        fill = [rate * time for rate, time in zip(profile.rates(), held, strict=True)]
        room = limits.budget / limits.block_bytes
        shares = [0.0] * CLASSES
        for kind in sorted(range(CLASSES), key=lambda kind: -chances[kind]):
            if chances[kind] >= limits.least and room > 0:
                shares[kind] = min(1.0, room / fill[kind]) if fill[kind] else 1.0
                room -= fill[kind]
        self._shares = tuple(shares)
        self._lives = tuple(max(limits.shortest, limits.longest * chance) for chance in chances)

    def _held_for(self, kind: int, hold: Seconds) -> float:
        """Mean time in the store of a block of the class: until it is seen again, or given up."""
        chance = self._profile.chance(kind)
        return (1 - chance) * hold + chance * min(hold, self._profile.gap(kind))


class Claims:
    """Who writes a block: one at a time, so that replicas do not write the same bytes twice.

    Within a process this is the whole of it. Between processes the same claim is a key in the
    store that is set only if it is absent and that expires after `hold`.
    """

    def __init__(self, hold: Seconds) -> None:
        """hold: after which a claim that was never released is void."""
        self._hold = hold
        self._held: dict[bytes, float] = {}

    def claim(self, key: bytes, now: Seconds) -> bool:
        """Whether the caller is the one to write; it must release the key afterwards."""
        while self._held:
            oldest = next(iter(self._held))
            if self._held[oldest] > now:
                break
            del self._held[oldest]
        if key in self._held:
            return False
        self._held[key] = now + self._hold
        return True

    def release(self, key: bytes) -> None:
        """Give the key back; nothing happens if it was not held."""
        self._held.pop(key, None)
