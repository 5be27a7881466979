"""What it costs to know: money for audits and judges, by the hour."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from askonce.events import Paid
from askonce.units import USD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from askonce.ports import Clock, Sink

HOUR = 3600.0
_MILLION = 1_000_000
_FULL = 0.5
"""Share of the hour's money up to which nothing is spared."""
_BYTES_A_TOKEN = 3


class Price(NamedTuple):
    """What one upstream takes for models of one name; USD a million tokens."""

    upstream: str
    models: str
    """A shell pattern."""
    prompt: float
    completion: float


class Bill(NamedTuple):
    """What one call has used."""

    upstream: str
    model: str
    prompt: int
    """Tokens."""
    completion: int


def tokens_of(size: int) -> int:
    """About how many tokens so many bytes are, where the engine does not say."""
    return size // _BYTES_A_TOKEN


class Purse:
    """The money of one process: filled anew each hour, shared by all who ask engines to know."""

    def __init__(
        self, per_hour: float, prices: Sequence[Price], *, clock: Clock, sink: Sink
    ) -> None:
        """per_hour: in USD; infinite sets no bound. The first price that fits counts."""
        self._per_hour = per_hour
        self._prices = prices
        self._clock = clock
        self._sink = sink
        self._spent = 0.0
        self._since = clock.monotonic()

    @property
    def share(self) -> float:
        """Share of what is wanted that can be paid for: falls from half of the money on, to 0."""
        if self._per_hour == float("inf"):
            return 1.0
        now = self._clock.monotonic()
        if now - self._since >= HOUR:
            self._since, self._spent = now, 0.0
        if self._spent >= self._per_hour:
            return 0.0
        return min(1.0, (1 - self._spent / self._per_hour) / _FULL)

    def pay(self, purpose: Literal["audit", "judge"], bill: Bill) -> None:
        """Take the money for a call that was made; the last one of an hour may overdraw it."""
        cost = self._cost(bill)
        self._spent += cost
        self._sink.emit(Paid(purpose, cost))

    def _cost(self, bill: Bill) -> USD:
        for price in self._prices:
            if price.upstream == bill.upstream and fnmatchcase(bill.model, price.models):
                return USD(
                    (price.prompt * bill.prompt + price.completion * bill.completion) / _MILLION
                )
        return USD(0.0)
