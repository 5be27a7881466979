"""Cache steps that cannot hurt: each has a deadline and a breaker, and a fault is a miss.

This is the one place where any exception of a cache part is caught.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

import msgspec

from askonce.errors import EmbedderBusy, EntryUnreadable, TextTooLong
from askonce.events import BreakerMoved, Part, SkipCause, StepSkipped
from askonce.policy.breaker import Breaker
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from askonce.config import BreakerConfig
    from askonce.ports import Clock, Sink

T = TypeVar("T")
log = logging.getLogger(__name__)


class Skipped(msgspec.Struct, frozen=True):
    """A step that was given up, and why."""

    part: Part
    cause: SkipCause

    @property
    def detail(self) -> str:
        """The words for `Cache-Status`."""
        return f"{self.part}_{self.cause}"


class Steps:
    """Runs steps of cache parts, one breaker for each part."""

    def __init__(self, config: BreakerConfig, *, clock: Clock, sink: Sink) -> None:
        """All breakers start closed."""
        self._config = config
        self._clock = clock
        self._sink = sink
        self._breakers: dict[Part, Breaker] = {}

    async def attempt(
        self, part: Part, deadline: Seconds, step: Callable[[], Awaitable[T]]
    ) -> T | Skipped:
        """The step's result, or Skipped; raises nothing but cancellation."""
        breaker = self._breaker(part)
        if not breaker.allows(self._clock.monotonic()):
            return self._skip(part, "breaker")
        before = breaker.state
        try:
            async with asyncio.timeout(deadline):
                result = await step()
        except asyncio.CancelledError:
            breaker.abandoned()
            raise
        except Exception as error:  # noqa: BLE001 - a cache fault never fails a request
            cause = self._judge(part, breaker, error)
            self._tell(part, before, breaker)
            return self._skip(part, cause)
        breaker.succeeded()
        self._tell(part, before, breaker)
        return result

    def _judge(self, part: Part, breaker: Breaker, error: Exception) -> SkipCause:
        """What an error says of the part: a full queue or a foreign entry is no failure of it."""
        if isinstance(error, EmbedderBusy | TextTooLong):
            breaker.abandoned()
            return "busy" if isinstance(error, EmbedderBusy) else "too_long"
        if isinstance(error, EntryUnreadable):
            breaker.succeeded()
            return "unreadable"
        breaker.failed(self._clock.monotonic())
        if isinstance(error, TimeoutError):
            return "deadline"
        log.warning("cache part %s failed: %s: %s", part, type(error).__name__, error)
        return "error"

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

    def _tell(self, part: Part, before: str, breaker: Breaker) -> None:
        if breaker.state != before:
            self._sink.emit(BreakerMoved(part, breaker.state))
