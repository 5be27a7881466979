"""Budgets in time: how many calls or tokens may be spent; pure, time is passed in."""

from __future__ import annotations


class Allowance:
    """A token bucket: so much an hour, and no more than a burst at once. Time is passed in."""

    def __init__(self, *, per_hour: float, burst: float) -> None:
        """Start full."""
        self._rate = per_hour / 3600.0
        self._burst = burst
        self._level = burst
        self._at: float | None = None

    def level(self, now: float) -> float:
        """What may be spent at this monotonic time."""
        if self._at is not None and now > self._at:
            self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now if self._at is None else max(now, self._at)
        return self._level

    def share(self, now: float) -> float:
        """How far it allows spending, in (0, 1]: how full it is, and past its end ever less.

        Halved with each one owed, so that what is owed grows by the logarithm of the demand alone.
        """
        level = self.level(now)
        return level / self._burst if level >= 1 else 2.0 ** max(level - 1, -99.0) / self._burst

    def take(self, now: float, amount: float = 1.0) -> bool:
        """Spend, unless less is left."""
        if self.level(now) < amount:
            return False
        self._level -= amount
        return True

    def settle(self, amount: float) -> None:
        """Correct an estimate by what more (or less, if negative) was used; may go below 0."""
        self._level = min(self._burst, self._level - amount)
