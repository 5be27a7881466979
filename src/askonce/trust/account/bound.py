"""How large a wrong rate may be, given counts of what was seen; pure arithmetic.

Two kinds of answer. `upper` and `lower` hold at all times at once, however often one looks: they
invert a bet against each candidate rate, and the capital of a fair bet reaches 1/alpha with
probability at most alpha (Ville). The size of a bet never changes, so no constant rate is
assumed: the bounds hold for the running mean of the rates. `standardised` is sharper and holds
at one look, for a rate put together from strata of unequal weight.
"""

from __future__ import annotations

from math import exp, fsum, inf, lgamma, log, log1p, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_FRACTIONS = (0.99, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02)
"""Sizes of the bets, as shares of the largest that can lose no more than all."""
_HALVINGS = 40


class Tally(NamedTuple):
    """Weighted outcomes of things that might have been wrong.

    What is checked with probability p and found wrong counts 1/p; everything else counts 0.
    """

    right: float
    """How many count 0: found right, or not checked."""
    wrong: Sequence[tuple[float, float]] = ()
    """Weight and how many, for each weight."""

    @property
    def size(self) -> float:
        """How many there are."""
        return self.right + fsum(many for _, many in self.wrong)

    @property
    def mean(self) -> float:
        """The unbiased estimate of the wrong rate."""
        total = fsum(weight * many for weight, many in self.wrong)
        return total / self.size if self.size else 0.0


def evidence_against(rate: float, tally: Tally, heaviest: float = 1.0) -> float:
    """Logarithm of the capital won by betting that the wrong rate is below `rate`.

    heaviest: the largest weight that could occur, not the largest that did.
    """
    most = 1 / (heaviest - rate) if rate < heaviest else inf
    return _mixed([_won(most * part, rate, tally) for part in _FRACTIONS])


def evidence_for(rate: float, tally: Tally) -> float:
    """Logarithm of the capital won by betting that the wrong rate is above `rate`."""
    return _mixed([_won(-part / rate, rate, tally) for part in _FRACTIONS])


def upper(tally: Tally, alpha: float, heaviest: float = 1.0) -> float:
    """The wrong rate is below this, at all times at once, but for a chance of alpha."""
    needed = -log(alpha)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        if evidence_against(rate, tally, heaviest) >= needed:
            high = rate
        else:
            low = rate
    return high


def lower(tally: Tally, alpha: float) -> float:
    """The wrong rate is above this, at all times at once, but for a chance of alpha."""
    needed = -log(alpha)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        if evidence_for(rate, tally) >= needed:
            low = rate
        else:
            high = rate
    return low


def _won(bet: float, rate: float, tally: Tally) -> float:
    """Logarithm of the capital; each outcome x multiplies it by 1 + bet (rate - x)."""
    lost = fsum(many * log1p(bet * (rate - weight)) for weight, many in tally.wrong if many)
    return tally.right * log1p(bet * rate) + lost


def _mixed(logs: Sequence[float]) -> float:
    """Logarithm of the mean of what has these logarithms."""
    top = max(logs)
    return top + log(fsum(exp(one - top) for one in logs) / len(logs))


class JudgeError(NamedTuple):
    """How often verdicts are false, and how sure that is."""

    alarm: float = 0.0
    """Chance that a right answer is judged wrong."""
    miss: float = 0.0
    """Chance that a wrong answer is judged right."""
    doubt: float = 0.0
    """Standard error of `alarm`."""

    @property
    def gain(self) -> float:
        """How much a verdict says: 1 for a judge without fault, 0 for a coin."""
        return 1 - self.alarm - self.miss

    def seen(self, rate: float) -> float:
        """The share that would be judged wrong of what is wrong at this rate."""
        return self.alarm + rate * self.gain

    def true(self, judged: float) -> float:
        """The wrong rate behind a share that was judged wrong; not below 0."""
        return max(0.0, (judged - self.alarm) / self.gain)

    def ceiling(self, judged: float, z: float) -> float:
        """The same, with the judge's own error at the end of its interval that is worse for us."""
        alarm = max(0.0, self.alarm - z * self.doubt)
        return min(1.0, max(0.0, (judged - alarm) / (1 - alarm - self.miss)))

    def floor(self, rate: float, z: float) -> float:
        """The least share that is judged wrong of what is wrong at this rate: ceiling's inverse."""
        alarm = max(0.0, self.alarm - z * self.doubt)
        return alarm + rate * (1 - alarm - self.miss)


FLAWLESS = JudgeError()


def judge_error(rights: tuple[int, int], wrongs: tuple[int, int]) -> JudgeError:
    """From labelled pairs: of those in truth right and wrong, (how many, how many misjudged).

    One more of each kind is assumed, so that a judge never looks perfect on few pairs.
    """
    alarm = (rights[1] + 0.5) / (rights[0] + 1)
    miss = (wrongs[1] + 0.5) / (wrongs[0] + 1)
    return JudgeError(alarm, min(miss, 0.5), sqrt(alarm * (1 - alarm) / (rights[0] + 1)))


def standardised(weighted: Floats, variance: Floats, z: float | Floats) -> Floats:
    """Upper limits of weighted counts, by the gamma distributions of those means and variances.

    For rates put together from strata (Fay and Feuer); the quantile is Wilson and Hilferty's.
    weighted, variance: sums of weight x count and of weight^2 x count. z: of a normal, one-sided.
    """
    known = weighted > 0
    shape = 9 * np.square(weighted, where=known, out=np.ones_like(weighted))
    shape /= np.where(known, variance, 1.0)
    root = np.maximum(1 - 1 / shape + z / np.sqrt(shape), 0.0)
    return np.where(known, weighted * root**3, 0.0)


def excess_chance(wrong: int, hits: int, budget: float) -> float:
    """How likely so many wrong hits or more are if each is wrong with the budget's chance."""
    below = (
        lgamma(hits + 1)
        - lgamma(k + 1)
        - lgamma(hits - k + 1)
        + k * log(budget)
        + (hits - k) * log1p(-budget)
        for k in range(wrong)
    )
    return max(0.0, 1 - fsum(exp(one) for one in below))
