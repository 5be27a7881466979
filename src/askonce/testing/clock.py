"""A clock that stands still until it is told to move."""

from __future__ import annotations

from askonce.units import Seconds, UnixTime


class FakeClock:
    """A `Clock` whose wall and monotonic time move together, by hand alone."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        """Start at `now` by the wall clock and at zero by the monotonic one."""
        self._start = now
        self._passed = 0.0

    def now(self) -> UnixTime:
        """The wall clock."""
        return UnixTime(self._start + self._passed)

    def monotonic(self) -> Seconds:
        """Seconds since this clock was made."""
        return Seconds(self._passed)

    def advance(self, seconds: float) -> None:
        """Let time pass; it never goes back."""
        if seconds < 0:
            raise ValueError("time never goes back")
        self._passed += seconds
