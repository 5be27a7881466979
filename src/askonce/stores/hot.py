"""Entries in process: a byte-bounded LRU with absolute expiry, before any store."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")

OVERHEAD = 340
"""Bytes that an entry costs besides its value, measured: key, slot, list node, tuple, numbers."""


class HotEntries(Generic[T]):
    """Synchronous and for one thread; every call is O(1), `put` amortised over what it evicts.

    `size` counts the values as their callers measured them plus OVERHEAD each, so the bound is
    one of real memory.
    """

    __slots__ = ("_entries", "_max_bytes", "_size", "evicted", "expired")

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: 0 keeps nothing."""
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, tuple[T, int, float]] = OrderedDict()
        self._size = 0
        self.evicted = 0
        """Entries that left to make room, since the start."""
        self.expired = 0
        """Entries found past their life, since the start."""

    def __len__(self) -> int:
        """Entries held, the expired ones that nobody asked for included."""
        return len(self._entries)

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._size

    def get(self, key: bytes, now: float) -> T | None:
        """Return the live value and make it the youngest; never extends a life."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[2] <= now:
            self.discard(key)
            self.expired += 1
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: bytes, value: T, size: int, expires_at: float) -> int:
        """Set the value, replacing any; returns how many entries left to make room.

        A value larger than the bound is not kept and counts as one that left; without a bound to
        fill there is no room that it lacks.
        """
        self.discard(key)
        if not self._max_bytes:
            return 0
        cost = size + OVERHEAD
        if cost > self._max_bytes:
            self.evicted += 1
            return 1
        self._entries[key] = (value, cost, expires_at)
        self._size += cost
        return self._make_room() if self._size > self._max_bytes else 0

    def discard(self, key: bytes) -> None:
        """Remove the entry if it is there."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= entry[1]

    def clear(self) -> int:
        """Remove everything; returns how many entries there were."""
        count = len(self._entries)
        self._entries.clear()
        self._size = 0
        return count

    def _make_room(self) -> int:
        left = 0
        while self._size > self._max_bytes:
            _, entry = self._entries.popitem(last=False)
            self._size -= entry[1]
            left += 1
        self.evicted += left
        return left
