"""What a verifier sees of a question beside a cached one: a row of numbers of fixed length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from askonce.trust import alignment
from askonce.trust.text.guards import GUARDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.trust.text.comparison import Comparison

    Floats = alignment.Floats

_LEXICAL = (
    "alike", "akin", "only_asked", "only_cached", "hard_asked", "hard_cached",
    "number_asked", "number_cached", "code", "name_asked", "name_cached", "negation",
    "asks_equal", "asks_shared", "tense_equal", "mood_equal", "person_equal", "owner_equal",
    "longer", "length_asked", "length_cached",
    "asked_within", "cached_within", "content_equal", "one_swapped",
)  # fmt: skip
NAMES = ("cosine", *alignment.NAMES, *_LEXICAL, *(f"guard_{name}" for name in GUARDS))
"""The columns of `dense`."""


def dense(pairs: Sequence[Comparison], cosines: Floats, aligned: Floats) -> Floats:
    """One row a pair, columns as in NAMES."""
    found = np.empty((len(pairs), len(NAMES)), dtype=np.float32)
    split = 1 + len(alignment.NAMES)
    found[:, 0] = cosines
    found[:, 1:split] = aligned
    found[:, split:] = [_lexical(pair) + _verdicts(pair) for pair in pairs]
    return found


def products(vector: Floats, cached: Floats, cosines: Floats) -> Floats:
    """What each dimension adds to the cosine beyond its share: a learned metric weighs these."""
    scaled: Floats = cached * (vector * np.float32(len(vector)))
    scaled -= cosines[:, None]
    return scaled


def _verdicts(pair: Comparison) -> list[float]:
    return [float(holds(pair)) for holds in GUARDS.values()]


def _lexical(pair: Comparison) -> list[float]:
    left, right = pair.left, pair.right
    hard_left, hard_right = len(pair.hard_left), len(pair.hard_right)
    one, other = left.grammar, right.grammar
    long_left, long_right = math.log(len(left.forms) + 1), math.log(len(right.forms) + 1)
    return [
        pair.alike,
        pair.akin,
        len(pair.only_left),
        len(pair.only_right),
        hard_left,
        hard_right,
        len(pair.only_left & left.numbers),
        len(pair.only_right & right.numbers),
        len(pair.only_left & left.codes) + len(pair.only_right & right.codes),
        len(pair.only_left & left.names),
        len(pair.only_right & right.names),
        abs(left.negations - right.negations) % 2,
        float(one.asks == other.asks),
        float(bool(one.asks & other.asks)),
        float(one.tenses == other.tenses),
        float(one.moods == other.moods),
        float(one.persons == other.persons),
        float(one.owners == other.owners),
        long_left - long_right,
        long_left,
        long_right,
        float(not pair.only_left),
        float(not pair.only_right),
        float(not hard_left and not hard_right),
        float(hard_left == hard_right == 1),
    ]
