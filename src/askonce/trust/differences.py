"""Which words, when two questions differ in them, mean another answer here: learned, bounded.

Each left-over word, and each pair of words that stand for one another, has a weight in one table
by hash. A label moves the weights of its words by one step (AdaGrad on the logistic loss).
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from math import exp
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from askonce.trust.text.comparison import Comparison

    Floats = NDArray[np.float32]
    Keys = NDArray[np.int32]

SIZE = 1 << 14
"""Weights in the table."""
_RATE = 0.3
_SHRINK = 1e-3
_MOST_SWAPS = 9
_MOST_WORDS = 24
MOST_KEYS = _MOST_WORDS + _MOST_SWAPS + 1
"""Of one pair."""


def keys(pair: Comparison) -> Keys:
    """The places in the table that a pair touches; never empty."""
    return _keys(tuple(sorted(pair.only_left)), tuple(sorted(pair.only_right)))


@lru_cache(maxsize=1024)
def _keys(left: tuple[str, ...], right: tuple[str, ...]) -> Keys:
    found = ["word " + word for word in (*left, *right)[:_MOST_WORDS]]
    if len(left) * len(right) <= _MOST_SWAPS:
        found += ["swap {} {}".format(*sorted((a, b))) for a in left for b in right]
    if not left:
        found.append("asked within")
    if not right:
        found.append("cached within")
    places = {zlib.crc32(each.encode("utf-8", "surrogatepass")) % SIZE for each in found}
    return np.array(sorted(places), dtype=np.int32)


def fresh() -> Floats:
    """A table that knows nothing."""
    return np.zeros(SIZE, dtype=np.float32)


def logits(table: Floats, touched: Sequence[Keys]) -> Floats:
    """How much the differing words speak for one answer (above 0) or two, a number a pair."""
    add = np.add.reduce
    return np.array([add(table[each]) / len(each) ** 0.5 for each in touched], dtype=np.float32)


class Differences:
    """The table and the sum of squared steps behind it."""

    def __init__(self) -> None:
        """Know nothing."""
        self.table = fresh()
        self._squares = np.ones(SIZE, dtype=np.float32)

    def learn(self, touched: Keys, offset: float, *, same: bool, weight: float = 1.0) -> None:
        """Take one step; the offset is what everything else says of the pair, as a logit."""
        share = len(touched) ** -0.5
        weights = self.table[touched]
        logit = offset + float(np.add.reduce(weights)) * share
        error = (1 / (1 + exp(-min(30.0, max(-30.0, logit)))) - same) * share * weight
        slope = error + _SHRINK * weights
        squares = self._squares[touched] + slope * slope
        self._squares[touched] = squares
        self.table[touched] = weights - _RATE * slope / np.sqrt(squares)
