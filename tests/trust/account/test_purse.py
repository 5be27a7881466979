"""Money for evidence lasts for an hour, and is told as it is spent."""

from __future__ import annotations

import pytest

from askonce.events import Paid
from askonce.testing import FakeClock, RecordingSink
from askonce.trust.account.purse import HOUR, Bill, Price, Purse, tokens_of

PRICES = (Price("a", "big-*", 2.0, 10.0), Price("a", "*", 1.0, 1.0))


def test_calls_are_paid_by_the_first_price_that_fits() -> None:
    """Prompt and completion have a price each; what has none costs nothing."""
    sink = RecordingSink()
    purse = Purse(float("inf"), PRICES, clock=FakeClock(), sink=sink)
    purse.pay("audit", Bill("a", "big-one", 1_000_000, 100_000))
    purse.pay("judge", Bill("a", "small", 500_000, 500_000))
    purse.pay("judge", Bill("b", "big-one", 500_000, 500_000))
    assert [(event.purpose, event.cost) for event in sink.of(Paid)] == [
        ("audit", 3.0),
        ("judge", 1.0),
        ("judge", 0.0),
    ]
    assert purse.share == 1.0


def test_an_hours_money_comes_to_an_end() -> None:
    """The second half is spent ever more slowly, and nothing past the end, until the next hour."""
    clock = FakeClock()
    purse = Purse(4.0, PRICES, clock=clock, sink=RecordingSink())
    shares = []
    for _ in range(5):
        shares.append(purse.share)
        purse.pay("audit", Bill("a", "small", 1_000_000, 0))
    assert shares == [1.0, 1.0, 1.0, 0.5, 0.0]
    clock.advance(HOUR - 1)
    assert purse.share == 0.0
    clock.advance(1)
    assert purse.share == 1.0


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (9, 3)])
def test_sizes_stand_for_tokens(size: int, tokens: int) -> None:
    """Where an engine does not count, a token is three bytes."""
    assert tokens_of(size) == tokens
