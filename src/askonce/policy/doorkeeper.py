"""Which requests have come before, remembered in a few bits each."""

from __future__ import annotations

REMEMBERED = 1 << 17
"""Keys of one generation; of two, the older is forgotten when the younger is full."""
_BITS_PER_KEY = 16
_MASK = REMEMBERED * _BITS_PER_KEY - 1
_PLACES = (0, 4, 8, 12)
"""Where four numbers begin in a key, each of which names a bit."""


class Doorkeeper:
    """Knows the last 131,072 to 262,144 keys in 512 KiB.

    It takes a new key for a known one about once in 400 times when it is full, and never a known
    one for new while it remembers it.
    """

    def __init__(self) -> None:
        """Know none."""
        self._young = bytearray((_MASK + 1) // 8)
        self._old = b""
        self._count = 0

    def knows(self, key: bytes) -> bool:
        """Whether this key came before; it is known from then on. key: evenly spread bytes."""
        places = [int.from_bytes(key[at : at + 4], "big") & _MASK for at in _PLACES]
        if _all(self._young, places):
            return True
        known = bool(self._old) and _all(self._old, places)
        if self._count == REMEMBERED:
            self._old, self._young, self._count = bytes(self._young), bytearray(len(self._young)), 0
        for place in places:
            self._young[place >> 3] |= 1 << (place & 7)
        self._count += 1
        return known


def _all(bits: bytes | bytearray, places: list[int]) -> bool:
    return all(bits[place >> 3] >> (place & 7) & 1 for place in places)
