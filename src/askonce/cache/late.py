"""Questions that a busy embedder had no time for: indexed later, when it has nothing else to do."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from askonce.cache.steps import Skipped
from askonce.events import IndexedLate
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.cache.steps import Steps
    from askonce.ports import Clock, IndexedText, Sink
    from askonce.tiers.semantic import SemanticTier

WAITING = 1024
"""Questions that may wait; of more, the oldest are let go."""
PAUSE = 0.05
"""Seconds between two looks whether the embedder is idle."""
_DEADLINE = Seconds(10.0)


class _Late(NamedTuple):
    partition: bytes
    item: IndexedText


class LateIndex:
    """One at a time, in order, and none while a request's own text is being embedded."""

    def __init__(self, semantic: SemanticTier, steps: Steps, *, clock: Clock, sink: Sink) -> None:
        """Start nothing."""
        self._semantic = semantic
        self._steps = steps
        self._clock = clock
        self._sink = sink
        self._waiting: deque[_Late] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Questions that wait."""
        return len(self._waiting)

    def take(self, partition: bytes, item: IndexedText) -> None:
        """Index the question some time."""
        self._waiting.append(_Late(partition, item))
        self._tell("waits")
        if len(self._waiting) > WAITING:
            self._waiting.popleft()
            self._tell("lost")
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Let go what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(PAUSE)
                if not self._semantic.reading:
                    await self._index(self._waiting.popleft())
        finally:
            self._task = None

    async def _index(self, late: _Late) -> None:
        if late.item.expires_at <= self._clock.now():
            self._tell("lost")
            return
        done = await self._steps.attempt(
            "semantic_write", _DEADLINE, lambda: self._semantic.keep_late(*late)
        )
        if not isinstance(done, Skipped):
            self._tell("indexed")
        elif done.cause in {"busy", "breaker"}:
            self._waiting.appendleft(late)
        else:
            self._tell("lost")

    def _tell(self, outcome: Literal["waits", "indexed", "lost"]) -> None:
        self._sink.emit(IndexedLate(outcome))
