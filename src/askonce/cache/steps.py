"""Cache steps that cannot hurt: each has a deadline and a breaker, and a fault is a miss.

This is the one place where any exception of a cache part is caught.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from askonce.deadline import Deadlines, Span
from askonce.errors import (
    CacheFault,
    EmbedderBusy,
    EntryUnreadable,
    TextTooLong,
    VerifierBusy,
    places,
)
from askonce.events import BreakerMoved, BreakerState, Part, SkipCause, StepSkipped
from askonce.policy.breaker import Breaker
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from askonce.config import BreakerConfig
    from askonce.ports import Clock, Sink

T = TypeVar("T")
log = logging.getLogger(__name__)

RESERVE = 0.0025
"""Seconds of a deadline, a fifth of it at most, for what follows when it is missed: event loops
wait by whole milliseconds, and a process that has slept goes on slowly, the longer the more."""


class Skipped(msgspec.Struct, frozen=True):
    """A step that was given up, and why."""

    part: Part
    cause: SkipCause

    @property
    def detail(self) -> str:
        """The words for `Cache-Status`."""
        return f"{self.part}_{self.cause}"


class _Call(NamedTuple):
    """One step under way."""

    breaker: Breaker
    began: Seconds
    trial: bool

    def said_nothing(self) -> None:
        """Only the trial itself may give way to another one."""
        if self.trial:
            self.breaker.abandoned()


class Steps:
    """Runs steps of cache parts, one breaker for each part."""

    def __init__(self, config: BreakerConfig, *, clock: Clock, sink: Sink) -> None:
        """All breakers start closed."""
        self._config = config
        self._clock = clock
        self._sink = sink
        self._breakers: dict[Part, Breaker] = {}
        self._deadlines: dict[Seconds, Deadlines] = {}
        self._told: dict[Part, BreakerState] = {}

    async def attempt(
        self, part: Part, deadline: Seconds, step: Callable[[], Awaitable[T]]
    ) -> T | Skipped:
        """The step's result, or Skipped; raises nothing but cancellation."""
        breaker = self._breaker(part)
        began = self._clock.monotonic()
        if not breaker.allows(began):
            return self._skip(part, "breaker")
        self._tell(part, breaker)
        call = _Call(breaker, began, trial=breaker.state == "half_open")
        try:
            with self._within(deadline):
                result = await step()
        except asyncio.CancelledError as cancelled:
            if _is_ours():
                call.said_nothing()
                raise
            cause = self._judge(part, call, cancelled)
        except Exception as error:  # noqa: BLE001 - a cache fault never fails a request
            cause = self._judge(part, call, error)
        else:
            breaker.succeeded()
            return result
        finally:
            self._tell(part, breaker)
        return self._skip(part, cause)

    def guard(self, part: Part, step: Callable[[], T]) -> T | Skipped:
        """The result of a step that does not wait, or Skipped; raises nothing."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - a cache fault never fails a request
            _log_fault(part, error)
            return self._skip(part, "error")

    def states(self) -> dict[Part, BreakerState]:
        """Each part's breaker, of those that have been used."""
        return {part: breaker.state for part, breaker in self._breakers.items()}

    def shed(self, part: Part) -> Skipped:
        """Count a step that was not even tried, since too many wait for the part."""
        return self._skip(part, "busy")

    def _judge(self, part: Part, call: _Call, error: BaseException) -> SkipCause:
        """What an error says of the part: a full queue or a foreign entry is no failure of it."""
        if isinstance(error, EmbedderBusy | VerifierBusy | TextTooLong):
            call.said_nothing()
            return "too_long" if isinstance(error, TextTooLong) else "busy"
        if isinstance(error, EntryUnreadable):
            call.breaker.succeeded()
            return "unreadable"
        call.breaker.failed(self._clock.monotonic(), began=call.began)
        if isinstance(error, TimeoutError):
            return "deadline"
        _log_fault(part, error)
        return "error"

    def _within(self, deadline: Seconds) -> Span:
        deadlines = self._deadlines.get(deadline)
        if deadlines is None:
            wait = deadline - min(RESERVE, deadline / 5)
            deadlines = self._deadlines[deadline] = Deadlines(wait)
        return deadlines.span()

    def _breaker(self, part: Part) -> Breaker:
        breaker = self._breakers.get(part)
        if breaker is None:
            breaker = self._breakers[part] = Breaker(
                failures=self._config.failures, cooldown=Seconds(self._config.cooldown)
            )
        return breaker

    def _skip(self, part: Part, cause: SkipCause) -> Skipped:
        self._sink.emit(StepSkipped(part, cause))
        return Skipped(part, cause)

    def _tell(self, part: Part, breaker: Breaker) -> None:
        if breaker.state != self._told.get(part, "closed"):
            self._told[part] = breaker.state
            self._sink.emit(BreakerMoved(part, breaker.state))


def _is_ours() -> bool:
    """Whether a cancellation was asked of this task, and did not just come out of a step."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _log_fault(part: Part, error: BaseException) -> None:
    """Our own errors speak for themselves; another's message may quote a prompt."""
    told = str(error) if isinstance(error, CacheFault) else places(error)
    log.warning("cache part %s failed: %s: %s", part, type(error).__name__, told)
