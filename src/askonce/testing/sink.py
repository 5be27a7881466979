"""A sink that remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from askonce.events import Event

E = TypeVar("E", bound="Event")


class RecordingSink:
    """A `Sink` that keeps every event in order."""

    def __init__(self) -> None:
        """Start with none."""
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Keep one event."""
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one type, in order."""
        return [event for event in self.events if isinstance(event, kind)]
