"""Caches to compare on one stream: a bare threshold, one estimator an entry, and the ledger."""

from __future__ import annotations

import random
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from askonce.lab.stream import Choice
from askonce.trust.asked import Place
from askonce.trust.evidence import Label, odds_of_cosine
from askonce.trust.prior import shipped
from askonce.trust.verifier import Learner, Look, Seen, Text, score, see

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from askonce.lab.stream import Near
    from askonce.trust.budget import Decision
    from askonce.trust.ledger import Ledger

_HERE = Place(b"lab", b"lab")
_HEAVIEST = 5.0

OBSERVATIONS = 6
"""Labels that an entry needs before it may answer, in the per-entry estimator."""
_REMEMBERED = 64
_DOUBTS = tuple(0.01 * step for step in range(1, 50))


class Static:
    """Serves the nearest at or above a fixed cosine."""

    def __init__(self, floor: float) -> None:
        """floor: least cosine."""
        self._floor = floor

    def choose(self, query: int, near: Near) -> Choice:  # noqa: ARG002 - a Player's face
        """The nearest, or a miss."""
        return Choice(0 if len(near.rows) and near.cosines[0] >= self._floor else -1)

    def learn(self, query: int, near: Near, same: NDArray[np.bool_], choice: Choice) -> None:
        """Nothing to learn."""


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


class Scorer(Protocol):
    """Which neighbour to serve, and the log odds that it is right."""

    def score(self, query: int, near: Near) -> tuple[int, float]:
        """Place among the near and log odds; there is at least one."""
        ...

    def learn(self, same: NDArray[np.bool_], weight: float) -> None:
        """Labels of the near that were scored last."""
        ...


class ByCosine:
    """The nearest, by cosine alone."""

    def score(self, query: int, near: Near) -> tuple[int, float]:  # noqa: ARG002 - a Scorer's face
        """Nearest first."""
        return 0, odds_of_cosine(float(near.cosines[0]))

    def learn(self, same: NDArray[np.bool_], weight: float) -> None:
        """Nothing to learn."""


class ByVerifier:
    """What the verifier says, which learns as it goes."""

    def __init__(self, texts: Sequence[Text], answers: Sequence[Hashable]) -> None:
        """Texts ready to compare, and ids of their answers: equal ids, same answer."""
        self._texts = texts
        self._answers = answers
        self._learner = Learner(shipped(), len(texts[0].vector))
        self._look: Look | None = None

    def score(self, query: int, near: Near) -> tuple[int, float]:
        """The likeliest answer's likeliest neighbour."""
        rows = near.rows.tolist()
        seen = self._see(query, near, rows)
        self._look = score(self._learner.coefficients, seen, [self._answers[row] for row in rows])
        return self._look.best, float(self._look.logits.max())

    def learn(self, same: NDArray[np.bool_], weight: float) -> None:
        """Teach the look that was scored last; refit when it is time."""
        if self._look is not None:
            self._learner.learn(self._look, same.tolist(), weight)
            if self._learner.due:
                self._learner.refit()

    def _see(self, query: int, near: Near, rows: Sequence[int]) -> Seen:
        return see(self._texts[query], [self._texts[row] for row in rows], near.cosines)


class Budgeted:
    """A scorer under a ledger: the product's rule."""

    def __init__(self, scorer: Scorer, ledger: Ledger) -> None:
        """Take both fresh."""
        self._scorer = scorer
        self._ledger = ledger
        self._place = -1
        self._score = 0.0
        self._decision: Decision | None = None

    def choose(self, query: int, near: Near) -> Choice:
        """Serve if the ledger says so."""
        request = query.to_bytes(8, "big")
        if not len(near.rows):
            self._decision = None
            self._ledger.decide(_HERE, None, request)
            return Choice()
        self._place, self._score = self._scorer.score(query, near)
        self._decision = self._ledger.decide(_HERE, self._score, request)
        return Choice(self._place, self._decision.audit) if self._decision.serve else Choice()

    def learn(self, query: int, near: Near, same: NDArray[np.bool_], choice: Choice) -> None:  # noqa: ARG002 - a Player's face
        """The served or would-be candidate's verdict is evidence; all of them teach the scorer."""
        if self._decision is not None:
            chance = self._decision.chance
            source = "audit" if choice.audited else "miss"
            wrong = not same[self._place]
            self._ledger.learn(_HERE, Label(self._score, bool(wrong), source, chance))  # type: ignore[arg-type]
            self._scorer.learn(same, min(_HEAVIEST, 1 / chance))
