"""Whether two blocks hold the same KV, and which hits are asked."""

from __future__ import annotations

import random

import numpy as np
import pytest

from askonce.errors import ConfigError
from askonce.kv.audit import LOSSY, TOLERANCES, WORST, Comparison, Record, Sample
from askonce.kv.codec import Int8

DRAW = np.random.default_rng(0)


def _block(dtype: str, values: np.ndarray) -> bytes:
    wide = values.astype("<f4")
    if dtype == "bfloat16":
        return (wide.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return wide.astype(dtype).tobytes()


def _values(count: int = 1024) -> np.ndarray:
    return DRAW.normal(size=count).astype(np.float32)


@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
def test_a_share_of_hits_is_chosen(share: float) -> None:
    """None of them at 0, each at 1."""
    sample = Sample(share, random.Random(3).random)
    chosen = sum(sample.chooses() for _ in range(10_000))
    assert chosen == pytest.approx(10_000 * share, rel=0.2)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_rounding_agrees_and_another_block_does_not(dtype: str) -> None:
    """The order in which an engine adds up changes last digits; another text's KV is all wrong."""
    comparison, values = Comparison(dtype), _values()
    noise = values * (1 + DRAW.normal(size=len(values)) * comparison.tolerance / 10)
    block = _block(dtype, values)
    assert comparison.error(block, block) == 0.0
    assert comparison.error(block, _block(dtype, noise)) <= comparison.tolerance
    assert comparison.error(block, _block(dtype, _values())) > 2 * comparison.tolerance


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_one_wrong_place_is_enough(dtype: str) -> None:
    """A head or a token that is wrong is not averaged away by all that is right."""
    comparison, values = Comparison(dtype), _values(1 << 16)
    wrong = values.copy()
    wrong[30_000:30_032] = _values(32)
    assert comparison.error(_block(dtype, values), _block(dtype, wrong)) > comparison.tolerance


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_what_int8_loses_agrees_where_blocks_are_stored_so(dtype: str) -> None:
    """Half a step of its scale, and the rounding of the engine's type."""
    codec, block = Int8(dtype), _block(dtype, _values())
    back = bytearray(len(block))
    codec.decode(codec.encode(block), memoryview(back))
    comparison = Comparison(dtype, lossy=True)
    assert comparison.tolerance == LOSSY
    assert 0 < comparison.error(block, back) <= 1 / 254 + 2.0**-7


def test_a_tolerance_that_is_told_counts() -> None:
    """Whatever the type."""
    assert Comparison("float32", lossy=True, tolerance=0.5).tolerance == 0.5


def test_other_types_cannot_be_told_apart() -> None:
    """Their bytes are no values that this knows."""
    with pytest.raises(ConfigError, match="fp8"):
        Comparison("fp8_e4m3")


def test_what_is_no_number() -> None:
    """Equal ones are equal, and one beside a number is as wrong as can be."""
    comparison, values = Comparison("float32"), _values()
    odd = values.copy()
    odd[[3, 700]] = np.nan, np.inf
    last = odd.copy()
    last[-1] += 0.5
    assert 0 < comparison.error(_block("float32", odd), _block("float32", last)) < 1
    odd_block, block = _block("float32", odd), _block("float32", values)
    assert comparison.error(odd_block, odd_block) == 0.0
    assert comparison.error(odd_block, block) == WORST
    assert comparison.error(block, odd_block) == WORST
    opposite = _block("float32", -values)
    assert comparison.error(block, opposite) == WORST


def test_what_is_as_good_as_zero_is_no_difference() -> None:
    """Noise around nothing, in a block that holds more elsewhere; a block of zeros is one."""
    comparison, values = Comparison("float32"), _values()
    values[:256] = 1e-9
    noise = values.copy()
    noise[:256] = -1e-9
    assert comparison.error(_block("float32", values), _block("float32", noise)) < 1e-6
    assert comparison.error(bytes(4000), bytes(4000)) == 0.0
    assert comparison.error(bytes(4000), _block("float32", np.ones(1000))) == 1.0


def test_a_record_adds_up() -> None:
    """What agreed and what did not, how far off it was, and what could not be told."""
    record = Record().heard(0.1, 0.2).heard(0.5, 0.2).heard(0.0, 0.2).missed(3)
    assert (record.agreed, record.disagreed, record.undone) == (2, 1, 3)
    assert record.errors == pytest.approx(0.6)
    assert record.worst == 0.5


def test_one_large_value_hides_nothing() -> None:
    """Some heads have keys a thousand times as large as all the rest of their block."""
    comparison, values, others = Comparison("bfloat16"), _values(), _values()
    values[0] = others[0] = 1e4
    block, other = _block("bfloat16", values), _block("bfloat16", others)
    assert comparison.error(block, other) > comparison.tolerance
