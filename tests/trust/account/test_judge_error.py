"""The judge's own error and its bounds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from askonce.trust.account.bound import judge_error
from askonce.trust.account.judge_error import Measured, Truth, estimate, rate, upper_bound

if TYPE_CHECKING:
    from askonce.ports import Agreement

EXACT = [(0, 59, 0.0495), (0, 299, 0.00997), (1, 100, 0.0466), (5, 50, 0.1988), (3, 3, 1.0)]


@pytest.mark.parametrize(("errors", "trials", "bound"), EXACT)
def test_bounds_exactly(errors: int, trials: int, bound: float) -> None:
    """The bound is Clopper and Pearson's."""
    assert upper_bound(errors, trials, 0.05) == pytest.approx(bound, abs=2e-4)


def test_knows_nothing_without_trials() -> None:
    """Without trials the bound is 1 and the share 0."""
    assert rate(0, 0).upper == 1.0
    assert rate(0, 0).share == 0.0
    assert rate(1, 4).share == 0.25


def test_the_bound_holds() -> None:
    """Over many samples the true rate lies above the bound no more often than alpha allows."""
    rng = random.Random(7)
    bounds = {errors: upper_bound(errors, 200, 0.05) for errors in range(40)}
    missed = sum(bounds[sum(rng.random() < 0.04 for _ in range(200))] < 0.04 for _ in range(1000))
    assert missed <= 65


def error(false_same: int = 2) -> Measured:
    """Made of a hundred different and fifty same pairs, ten of them unsure."""
    counts: list[tuple[Agreement, Truth, int]] = [
        ("same", "different", false_same),
        ("different", "different", 90 - false_same),
        ("unsure", "different", 10),
        ("different", "same", 1),
        ("same", "same", 49),
    ]
    return estimate((said, truth) for said, truth, count in counts for _ in range(count))


def test_counts_each_kind_of_error() -> None:
    """Errors are counted among the sure verdicts of one truth, doubt among all."""
    found = error()
    assert (found.false_same.errors, found.false_same.trials) == (2, 90)
    assert (found.false_different.errors, found.false_different.trials) == (1, 50)
    assert (found.unsure.errors, found.unsure.trials) == (10, 150)


def test_is_carried_into_the_account() -> None:
    """The account takes the same counts, with a pair more of each kind."""
    found = error().error
    assert found == judge_error((50, 1), (90, 2))
    assert found.ceiling(0.05, 2.0) >= 0.05
    assert estimate([]).error.gain <= 0.5
