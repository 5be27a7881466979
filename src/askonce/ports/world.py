"""The world as the core sees it: time, and where events go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from askonce.events import Event
    from askonce.units import Seconds, UnixTime


class Clock(Protocol):
    """Time; neither call blocks or mutates."""

    def now(self) -> UnixTime:
        """The wall clock, for ages and expiry."""
        ...

    def monotonic(self) -> Seconds:
        """A clock that never goes back, for durations and deadlines."""
        ...


class Sink(Protocol):
    """Where events go."""

    def emit(self, event: Event) -> None:
        """Take one event; must return at once and never raise."""
        ...


class Statistics(Protocol):
    """Any part that can say how it is, for `stats` and `/metrics`."""

    def statistics(self) -> Mapping[str, float]:
        """Current figures by name; cheap and synchronous."""
