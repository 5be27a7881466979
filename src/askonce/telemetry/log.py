"""One line a request and a line for each breaker that moves; never a prompt or an answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from askonce.events import BreakerMoved, Served

if TYPE_CHECKING:
    from askonce.events import Event

access = logging.getLogger("askonce.access")
health = logging.getLogger("askonce.health")


class LogSink:
    """Writes to the loggers `askonce.access` (info) and `askonce.health` (warning)."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def emit(self, event: Event) -> None:
        """Log what an operator wants to see at once; other events are for metrics."""
        if isinstance(event, Served):
            if not access.isEnabledFor(logging.INFO):
                return
            access.info(
                "tier=%s outcome=%s streamed=%s latency_ms=%.2f ttft_ms=%.2f",
                event.tier,
                event.outcome,
                str(event.streamed).lower(),
                event.latency * 1e3,
                event.ttft * 1e3,
            )
        elif isinstance(event, BreakerMoved) and self._is_news(event):
            health.warning("part=%s breaker=%s", event.part, event.state)

    def _is_news(self, event: BreakerMoved) -> bool:
        """A trial that fails, or says nothing under load, leaves everything as it was."""
        told = self._told.get(event.part, "closed")
        if event.state in {"half_open", told}:
            return False
        self._told[event.part] = event.state
        return True
