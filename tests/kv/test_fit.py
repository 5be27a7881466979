"""The fit: linear, non-negative, recent, and hard to mislead."""

from __future__ import annotations

import random

import pytest

from askonce.kv.fit import NonNegativeFit


def taught(fit: NonNegativeFit, slope: float, count: int = 200) -> NonNegativeFit:
    """A fit that saw value = 1 + slope x, with 5 % noise."""
    draw = random.Random(0)
    for _ in range(count):
        x = draw.uniform(0.1, 10)
        fit.observe((1.0, x), (1 + slope * x) * draw.gauss(1, 0.05))
    return fit


def fresh() -> NonNegativeFit:
    """A fit that believes 2 + 5 x."""
    return NonNegativeFit((2.0, 5.0), [(1.0, 0.1), (1.0, 10.0)])


def test_before_any_observation_the_prior_is_believed() -> None:
    """The prior's coefficients are the first answer."""
    assert fresh().predict((1.0, 2.0)) == 12.0


def test_observations_overrule_a_wrong_prior() -> None:
    """A prior five times too high is forgotten."""
    fit = taught(fresh(), 1.0)
    assert fit.predict((1.0, 5.0)) == pytest.approx(6.0, rel=0.1)
    assert fit.spread < 0.15


def test_a_change_is_followed() -> None:
    """Old observations fade, so a machine that became slower is seen."""
    fit = taught(taught(fresh(), 1.0), 4.0)
    assert fit.predict((1.0, 5.0)) == pytest.approx(21.0, rel=0.1)


def test_an_outlier_moves_little() -> None:
    """One observation fifty times off does not spoil the fit."""
    fit = taught(fresh(), 1.0)
    fit.observe((1.0, 5.0), 300.0)
    assert fit.predict((1.0, 5.0)) == pytest.approx(6.0, rel=0.2)


def test_coefficients_are_never_negative() -> None:
    """A falling line is met by a flat one."""
    fit = fresh()
    for x in (1.0, 2.0, 3.0, 4.0) * 50:
        fit.observe((1.0, x), 10.0 - 2 * x)
    assert min(fit.coefficients) >= 0


def test_alike_observations_leave_the_rest_to_the_prior() -> None:
    """With a single size seen, others are still predicted in proportion."""
    fit = fresh()
    for _ in range(300):
        fit.observe((1.0, 2.0), 12.0)
    assert fit.predict((1.0, 2.0)) == pytest.approx(12.0, rel=0.05)
    assert fit.predict((1.0, 10.0)) == pytest.approx(52.0, rel=0.3)


def test_a_feature_that_is_never_there_counts_nothing() -> None:
    """A coefficient without any evidence is 0, not an error."""
    fit = NonNegativeFit((1.0, 0.0), [(1.0, 0.0)])
    fit.observe((1.0, 0.0), 1.0)
    assert fit.coefficients[1] == 0.0
