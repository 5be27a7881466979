"""Logistic regression with a ridge to a prior."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from askonce.trust.logistic import Labelled, Ridge, fit, probability

if TYPE_CHECKING:
    from askonce.trust.logistic import Floats


def _data(count: int, true: list[float], seed: int = 0) -> Labelled:
    random = np.random.default_rng(seed)
    rows = random.standard_normal((count, len(true))).astype(np.float32)
    chances = probability(rows @ np.array(true, dtype=np.float32))
    labels = (random.random(count) < chances).astype(np.float32)
    return Labelled(rows, labels, np.ones(count, dtype=np.float32))


def _ridge(size: int, precision: float, centre: float = 0.0) -> Ridge:
    return Ridge(
        np.full(size, centre, dtype=np.float32), np.full(size, precision, dtype=np.float32)
    )


def _slope(data: Labelled, ridge: Ridge, at: Floats) -> Floats:
    slope: Floats = data.rows.T @ (data.weights * (probability(data.rows @ at) - data.labels))
    return slope + ridge.precision * (at - ridge.centre)


def test_it_finds_the_coefficients_that_made_the_labels() -> None:
    """With many rows and a weak ridge the truth comes out, and the slope there is flat."""
    true = [1.0, -2.0, 0.5, 0.0]
    data, ridge = _data(4000, true), _ridge(4, 0.1)
    found = fit(data, ridge, np.zeros(4, dtype=np.float32))
    assert found.tolist() == pytest.approx(true, abs=0.2)
    assert np.abs(_slope(data, ridge, found)).max() < 5.0


def test_without_rows_the_prior_stands() -> None:
    """Nothing learned, nothing moved."""
    empty = Labelled(*(np.zeros(shape, dtype=np.float32) for shape in ((0, 3), 0, 0)))
    found = fit(empty, _ridge(3, 1.0, centre=0.7), np.zeros(3, dtype=np.float32))
    assert found.tolist() == pytest.approx([0.7] * 3, abs=1e-3)


def test_a_firm_prior_gives_way_less() -> None:
    """The same labels move a firmly held coefficient less."""
    data = _data(200, [2.0])
    start = np.zeros(1, dtype=np.float32)
    weak, firm = (float(fit(data, _ridge(1, hold), start)[0]) for hold in (0.1, 100.0))
    assert 0 < firm < weak


def test_separable_labels_do_not_run_away() -> None:
    """The ridge keeps coefficients finite where no error forces them to stop."""
    rows = np.array([[1.0], [-1.0]] * 50, dtype=np.float32)
    data = Labelled(rows, (rows[:, 0] > 0).astype(np.float32), np.ones(100, dtype=np.float32))
    found = fit(data, _ridge(1, 0.01), np.full(1, 50.0, dtype=np.float32))
    assert 1 < float(found[0]) < 60


def test_a_start_that_cannot_be_bettered_is_kept() -> None:
    """At the optimum, rounding lets no step improve and the search ends."""
    data, ridge = _data(300, [1.0, 1.0]), _ridge(2, 1.0)
    once = fit(data, ridge, np.zeros(2, dtype=np.float32))
    for _ in range(5):
        once = fit(data, ridge, once)
    assert fit(data, ridge, once).tolist() == pytest.approx(once.tolist(), abs=1e-3)


def test_rows_of_no_weight_say_nothing() -> None:
    """A label counts by its weight."""
    data = _data(500, [1.0])
    twice = Labelled(
        np.concatenate([data.rows, data.rows]),
        np.concatenate([data.labels, 1 - data.labels]),
        np.concatenate([data.weights, 0 * data.weights]),
    )
    start = np.zeros(1, dtype=np.float32)
    one, other = fit(data, _ridge(1, 1.0), start), fit(twice, _ridge(1, 1.0), start)
    assert one.tolist() == pytest.approx(other.tolist(), abs=1e-3)
