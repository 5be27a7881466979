"""How often a judge errs, from pairs whose truth is known, with bounds that a budget can carry.

A judge that calls a wrong answer `same` hides wrong hits; one that calls right answers `different`
only tightens the cache. `trust.bound.JudgeError` carries both into the account. The bounds hold
where traffic's pairs are no harder than the known ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from askonce.trust.account.bound import JudgeError, judge_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from askonce.ports import Agreement

Truth = Literal["same", "different"]


class Rate(msgspec.Struct, frozen=True):
    """Errors among independent trials, and an exact (Clopper-Pearson) one-sided upper bound."""

    errors: int
    trials: int
    upper: float

    @property
    def share(self) -> float:
        """What was seen; 0 without trials."""
        return self.errors / self.trials if self.trials else 0.0


class Measured(msgspec.Struct, frozen=True):
    """What pairs of known truth say of one judge."""

    false_same: Rate
    """Called `same` among truly different pairs on which it was sure."""
    false_different: Rate
    """Called `different` among truly same pairs on which it was sure."""
    unsure: Rate
    """Among all pairs."""

    @property
    def error(self) -> JudgeError:
        """The same as the account takes it."""
        rights, wrongs = self.false_different, self.false_same
        return judge_error((rights.trials, rights.errors), (wrongs.trials, wrongs.errors))


def estimate(pairs: Iterable[tuple[Agreement, Truth]], *, alpha: float = 0.05) -> Measured:
    """From (verdict, truth) pairs; each bound fails with probability alpha at most."""
    counts: dict[tuple[Agreement, Truth], int] = {}
    for pair in pairs:
        counts[pair] = counts.get(pair, 0) + 1

    def sure(truth: Truth, wrong: Agreement, right: Agreement) -> Rate:
        errors = counts.get((wrong, truth), 0)
        return rate(errors, errors + counts.get((right, truth), 0), alpha=alpha)

    unsure = sum(count for (verdict, _), count in counts.items() if verdict == "unsure")
    return Measured(
        false_same=sure("different", "same", "different"),
        false_different=sure("same", "different", "same"),
        unsure=rate(unsure, sum(counts.values()), alpha=alpha),
    )


def rate(errors: int, trials: int, *, alpha: float = 0.05) -> Rate:
    """A rate with its bound; 1 without trials."""
    return Rate(errors, trials, upper_bound(errors, trials, alpha))


def upper_bound(errors: int, trials: int, alpha: float) -> float:
    """The largest rate at which so few errors still have probability alpha."""
    if errors >= trials:
        return 1.0
    return _bisect(lambda share: _at_most(errors, trials, share) >= alpha)


def _bisect(holds: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def _at_most(errors: int, trials: int, share: float) -> float:
    """The binomial probability of at most so many errors, for a share inside (0, 1)."""
    hit, miss = math.log(share), math.log1p(-share)
    whole = math.lgamma(trials + 1)
    return math.fsum(
        math.exp(
            whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * hit + (trials - k) * miss
        )
        for k in range(errors + 1)
    )
