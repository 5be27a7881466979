"""How much of the recent past a resource was in use."""

from __future__ import annotations

import math
from typing import Final

_MEMORY: Final = 60.0
"""Seconds after which work counts for a third."""


class Usage:
    """Share of the recent past, 0 to 1."""

    def __init__(self) -> None:
        """Never in use."""
        self._worked = self._when = 0.0

    def add(self, now: float, seconds: float) -> None:
        """It was in use for so long."""
        self._fade(now)
        self._worked += seconds

    def share(self, now: float) -> float:
        """At this moment."""
        self._fade(now)
        return min(1.0, self._worked / _MEMORY)

    def _fade(self, now: float) -> None:
        if now > self._when:
            self._worked *= math.exp((self._when - now) / _MEMORY)
            self._when = now
