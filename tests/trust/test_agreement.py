"""What the neighbours' answers say together."""

from __future__ import annotations

import numpy as np
import pytest

from askonce.trust.agreement import _UNITS, NAMES, agreement


def _columns(
    logits: list[float], cosines: list[float], answers: list[str]
) -> dict[str, list[float]]:
    rows, _ = agreement(
        np.array(logits, dtype=np.float32), np.array(cosines, dtype=np.float32), answers
    )
    return dict(zip(NAMES, (rows / _UNITS).T.tolist(), strict=True))


def test_each_answer_is_one_row_with_its_likeliest_neighbour() -> None:
    """The neighbour to serve is the best of its answer, not the nearest."""
    rows, places = agreement(
        np.array([0.0, 2.0, 1.0], dtype=np.float32),
        np.array([0.9, 0.8, 0.7], dtype=np.float32),
        ["a", "a", "b"],
    )
    assert rows.shape == (2, len(NAMES))
    assert places.tolist() == [1, 2]


def test_a_rival_is_the_best_of_the_other_answers() -> None:
    """Margins are taken over the next different answer, in odds and in cosine."""
    found = _columns([3.0, 1.0, 2.0], [0.9, 0.8, 0.85], ["a", "b", "c"])
    assert found["margin"] == pytest.approx([1.0, -2.0, -1.0])
    assert found["rival"] == pytest.approx([2.0, 3.0, 3.0])
    assert found["ahead"] == pytest.approx([0.05, -0.1, -0.05], abs=1e-6)


def test_an_answer_without_rival_stands_ahead_of_a_fixed_one() -> None:
    """One answer among all neighbours is as good as a distant rival."""
    found = _columns([1.0], [0.9], ["a"])
    assert found["margin"] == pytest.approx([7.0])
    assert found["ahead"] == pytest.approx([0.05], abs=1e-6)
    assert found["mass"] == found["votes"] == found["nearest"] == [1.0]


def test_several_votes_for_one_answer_add_up() -> None:
    """Two neighbours that may be right are better than one."""
    two = _columns([0.0, 0.0, 0.0], [0.9, 0.9, 0.9], ["a", "a", "b"])
    assert two["any"][0] > two["any"][1]
    assert two["share"] == pytest.approx([np.log(2 / 3), np.log(1 / 3)])
    assert two["mass"] == pytest.approx([2 / 3, 1 / 3])


def test_extreme_odds_stay_finite() -> None:
    """No overflow at either end."""
    found = _columns([15.0, -15.0, 15.0], [1.0, 0.0, 1.0], ["a", "b", "a"])
    assert all(np.isfinite(values).all() for values in found.values())
