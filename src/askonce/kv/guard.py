"""The breaker of one store's pool."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from askonce.kv.ports import FAULTS
from askonce.policy.breaker import Breaker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.events import BreakerState
    from askonce.kv.shelf import BlockOutcome
    from askonce.ports import Clock
    from askonce.units import Seconds


class Guard:
    """A breaker for many threads, told of calls by what became of their blocks."""

    def __init__(self, *, failures: int, cooldown: Seconds, clock: Clock) -> None:
        """Let everything through at first; see `Breaker`."""
        self._breaker = Breaker(failures=failures, cooldown=cooldown)
        self._clock = clock
        self._lock = threading.Lock()

    @property
    def state(self) -> BreakerState:
        """Whether the store is left alone."""
        with self._lock:
            return self._breaker.state

    def allows(self) -> bool:
        """Whether a call may be made now; then `tell` of it, or that it was `abandoned`."""
        with self._lock:
            return self._breaker.allows(self._clock.monotonic())

    def abandoned(self) -> None:
        """The call was not made."""
        with self._lock:
            self._breaker.abandoned()

    def tell(self, outcomes: Sequence[BlockOutcome], began: Seconds) -> None:
        """The call failed when all that the store was asked for did."""
        asked = [said for said in outcomes if said not in _UNASKED]
        with self._lock:
            if not asked:
                self._breaker.abandoned()
            elif all(said in FAULTS for said in asked):
                self._breaker.failed(self._clock.monotonic(), began=began)
            else:
                self._breaker.succeeded()


_UNASKED = frozenset({"open", "declined", "stale"})
