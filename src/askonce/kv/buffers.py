"""Buffers that are used over and over: fresh ones of megabytes cost a page fault a page."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEPT = 64 * 1024 * 1024
"""Bytes of idle buffers of one size."""


class Buffers:
    """Lends buffers by size; what they hold is what the last borrower left."""

    def __init__(self) -> None:
        """None yet."""
        self._lock = threading.Lock()
        self._idle: dict[int, deque[memoryview]] = defaultdict(deque)

    def lease(self, size: int) -> memoryview:
        """One of exactly this size."""
        with self._lock:
            idle = self._idle[size]
            if idle:
                return idle.pop()
        return memoryview(bytearray(size))

    def give_back(self, buffers: Iterable[memoryview]) -> None:
        """Nobody uses these any more."""
        with self._lock:
            for buffer in buffers:
                idle = self._idle[buffer.nbytes]
                if (len(idle) + 1) * buffer.nbytes <= _KEPT:
                    idle.append(buffer)
