"""Deadlines that share a timer.

A timer of its own costs a short step about as much as its work. Spans of one length end in the
order in which they began, so one timer that follows the oldest is enough for all of them, and it
need not be touched when a span ends in time.

When the timer itself comes late, the event loop was busy with something else, and what the spans
wait for may long have come. They then get their length once more before they are given up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Deadlines:
    """Makes spans of one length, for one event loop."""

    __slots__ = ("_due", "_ends", "_seconds", "_spared", "_timer")

    def __init__(self, seconds: float) -> None:
        """Start no timer yet."""
        self._seconds = seconds
        self._ends: dict[Span, float] = {}
        self._spared: set[Span] = set()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def span(self) -> Span:
        """A context whose block is given up after the seconds, as by `asyncio.timeout`."""
        return Span(self)

    def begin(self, span: Span) -> None:
        """Watch a span."""
        loop = asyncio.get_running_loop()
        self._ends[span] = end = loop.time() + self._seconds
        if self._timer is None:
            self._look_at(end)

    def end(self, span: Span) -> None:
        """Watch it no longer."""
        self._ends.pop(span, None)
        self._spared.discard(span)

    def _look_at(self, when: float) -> None:
        self._due = when
        self._timer = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        late = now - self._due > self._seconds / 2
        for span, end in list(self._ends.items()):
            if end > now:
                break
            del self._ends[span]
            if late and span not in self._spared:
                self._spared.add(span)
                self._ends[span] = now + self._seconds
            else:
                self._spared.discard(span)
                span.expire()
        if self._ends and self._timer is None:
            self._look_at(next(iter(self._ends.values())))


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
