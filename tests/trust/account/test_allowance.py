"""Budgets in time."""

from __future__ import annotations

import pytest

from askonce.trust.account.allowance import Allowance


def test_an_allowance_fills_with_time() -> None:
    """It fills up to its burst, and a clock that stands or goes back adds nothing."""
    allowance = Allowance(per_hour=3600.0, burst=2.0)
    assert allowance.take(0.0)
    assert allowance.take(0.0)
    assert not allowance.take(0.5)
    assert allowance.share(0.5) < 0.5
    assert allowance.take(1.5)
    assert allowance.level(1.0) == pytest.approx(0.5)
    assert allowance.level(100.0) == 2.0
    assert allowance.share(100.0) == 1.0


def test_an_allowance_is_settled_afterwards() -> None:
    """What cost more than thought is owed, what cost less is given back."""
    allowance = Allowance(per_hour=3600.0, burst=10.0)
    assert allowance.level(0.0) == 10.0
    allowance.settle(15.0)
    assert not allowance.take(4.0)
    assert allowance.take(6.0)
    allowance.settle(-100.0)
    assert allowance.level(6.0) == 10.0
