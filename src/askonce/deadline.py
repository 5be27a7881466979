"""Deadlines that share a timer.

A timer of its own costs a short step about as much as its work. Spans of one length end in the
order in which they began, so one timer that follows the oldest is enough for all of them, and it
need not be touched when a span ends in time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Deadlines:
    """Makes spans of one length, for one event loop."""

    __slots__ = ("_ends", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        """Start no timer yet."""
        self._seconds = seconds
        self._ends: dict[Span, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def span(self) -> Span:
        """A context whose block is given up after the seconds, as by `asyncio.timeout`."""
        return Span(self)

    def begin(self, span: Span) -> None:
        """Watch a span."""
        loop = asyncio.get_running_loop()
        self._ends[span] = end = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(end, self._look)

    def end(self, span: Span) -> None:
        """Watch it no longer."""
        self._ends.pop(span, None)

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for span, end in list(self._ends.items()):
            if end > now:
                self._timer = loop.call_at(end, self._look)
                return
            del self._ends[span]
            span.expire()


class Span:
    """Gives its block up when the time is over: it is cancelled and TimeoutError raised."""

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_task")

    def __init__(self, deadlines: Deadlines) -> None:
        """Begin nothing before the block is entered."""
        self._deadlines = deadlines
        self._expired = False

    def __enter__(self) -> Self:
        """Begin; only inside a task."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task to cancel")
        self._task = task
        self._cancelling = task.cancelling()
        self._deadlines.begin(self)
        return self

    def expire(self) -> None:
        """Give the block up."""
        self._expired = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End; a cancellation that is not only this span's own passes through."""
        self._deadlines.end(self)
        if not self._expired:
            return
        ours = self._task.uncancel() <= self._cancelling
        if ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error
