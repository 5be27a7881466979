"""How blocks of each class are reused: rate, chance and time, measured on a sample of hashes.

Sampling is by hash, so a block is in the sample each time or never. When the sample outgrows its
bound, the half with the greater hashes is dropped, and the rest stands for twice as many.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNTS: Final = 6
"""Classes by number of earlier sights: none to four, and five or more."""
CLASSES: Final = 2 * COUNTS
"""Of shared or new prefixes, then of sessions that go on."""
_EARLY: Final = 4
"""Sights up to which the time between two is counted; hot blocks would drown the rest."""
_STEPS: Final = 4
"""Buckets of the histogram per doubling."""
_LEAST: Final = 20.0
"""Reuses to have seen before their time is told."""
_MOST: Final = 0.75
"""Share of reuses that the reuse time covers."""
_SPACE: Final = 1 << 16


class ReuseProfile:
    """What became of the blocks of each class; O(1) a block."""

    def __init__(self, *, half_life: Seconds, most: int = 1 << 16) -> None:
        """most: blocks in the sample."""
        self._half_life = half_life
        self._most = most
        self._below = _SPACE
        self._last: dict[int, tuple[int, float]] = {}
        self._noted = [0.0] * CLASSES
        self._again = [0.0] * CLASSES
        self._lately = [0.0] * CLASSES
        self._span = 0.0
        self._times = [0.0] * 96

    @property
    def sampled(self) -> float:
        """Share of all blocks that is in the sample."""
        return self._below / _SPACE

    def note(self, hashes: Sequence[int], classes: Sequence[int], now: Seconds) -> None:
        """Note blocks with the classes that they have now."""
        below, last = self._below, self._last
        for hashed, kind in zip(hashes, classes, strict=True):
            if hashed * 0xC2B2AE3D27D4EB4F >> 40 & 0xFFFF >= below:
                continue
            before = last.pop(hashed, None)
            if before is not None:
                self._reused(before, now)
            last[hashed] = (kind, now)
            self._noted[kind] += 1
            self._lately[kind] += 1
        while len(last) > self._most:
            self._thin()
            last = self._last

    def rates(self) -> list[float]:
        """Blocks a second of each class; zeros before the first `age`."""
        scale = self.sampled * self._span
        return [lately / scale if scale else 0.0 for lately in self._lately]

    def chance(self, kind: int) -> float:
        """Share of the class's blocks that are seen again."""
        return (self._again[kind] + 1.0) / (self._noted[kind] + 2.5)

    def reuse_time(self) -> Seconds | None:
        """Within which three of four reuses come; None before there were enough."""
        total = sum(self._times)
        if total < _LEAST:
            return None
        passed = 0.0
        for step, held in enumerate(self._times):
            passed += held
            if passed >= _MOST * total:
                break
        return Seconds(2.0 ** ((step + 1) / _STEPS))

    def age(self, passed: float) -> None:
        """Let what was measured fade by the time that passed."""
        kept = 0.5 ** (passed / self._half_life)
        self._span = (self._span + passed) * kept
        for counts in (self._noted, self._again, self._lately, self._times):
            counts[:] = [kept * each for each in counts]

    def _reused(self, before: tuple[int, float], now: float) -> None:
        kind, when = before
        self._again[kind] += 1
        if kind % COUNTS < _EARLY:
            step = int(_STEPS * math.log2(max(1.0, now - when)))
            self._times[min(step, len(self._times) - 1)] += 1

    def _thin(self) -> None:
        self._below //= 2
        self._lately = [each / 2 for each in self._lately]
        self._last = {
            hashed: held
            for hashed, held in self._last.items()
            if hashed * 0xC2B2AE3D27D4EB4F >> 40 & 0xFFFF < self._below
        }
