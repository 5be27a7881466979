"""How blocks of each class are reused: rate, chance and time, measured on a sample of hashes.

Sampling is by hash, so a block is in the sample each time or never. When the sample outgrows its
bound, the half with the greater hashes is dropped, and the rest stands for twice as many.
"""

from __future__ import annotations

import math
from itertools import accumulate
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
_LONG: Final = 3600.0
"""Seconds after which a block that was not seen again counts as one that never is."""
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
        self._gaps = [0.0] * CLASSES

    @property
    def sampled(self) -> float:
        """Share of all blocks that is in the sample."""
        return self._below / _SPACE

    def note(self, hashes: Sequence[int], classes: Sequence[int], now: Seconds) -> None:
        """Note blocks with the classes that they have now."""
        below, last = self._below, self._last
        for hashed, kind in zip(hashes, classes, strict=True):
            if _place(hashed) >= below:
                continue
            before = last.pop(hashed, None)
            if before is not None:
                self._reused(before, now)
            last[hashed] = (kind, now)
            self._noted[kind] += 1
            self._lately[kind] += 1
        self._bound(now)

    def rates(self) -> list[float]:
        """Blocks a second of each class; zeros before the first `age`."""
        scale = self.sampled * self._span
        return [lately / scale if scale else 0.0 for lately in self._lately]

    def chance(self, kind: int) -> float:
        """Share of the class's blocks that are seen again."""
        return min(1.0, (self._again[kind] + 1.0) / (self._noted[kind] + 2.5))

    def gap(self, kind: int) -> Seconds:
        """Mean time until a block of the class is seen again, if it is; 0 before any was."""
        return Seconds(self._gaps[kind] / self._again[kind] if self._again[kind] else 0.0)

    def reuse_time(self) -> Seconds | None:
        """Within which three of four reuses come; None before there were enough."""
        total = sum(self._times)
        if total < _LEAST:
            return None
        passed = accumulate(self._times)
        step = next(step for step, seen in enumerate(passed, 1) if seen >= _MOST * total)
        return Seconds(2.0 ** (step / _STEPS))

    def age(self, passed: float) -> None:
        """Let what was measured fade by the time that passed."""
        kept = 0.5 ** (passed / self._half_life)
        self._span = (self._span + passed) * kept
        for counts in (self._noted, self._again, self._gaps, self._lately, self._times):
            counts[:] = [kept * each for each in counts]

    def _reused(self, before: tuple[int, float], now: float) -> None:
        kind, when = before
        self._again[kind] += 1
        self._gaps[kind] += now - when
        if kind % COUNTS < _EARLY:
            step = int(_STEPS * math.log2(max(1.0, now - when)))
            self._times[min(step, len(self._times) - 1)] += 1

    def _bound(self, now: float) -> None:
        """Forget blocks that were not seen for long; if there are none, sample fewer."""
        while len(self._last) > self._most:
            oldest = next(iter(self._last))
            if now - self._last[oldest][1] >= _LONG:
                del self._last[oldest]
            else:
                self._thin(now)

    def _thin(self, now: float) -> None:
        self._below //= 2
        self._lately = [each / 2 for each in self._lately]
        kept: dict[int, tuple[int, float]] = {}
        for hashed, held in self._last.items():
            if _place(hashed) < self._below:
                kept[hashed] = held
            else:  # whether it is seen again will not be known
                kind, when = held
                faded = 0.5 ** ((now - when) / self._half_life)
                self._noted[kind] = max(0.0, self._noted[kind] - faded)
        self._last = kept


def _place(hashed: int) -> int:
    """Where a hash stands among all, from 0 to `_SPACE`."""
    return hashed * 0xC2B2AE3D27D4EB4F >> 40 & 0xFFFF
