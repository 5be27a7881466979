"""Prefill curves, published and estimated."""

from __future__ import annotations

import pytest

from askonce.kv.curves import LENGTHS, estimated, published


@pytest.mark.parametrize(
    ("gpu", "model", "parallel"),
    [
        ("H100", "llama-8b", 1),
        ("H100", "llama-70b", 8),
        ("A100", "llama-8b", 1),
        ("A100", "llama-70b", 4),
    ],
)
def test_the_formula_meets_the_published_points(gpu: str, model: str, parallel: int) -> None:
    """From 1k tokens on it is within an eighth of each."""
    curve = published(gpu, model, parallel)
    assert curve is not None
    for tokens, seconds in zip(LENGTHS[2:], curve.points[2:], strict=True):
        assert curve.seconds(tokens) == pytest.approx(seconds, rel=0.125)


def test_an_unknown_curve_is_none() -> None:
    """Nobody published it."""
    assert published("L4", "llama-8b", 1) is None


def test_an_estimate_is_of_the_right_order() -> None:
    """Arithmetic is within a factor of two of what was published."""
    guess = estimated("H100", 1, parameters=8e9, attention=32 * 4096)
    curve = published("H100", "llama-8b", 1)
    assert curve is not None
    assert 0.5 < guess.seconds(8192) / curve.seconds(8192) < 2
    with pytest.raises(KeyError):
        estimated("ENIAC", 1, parameters=1.0, attention=1.0)
