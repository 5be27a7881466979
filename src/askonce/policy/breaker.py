"""A circuit breaker as a value of time: closed, open, half open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from askonce.events import BreakerState
    from askonce.units import Seconds


class Breaker:
    """Leaves a failing part alone, then lets one trial call through."""

    def __init__(self, *, failures: int, cooldown: Seconds) -> None:
        """Open after `failures` in a row; try again `cooldown` seconds later.

        Calls that fail side by side count once: a moment in which everything is late is no outage.
        """
        self._limit = failures
        self._cooldown = cooldown
        self._failed = 0
        self._failed_at = -math.inf
        self._retry_at: float | None = None
        self._trying = False

    @property
    def state(self) -> BreakerState:
        """Open until the trial call, half open during it."""
        if self._retry_at is None:
            return "closed"
        return "half_open" if self._trying else "open"

    def allows(self, now: Seconds) -> bool:
        """Whether a call may be made now; a True while open is the one trial call."""
        if self._retry_at is None:
            return True
        if self._trying or now < self._retry_at:
            return False
        self._trying = True
        return True

    def succeeded(self) -> None:
        """The part works: close."""
        self._failed = 0
        self._retry_at = None
        self._trying = False

    def failed(self, now: Seconds, *, began: Seconds) -> None:
        """A call that began then has failed: open at the limit, or again after a failed trial."""
        if began < self._failed_at:
            return
        self._failed += 1
        self._failed_at = now
        if self._trying or self._failed >= self._limit:
            self._retry_at = now + self._cooldown
        self._trying = False

    def abandoned(self) -> None:
        """The call ended without saying anything about the part, as when its caller left."""
        self._trying = False
