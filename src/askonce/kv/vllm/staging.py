"""Room in host memory for blocks between the engine's cache and the store."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


class Staging:
    """Slots of one block each, used over and over; one thread calls."""

    def __init__(self, block_bytes: int, budget: int) -> None:
        """budget: bytes at most; memory is taken as slots are first used."""
        self._free = deque(range(max(1, budget // block_bytes)))
        self._room = np.empty((len(self._free), block_bytes), dtype=np.uint8)

    @property
    def free(self) -> int:
        """Slots that nobody has."""
        return len(self._free)

    def lease(self, count: int) -> list[int] | None:
        """So many slots, or None when there are not."""
        if count > len(self._free):
            return None
        return [self._free.popleft() for _ in range(count)]

    def give_back(self, slots: Sequence[int]) -> None:
        """Nobody touches these any more."""
        self._free.extendleft(slots)

    def views(self, slots: Sequence[int]) -> list[memoryview]:
        """The slots' bytes."""
        return [memoryview(self._room[slot]) for slot in slots]

    def rows(self, slot: int, layers: int) -> Bytes:
        """One slot as a row for each layer."""
        rows: Bytes = self._room[slot].reshape(layers, -1)
        return rows
