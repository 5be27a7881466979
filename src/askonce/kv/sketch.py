"""How often a block was seen, in bounded bytes: a count-min sketch that ages.

Counts are never too low before the first ageing, and too high only where hashes meet in every row.
A block's hash is uniform already, so rows are slices of it, mixed by odd multipliers.
"""

from __future__ import annotations

from typing import Final

_TOP: Final = 255
_HALVED: Final = bytes(value >> 1 for value in range(_TOP + 1))
_FIRST: Final = 0x9E3779B97F4A7C15
_SECOND: Final = 0xC2B2AE3D27D4EB4F
_THIRD: Final = 0x165667B19E3779F9
_MASK: Final = (1 << 64) - 1


class Sketch:
    """Counts up to 255 of 64-bit hashes; `3 * width` bytes; O(1) a call."""

    def __init__(self, width: int = 1 << 18) -> None:
        """width: a power of two, at least the number of blocks alive at a time. Or ValueError."""
        if width < 2 or width & (width - 1):
            raise ValueError("the width of a sketch must be a power of two")
        self._shift = 65 - width.bit_length()
        self._rows = (bytearray(width), bytearray(width), bytearray(width))
        self._left = self._period = 4 * width

    def add(self, hashed: int) -> int:
        """Count one more; returns how often it was seen before."""
        shift = self._shift
        one, two, three = self._rows
        first = (hashed * _FIRST & _MASK) >> shift
        second = (hashed * _SECOND & _MASK) >> shift
        third = (hashed * _THIRD & _MASK) >> shift
        seen = min(one[first], two[second], three[third])
        if seen < _TOP:
            for row, place in ((one, first), (two, second), (three, third)):
                if row[place] == seen:
                    row[place] = seen + 1
        self._left -= 1
        if not self._left:
            self.age()
        return seen

    def count(self, hashed: int) -> int:
        """How often it was seen, about."""
        shift = self._shift
        one, two, three = self._rows
        return min(
            one[(hashed * _FIRST & _MASK) >> shift],
            two[(hashed * _SECOND & _MASK) >> shift],
            three[(hashed * _THIRD & _MASK) >> shift],
        )

    def age(self) -> None:
        """Halve every count, as happens by itself after `4 * width` additions."""
        for row in self._rows:
            row[:] = row.translate(_HALVED)
        self._left = self._period
