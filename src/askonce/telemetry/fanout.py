"""One sink for several."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.events import Event
    from askonce.ports import Sink


class Fanout:
    """Hands every event to each sink in turn."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)

    def emit(self, event: Event) -> None:
        """Pass one event on."""
        for sink in self._sinks:
            sink.emit(event)
