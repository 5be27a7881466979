"""The system's clocks."""

from __future__ import annotations

import time

from askonce.units import Seconds, UnixTime


class SystemClock:
    """The real time."""

    def now(self) -> UnixTime:
        """Seconds since 1970-01-01 UTC."""
        return UnixTime(time.time())

    def monotonic(self) -> Seconds:
        """Seconds since an arbitrary moment; never goes back."""
        return Seconds(time.perf_counter())
