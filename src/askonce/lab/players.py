"""Caches to compare AskOnce with: one estimator an entry, and cosine under the ledger."""

from __future__ import annotations

import random
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from askonce.lab.stream import Choice
from askonce.trust.account.asked import Place
from askonce.trust.account.evidence import Label, odds_of_cosine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from askonce.lab.stream import Near
    from askonce.trust.account.budget import Decision
    from askonce.trust.account.evidence import Source
    from askonce.trust.account.ledger import Ledger

_HERE = Place(b"lab", b"lab")

OBSERVATIONS = 6
"""Labels that an entry needs before it may answer, in the per-entry estimator."""
_REMEMBERED = 64
_DOUBTS = tuple(0.01 * step for step in range(1, 50))


class Observed(NamedTuple):
    """What one entry has seen: cosines of questions near it, and whether its answer was right."""

    cosines: list[float]
    right: list[bool]


class PerEntry:
    """Each entry learns its own curve of P(right | cosine); made from the published description.

    With the entry's logistic curve at the careful end of its threshold's interval, P(right) = a,
    a question is left to the engine with the probability that keeps the wrong ones at `share`.
    """

    def __init__(self, share: float, seed: int) -> None:
        """share: of the requests that may be answered wrongly."""
        self._share = share
        self._random = random.Random(seed)  # noqa: S311 - a simulation
        self._seen: dict[int, Observed] = {}

    def choose(self, query: int, near: Near) -> Choice:  # noqa: ARG002 - a Player's face
        """The nearest, if its entry has learned enough and chance allows."""
        if not len(near.rows):
            return Choice()
        seen = self._seen.get(int(near.rows[0]))
        if seen is None or len(seen.right) < OBSERVATIONS:
            return Choice()
        doubt = 1 - careful_chance(seen, float(near.cosines[0]))
        exploit = 1.0 if doubt <= self._share else self._share / doubt
        return Choice(0 if self._random.random() < exploit else -1)

    def learn(self, query: int, near: Near, same: NDArray[np.bool_], choice: Choice) -> None:  # noqa: ARG002 - a Player's face
        """One more observation of the nearest entry."""
        if len(near.rows):
            seen = self._seen.setdefault(int(near.rows[0]), Observed([], []))
            seen.cosines.append(float(near.cosines[0]))
            seen.right.append(bool(same[0]))
            del seen.cosines[:-_REMEMBERED], seen.right[:-_REMEMBERED]


def careful_chance(seen: Observed, cosine: float) -> float:
    """P(right) at this cosine by the entry's curve, discounted for how little it has seen."""
    threshold, slope, error = fit_curve(np.array(seen.cosines), np.array(seen.right, dtype=float))
    return max(
        (1 - doubt) * _logistic(slope * (cosine - threshold - _quantile(1 - doubt) * error))
        for doubt in _DOUBTS
    )


def fit_curve(
    cosines: NDArray[np.float64], right: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Threshold at even odds, slope, standard error of the threshold; a ridge tames few labels."""
    rows = np.column_stack([np.ones_like(cosines), cosines - 0.9])
    ridge = np.diag([0.01, 0.001])
    weights = np.array([0.0, 10.0])
    for _ in range(12):
        chances = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        curve = rows.T @ (rows * (chances * (1 - chances))[:, None]) + ridge
        step = np.linalg.solve(curve, rows.T @ (right - chances) - ridge @ (weights - [0.0, 10.0]))
        weights = weights + np.clip(step, -5, 5)
    slope = max(float(weights[1]), 1.0)
    offset = -float(weights[0]) / slope
    gradient = np.array([-1 / slope, float(weights[0]) / slope**2])
    error = float(np.sqrt(gradient @ np.linalg.inv(curve) @ gradient))
    return 0.9 + offset, slope, error


def _logistic(value: float) -> float:
    return 1 / (1 + exp(-max(-30.0, min(30.0, value))))


def _quantile(share: float) -> float:
    """Normal quantile, near enough for 0.5..0.99."""
    tail = np.sqrt(-2 * log(1 - share))
    return float(tail - (2.30753 + 0.27061 * tail) / (1 + 0.99229 * tail + 0.04481 * tail * tail))


class ByCosine:
    """The nearest, under the product's ledger with nothing but the cosine to go by."""

    def __init__(self, ledger: Ledger) -> None:
        """Take it fresh."""
        self._ledger = ledger
        self._decision: Decision | None = None
        self._odds = 0.0

    def choose(self, query: int, near: Near) -> Choice:
        """Serve if the ledger says so."""
        request = query.to_bytes(8, "big")
        if not len(near.rows):
            self._decision = None
            self._ledger.decide(_HERE, None, request)
            return Choice()
        self._odds = odds_of_cosine(float(near.cosines[0]))
        self._decision = self._ledger.decide(_HERE, self._odds, request)
        return Choice(0, self._decision.audit) if self._decision.serve else Choice()

    def learn(self, query: int, near: Near, same: NDArray[np.bool_], choice: Choice) -> None:  # noqa: ARG002 - a Player's face
        """The verdict on what was served, or might have been, is evidence."""
        if self._decision is not None:
            source: Source = "audit" if choice.audited else "miss"
            label = Label(self._odds, bool(not same[0]), source, self._decision.chance)
            self._ledger.learn(_HERE, label)
