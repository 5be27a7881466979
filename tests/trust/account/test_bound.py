"""Bounds on a wrong rate."""

from __future__ import annotations

import random
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askonce.trust.account.bound import (
    JudgeError,
    Tally,
    evidence_against,
    evidence_for,
    excess_chance,
    judge_error,
    lower,
    standardised,
    upper,
)

counts = st.integers(min_value=0, max_value=5000)


def _ones(right: float, wrong: float) -> Tally:
    return Tally(right, ((1.0, wrong),))


@pytest.mark.parametrize("rate", [0.05, 0.02, 0.01, 0.005])
def test_a_rate_needs_a_few_times_its_inverse_in_labels_without_an_error(rate: float) -> None:
    """The proof costs little more than the least number that any bound needs."""
    least = log(1 / 0.05) / rate
    assert upper(_ones(least, 0), 0.05) > rate
    assert upper(_ones(2 * least, 0), 0.05) < rate


@settings(deadline=None, max_examples=50)
@given(right=counts, wrong=counts)
def test_the_estimate_lies_between_the_bounds(right: int, wrong: int) -> None:
    """No tally contradicts its own mean."""
    tally = _ones(right, wrong)
    assert lower(tally, 0.05) <= tally.mean + 1e-9
    if tally.size:
        assert upper(tally, 0.05) >= tally.mean - 1e-9
    else:
        assert tally.mean == 0
        assert upper(tally, 0.05) > 0.99


@settings(deadline=None, max_examples=50)
@given(right=st.integers(0, 500), wrong=st.integers(0, 50), worse=st.integers(1, 50))
def test_another_wrong_answer_never_lowers_the_bound(right: int, wrong: int, worse: int) -> None:
    """More errors mean less certainty, as far as bisection tells."""
    assert upper(_ones(right, wrong + worse), 0.05) >= upper(_ones(right, wrong), 0.05) - 1e-9


def _excursions(rate: float, chance: float, runs: int, steps: int) -> tuple[int, int]:
    """How many runs saw the true rate leave the interval at some time; weights are 1/chance."""
    above = below = 0
    for run in range(runs):
        rng = random.Random(run)
        right, wrong, over, under = 0, 0, False, False
        for step in range(steps):
            hit = rng.random() < rate * chance
            right, wrong = right + (not hit), wrong + hit
            if step % 10 == 9:
                tally = Tally(right, ((1 / chance, wrong),))
                over |= evidence_against(rate, tally, heaviest=1 / chance) >= log(1 / 0.1)
                under |= evidence_for(rate, tally) >= log(1 / 0.1)
        above, below = above + over, below + under
    return above, below


@pytest.mark.parametrize("chance", [1.0, 0.2])
def test_the_true_rate_leaves_the_bounds_at_any_time_no_oftener_than_allowed(
    chance: float,
) -> None:
    """Looking a hundred times at a bound of 90 % misses in at most a tenth of the runs."""
    above, below = _excursions(rate=0.1, chance=chance, runs=100, steps=1000)
    assert above <= 15
    assert below <= 15


def test_weights_count_what_was_not_checked() -> None:
    """One wrong answer found by a check in ten stands for ten."""
    tally = Tally(90, ((10.0, 1),))
    assert tally.mean == pytest.approx(10 / 91)


def test_a_judge_that_errs_is_taken_out_of_the_rate() -> None:
    """A share of 6.8 % judged wrong by one that errs in 5 % both ways is a rate of 2 %."""
    judge = JudgeError(0.05, 0.05)
    assert judge.seen(0.02) == pytest.approx(0.068)
    assert judge.true(0.068) == pytest.approx(0.02)
    assert judge.true(0.01) == 0


@settings(deadline=None, max_examples=50)
@given(rate=st.floats(0, 0.9), doubt=st.floats(0, 0.05), z=st.floats(0, 3))
def test_doubt_in_the_judge_only_raises_the_bound(rate: float, doubt: float, z: float) -> None:
    """The ceiling is the judge's own estimate or more, and floor is its inverse."""
    judge = JudgeError(0.05, 0.05, doubt)
    assert judge.ceiling(judge.seen(rate), z) >= rate - 1e-9
    assert judge.ceiling(judge.floor(rate, z), z) == pytest.approx(rate)


def test_the_error_of_a_judge_comes_from_labelled_pairs() -> None:
    """With one pair more of each kind, so that few pairs do not make a judge perfect."""
    judge = judge_error((999, 50), (199, 9))
    assert judge.alarm == pytest.approx(0.0505)
    assert judge.miss == pytest.approx(0.0475)
    assert judge.doubt == pytest.approx(0.0069, abs=1e-4)
    assert judge_error((0, 0), (0, 0)).gain <= 0.5


def test_a_sum_of_strata_is_bounded_from_above() -> None:
    """The gamma quantile grows with the quantile asked for, and is 0 for nothing."""
    sums, variances = np.array([0.0, 10.0, 10.0]), np.array([0.0, 10.0, 1000.0])
    assert standardised(sums, variances, 0)[:2] == pytest.approx([0, 10], abs=0.5)
    assert standardised(sums, variances, 1.645)[1] == pytest.approx(15.7, abs=0.5)
    assert (standardised(sums, variances, -9) >= 0).all()


@pytest.mark.parametrize(
    ("wrong", "hits", "budget", "chance"),
    [(0, 100, 0.01, 1.0), (4, 100, 0.01, 0.0184), (1, 10, 0.005, 0.0489), (30, 1000, 0.02, 0.0222)],
)
def test_a_run_is_judged_by_the_exact_binomial(
    wrong: int, hits: int, budget: float, chance: float
) -> None:
    """Known tails of the binomial distribution."""
    assert excess_chance(wrong, hits, budget) == pytest.approx(chance, abs=2e-3)
