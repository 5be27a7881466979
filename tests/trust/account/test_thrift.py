"""Audits cost no more than was earned, and fall where they tell nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.trust.account.evidence import LEAST_AUDIT
from askonce.trust.account.thrift import Spending, Thrift


def test_hits_pay_for_audits() -> None:
    """Each hit earns a fifth of an audit, and what is not spent is kept for later."""
    spending = Spending(Thrift())
    assert spending.chance(0.5, cold=False) == pytest.approx(0.2)
    for _ in range(10):
        spending.hit(0.0, cold=False)
    assert spending.chance(0.5, cold=False) == 0.5
    assert spending.chance(0.1, cold=False) == 0.1


def test_cold_audits_are_a_share_of_the_requests() -> None:
    """Before evidence decides one request in fifty may be audited, however many are hits."""
    spending = Spending(Thrift(of_hits=1.0))
    assert spending.chance(0.3, cold=True) == 0.0
    spending.requests = 10
    assert spending.chance(0.3, cold=True) == pytest.approx(0.2)
    spending.hit(0.2, cold=True)
    assert spending.chance(0.3, cold=True) == 0.0
    assert spending.chance(0.3, cold=False) == 0.3


def test_a_judge_that_cannot_tell_is_asked_less() -> None:
    """The share falls to the least that can be weighed, and rises again with verdicts."""
    spending = Spending(Thrift(of_hits=1.0))
    for _ in range(60):
        spending.audits.note(told=False)
    assert spending.audits.share < 0.1
    assert spending.chance(0.5, cold=False) == LEAST_AUDIT
    for _ in range(60):
        spending.audits.note(told=True)
    assert spending.chance(0.5, cold=False) == 0.5


def test_half_of_the_verdicts_are_enough() -> None:
    """A judge that is unsure now and then is asked as often as one that never is."""
    spending = Spending(Thrift(of_hits=1.0))
    for number in range(60):
        spending.audits.note(told=number % 3 > 0)
    assert spending.chance(0.5, cold=False) == 0.5


def test_what_is_not_wanted_is_not_made() -> None:
    """No audits stay none."""
    assert Spending(Thrift()).chance(0.0, cold=False) == 0.0


@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans(), st.booleans(), st.booleans())),
    st.floats(0.0, 1.0),
    st.floats(0.0, 0.5),
)
def test_no_order_of_things_overdraws(
    steps: list[tuple[float, bool, bool, bool]], of_hits: float, of_requests: float
) -> None:
    """Whatever is asked, hit and told: each chance can be weighed, and their sum is earned."""
    spending = Spending(Thrift(of_hits=of_hits, of_requests=of_requests))
    early = 0.0
    for wanted, hit, cold, told in steps:
        spending.requests += 1
        chance = spending.chance(wanted, cold=cold)
        assert chance == 0 or LEAST_AUDIT <= chance <= wanted
        if hit:
            spending.hit(chance, cold=cold)
            early += chance if cold else 0.0
            spending.audits.note(told=told)
    assert spending.planned <= of_hits * spending.hits + 1e-9
    assert early <= of_requests * spending.requests + 1e-9
