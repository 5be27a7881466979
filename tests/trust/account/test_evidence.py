"""Labels counted in cells of the score."""

from __future__ import annotations

from math import exp, inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askonce.trust.account.evidence import (
    CELLS,
    MIDDLES,
    Cells,
    cell_of,
    odds_of_cosine,
    odds_of_probability,
)


@settings(deadline=None, max_examples=50)
@given(score=st.floats(allow_nan=True, allow_infinity=False))
def test_every_score_has_a_cell(score: float) -> None:
    """Whatever a verifier returns is counted somewhere."""
    assert 0 <= cell_of(score) < CELLS


@settings(deadline=None, max_examples=50)
@given(one=st.floats(-5, 12), other=st.floats(-5, 12))
def test_a_higher_score_is_never_in_a_lower_cell(one: float, other: float) -> None:
    """Cells keep the order of scores."""
    assert cell_of(min(one, other)) <= cell_of(max(one, other))


def test_what_is_no_number_is_trusted_least() -> None:
    """A broken verifier lands in the lowest cell, and infinity in the highest."""
    assert cell_of(nan) == 0
    assert cell_of(-inf) == 0
    assert cell_of(1e300) == CELLS - 1
    assert [cell_of(score) for score in MIDDLES[1:-1]] == list(range(1, CELLS - 1))


def test_probabilities_and_cosines_become_log_odds() -> None:
    """Certainty stays finite."""
    assert odds_of_probability(0.5) == 0
    assert odds_of_probability(0.9) == pytest.approx(2.197, abs=1e-3)
    assert odds_of_probability(1.0) > 20
    assert odds_of_probability(0.0) < -20
    assert odds_of_cosine(0.85) == 0
    assert odds_of_cosine(0.97) == pytest.approx(3.0)


def test_counts_fade_with_the_requests_since() -> None:
    """After as many requests as the memory holds, 1/e of a count is left."""
    cells = Cells(memory=1000.0)
    cells.add(5, 1.0, 2.0)
    cells.serve(5)
    for _ in range(1000):
        cells.ask(7)
    assert cells.counts(cells.labels)[5] == pytest.approx(2 * exp(-1), rel=0.01)
    assert cells.counts(cells.wrong)[5] == pytest.approx(2 * exp(-1), rel=0.01)
    assert cells.counts(cells.served)[5] == pytest.approx(exp(-1), rel=0.01)
    assert cells.requests / cells.unit == pytest.approx(1000 * (1 - exp(-1)), rel=0.01)


def test_shares_follow_what_is_asked_now() -> None:
    """The mix of scores is that of recent requests, those without a candidate included."""
    cells = Cells(sight=50.0)
    assert cells.shares() == [0.0] * CELLS
    for number in range(1000):
        cells.ask(3 if number < 500 else (4 if number % 2 else None))
    assert cells.shares()[3] == pytest.approx(0, abs=1e-3)
    assert cells.shares()[4] == pytest.approx(0.5, abs=0.02)


def test_a_million_requests_leave_every_count_finite() -> None:
    """The growing units are brought back in time."""
    cells = Cells(memory=100.0, sight=10.0)
    for _ in range(5000):
        cells.ask(1)
        cells.serve(1)
        cells.add(1, 0.0, 1.0)
    assert cells.counts(cells.labels)[1] == pytest.approx(100, rel=0.02)
    assert cells.shares()[1] == pytest.approx(1)
    assert max(cells.unit, cells.asked_unit, cells.recent) < 1e12
