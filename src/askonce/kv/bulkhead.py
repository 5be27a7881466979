"""A bounded number of threads with a bounded queue: one kind of work cannot sink another."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.units import Seconds


class Bulkhead:
    """Runs work in the order in which it was offered; work must not raise."""

    def __init__(self, name: str, *, threads: int, depth: int) -> None:
        """depth: work that may wait or run at once. Threads start with the first work."""
        self._name = name
        self._count = threads
        self._depth = depth
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._closed = False

    def offer(self, work: Callable[[], None]) -> bool:
        """Have it run soon; False when there is too much already, no thread, or after `close`."""
        with self._lock:
            if self._closed or self._under_way >= self._depth:
                return False
            wanted = len(self._threads) < min(self._count, self._under_way + 1)
            if wanted and not self._start() and not self._threads:
                return False
            self._under_way += 1
        self._queue.put(work)
        return True

    def close(self, timeout: Seconds) -> bool:
        """Take no more work, and wait for what there is; whether all ended in time."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def _start(self) -> bool:
        """One thread more; False where the process may have none."""
        number = len(self._threads)
        thread = threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._threads.append(thread)
        return True

    def _run(self) -> None:
        unbind()
        while (work := self._queue.get()) is not None:
            try:
                work()
            finally:
                with self._lock:
                    self._under_way -= 1


def bulkheads(name: str, *, depth: int, **threads: int) -> dict[str, Bulkhead]:
    """One for each kind of work, by its number of threads."""
    return {
        kind: Bulkhead(f"{name}-{kind}", threads=count, depth=depth)
        for kind, count in threads.items()
    }


def unbind() -> None:
    """Let the calling thread run wherever any thread of this process may.

    Engines for CPUs bind each of their threads to one core, and a thread that the busiest of them
    starts would share its core.
    """
    everywhere: set[int] = set()
    with suppress(OSError, AttributeError):  # elsewhere nothing is bound
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - names only
            with suppress(ProcessLookupError):  # it has ended meanwhile
                everywhere |= os.sched_getaffinity(int(thread))
        os.sched_setaffinity(0, everywhere)
