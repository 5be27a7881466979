"""Entries on their way to a store that takes many at once; nobody waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from askonce.cache.steps import Steps
    from askonce.canonical.entry import Entry
    from askonce.tiers.exact import ExactTier
    from askonce.units import Seconds

log = logging.getLogger(__name__)

LINGER = 0.02
"""Seconds that the first entry waits for others: a transaction costs several times what it does,
and the answer itself goes out first."""
AT_ONCE = 64
"""Entries of a batch; of a long queue up to eight times as many, so that it gets shorter."""
WAITING_BYTES = 64 * 1024 * 1024
"""Bytes of answers that may wait; past it an entry is not stored."""
TELL_EVERY = 10.0
"""Seconds between two lines about entries that were not stored."""


class WriteBack:
    """One writer for all flights: a batch at a time, each one step with one deadline."""

    def __init__(self, exact: ExactTier, steps: Steps, deadline: Seconds) -> None:
        """deadline: for one batch."""
        self._exact = exact
        self._steps = steps
        self._deadline = deadline
        self._waiting: deque[Entry] = deque()
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._told_at = float("-inf")

    @property
    def waiting(self) -> int:
        """Entries that wait."""
        return len(self._waiting)

    def take(self, entry: Entry) -> bool:
        """Store the entry soon; False when too much waits already: then it never is."""
        size = len(entry.answer.rest)
        if self._bytes + size > WAITING_BYTES:
            self._overflown()
            return False
        self._bytes += size
        self._waiting.append(entry)
        if self._timer is None and self._task is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER, self._start)
        return True

    async def settled(self) -> None:
        """Wait until nothing waits; what still lingers begins at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._start()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self, grace: float) -> None:
        """Write what waits, for so many seconds at most."""
        try:
            async with asyncio.timeout(grace):
                await self.settled()
        except TimeoutError:
            task = self._task
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    def _start(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting:
                share = max(AT_ONCE, min(len(self._waiting) // 4, 8 * AT_ONCE))
                await self._write_some(min(share, len(self._waiting)))
        finally:
            self._task = None

    async def _write_some(self, count: int) -> None:
        batch = [self._waiting.popleft() for _ in range(count)]
        self._bytes -= sum([len(entry.answer.rest) for entry in batch])
        await self._steps.attempt(
            "store_write", self._deadline, lambda: self._exact.keep_many(batch)
        )

    def _overflown(self) -> None:
        self._steps.shed("store_write")
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= TELL_EVERY:
            self._told_at = now
            log.warning("answers are not stored: %d wait to be written", len(self._waiting))
