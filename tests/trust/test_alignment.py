"""Token vectors: packing, and how well two texts cover each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from askonce.trust.alignment import NAMES, TokenVectors, align, from_bytes, pack, to_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _text(*tokens: int, dim: int = 12) -> TokenVectors:
    """A text whose token n points along axis n; marks around it."""
    vectors = np.zeros((len(tokens) + 2, dim), dtype=np.float32)
    for place, token in enumerate(tokens, 1):
        vectors[place, token] = 3.0
    return pack([101, *tokens, 102], vectors)


def _column(rows: NDArray[np.float32], name: str) -> list[float]:
    found: list[float] = rows[:, NAMES.index(name)].tolist()
    return found


def test_packing_drops_the_marks_and_keeps_directions() -> None:
    """One byte a dimension, and the cosine of two tokens survives it."""
    vectors = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    packed = pack([101, 7, 8, 9, 102], vectors)
    assert packed.ids.tolist() == [7, 8, 9]
    assert packed.rows.dtype == np.int8
    one, other = packed.rows[:2].astype(np.float64)
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    true = vectors[1] @ vectors[2] / np.linalg.norm(vectors[1]) / np.linalg.norm(vectors[2])
    assert cosine == pytest.approx(float(true), abs=0.02)


def test_an_equal_text_is_covered_wholly() -> None:
    """Every token meets itself, in order."""
    rows = align(_text(1, 2, 3), [_text(1, 2, 3)])
    assert _column(rows, "mean_asked") == _column(rows, "least_cached") == [1.0]
    assert _column(rows, "new_asked") == _column(rows, "poor_cached") == [0.0]
    assert _column(rows, "in_order") == [1.0]


def test_a_changed_word_shows_in_the_worst_match_of_both_sides() -> None:
    """The mean stays high where the least falls to nothing."""
    rows = align(_text(1, 2, 3, 4), [_text(1, 2, 3, 9)])
    assert _column(rows, "mean_asked") == [0.75]
    assert _column(rows, "least_asked") == _column(rows, "new_least_cached") == [0.0]
    assert _column(rows, "new_asked") == _column(rows, "poor_cached") == [1.0]


def test_a_text_within_the_other_is_covered_one_way_only() -> None:
    """What the longer text adds is missing on its side alone."""
    rows = align(_text(1, 2), [_text(1, 2, 5)])
    assert _column(rows, "least_asked") == [1.0]
    assert _column(rows, "least_cached") == [0.0]


def test_turned_words_are_out_of_order() -> None:
    """The same tokens backwards follow each other nowhere."""
    assert _column(align(_text(1, 2, 3), [_text(3, 2, 1)]), "in_order") == [0.0]


def test_candidates_of_any_length_are_scored_as_if_alone() -> None:
    """Padding changes no row, not even the last bit of a mean."""
    random = np.random.default_rng(3)

    def made(tokens: int) -> TokenVectors:
        rows = random.integers(-127, 128, (tokens, 384)).astype(np.int8)
        return TokenVectors(random.integers(0, 9, tokens).astype(np.uint16), rows)

    for lengths in ((1, 5, 3), (64, 1, 64, 64, 30)):
        asked, cached = made(max(lengths)), [made(length) for length in lengths]
        together = align(asked, cached)
        alone = np.concatenate([align(asked, [each]) for each in cached])
        assert np.array_equal(together, alone)


def test_nothing_to_align_gives_empty_or_zero_rows() -> None:
    """No candidates, an empty question, an empty candidate and a single token are no errors."""
    assert align(_text(1), []).shape == (0, len(NAMES))
    assert not align(_text(), [_text(1)]).any()
    assert np.isfinite(align(_text(1), [_text()])).all()
    assert _column(align(_text(1), [_text(1)]), "in_order") == [1.0]


def test_only_the_first_tokens_of_a_long_text_are_looked_at() -> None:
    """Work is bounded by a fixed number of tokens a text."""
    long, longer = _text(*[1] * 64), _text(*[1] * 64, *[5] * 100)
    assert align(long, [long]).tolist() == align(longer, [longer]).tolist()


def test_packed_bytes_come_back_and_foreign_ones_are_no_tokens() -> None:
    """An index keeps tokens as bytes; what does not fit the dimension is read as nothing."""
    text = _text(1, 2, 3)
    back = from_bytes(to_bytes(text), 12)
    assert back.ids.tolist() == text.ids.tolist()
    assert back.rows.tolist() == text.rows.tolist()
    assert len(from_bytes(to_bytes(text), 16).ids) == len(from_bytes(b"", 16).ids) == 0


def test_tokens_come_back_as_packed() -> None:
    """What an index keeps of a text is what is aligned; strange bytes are no tokens."""
    vectors = np.random.default_rng(1).normal(size=(90, 8)).astype(np.float32)
    tokens = pack(list(range(90)), vectors)
    back = from_bytes(to_bytes(tokens), 8)
    assert np.array_equal(back.ids, tokens.ids[:64])
    assert np.array_equal(back.rows, tokens.rows[:64])
    assert len(from_bytes(to_bytes(tokens), 16).ids) == 0
    assert len(from_bytes(b"", 8).ids) == 0
