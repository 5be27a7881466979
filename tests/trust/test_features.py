"""The row of numbers that a verifier sees."""

from __future__ import annotations

import numpy as np

from askonce.trust import alignment, features
from askonce.trust.text.comparison import compare
from askonce.trust.text.reading import analyse


def _row(asked: str, cached: str) -> dict[str, float]:
    pair = compare(analyse(asked), analyse(cached))
    aligned = np.zeros((1, len(alignment.NAMES)), dtype=np.float32)
    row = features.dense([pair], np.array([0.9], dtype=np.float32), aligned)
    return dict(zip(features.NAMES, row[0].tolist(), strict=True))


def test_every_column_has_one_name() -> None:
    """Names are unique and as many as columns."""
    assert len(set(features.NAMES)) == len(features.NAMES) == len(_row("a b", "a c"))


def test_guards_speak_in_their_own_columns() -> None:
    """A verdict that would veto a hit is a number here."""
    row = _row("does it not open on monday?", "does it open on monday?")
    assert row["guard_negation"] == row["negation"] == 1.0
    assert row["guard_numbers"] == 0.0


def test_differing_numbers_are_counted_on_each_side() -> None:
    """What one side alone holds is told apart from what both hold."""
    row = _row("can i take 550 after 183?", "can i take 550?")
    assert row["number_asked"] == 1.0
    assert row["number_cached"] == row["asked_within"] == 0.0
    assert row["cached_within"] == 1.0


def test_an_equal_text_has_nothing_left_over() -> None:
    """Reading beside itself leaves no words."""
    row = _row("where is my card?", "where is my card?")
    assert row["alike"] == row["akin"] == row["content_equal"] == row["asks_equal"] == 1.0
    assert row["only_asked"] == row["hard_cached"] == row["longer"] == 0.0


def test_products_sum_to_nothing_beyond_the_cosine() -> None:
    """A metric that weighs all dimensions alike adds nothing to what the cosine says."""
    rows = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = features.products(rows[0], rows[1:], rows[1:] @ rows[0])
    assert found.shape == (3, 32)
    assert np.abs(found.mean(axis=1)).max() < 1e-5
