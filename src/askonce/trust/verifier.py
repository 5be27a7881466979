"""P(same answer) for a question and its nearest cached ones; learns where the traffic is.

The request path reads an immutable `Coefficients`; a `Learner`, owned by the background, takes
labels and publishes new ones. A `Look` is scored before its labels are learned, so the scores in
looks are honest evidence for calibration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from askonce.trust import differences, features
from askonce.trust.agreement import agreement
from askonce.trust.alignment import align
from askonce.trust.logistic import WARM, Labelled, Ridge, fit, probability
from askonce.trust.prior import column
from askonce.trust.text.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from askonce.trust.alignment import TokenVectors
    from askonce.trust.prior import Prior
    from askonce.trust.text.reading import Reading

    Floats = NDArray[np.float32]

_CLIP = 4.0
_LOGIT = 15.0
_STUDIED = 3
"""Nearest neighbours of a question whose labels are learned, beside its best one's."""


class Text(NamedTuple):
    """One question, ready to be compared."""

    reading: Reading
    tokens: TokenVectors
    vector: Floats
    """Unit length, float32."""


class Coefficients(NamedTuple):
    """Everything that scores a pair; never changed once made."""

    mean: Floats
    scale: Floats
    pair: Floats
    """Columns of prior.PAIR_NAMES, then one a dimension of the metric."""
    answer: Floats
    """Columns of prior.ANSWER_NAMES."""
    table: Floats
    """The weights of differing words."""


class Seen(NamedTuple):
    """What was measured of the pairs, before anything weighs it."""

    raw: Floats
    """Columns of features.NAMES, one row a neighbour."""
    products: NDArray[np.float16]
    """One column a dimension."""
    touched: tuple[differences.Keys, ...]
    cosines: Floats


class Look(NamedTuple):
    """One question beside its neighbours, as scored then; keep it until its labels come."""

    rows: Floats
    """Pair columns without the metric's, one row a neighbour."""
    products: NDArray[np.float16]
    touched: tuple[differences.Keys, ...]
    offsets: Floats
    """Logit of each pair without its differing words."""
    answers: Floats
    """Answer columns, one row a different answer among the neighbours."""
    places: NDArray[np.intp]
    """The likeliest neighbour of each answer."""
    logits: Floats
    """Of each answer."""

    @property
    def best(self) -> int:
        """Place of the neighbour to serve, if any; -1 without neighbours."""
        return int(self.places[self.logits.argmax()]) if len(self.logits) else -1

    @property
    def score(self) -> float:
        """P(same answer) of the best, in 0..1."""
        return float(probability(self.logits.max())) if len(self.logits) else 0.0


def rested(prior: Prior, dim: int) -> Coefficients:
    """The coefficients that know nothing but the prior."""
    pair = np.concatenate([column(prior.pair.centre), np.zeros(dim, dtype=np.float32)])
    return Coefficients(
        mean=column(prior.mean),
        scale=column(prior.scale),
        pair=pair,
        answer=column(prior.answer.centre),
        table=differences.fresh(),
    )


def see(asked: Text, cached: Sequence[Text], cosines: Floats) -> Seen:
    """Measure a question beside its neighbours, nearest first."""
    if not cached:
        none = np.zeros((0, len(asked.vector)), dtype=np.float16)
        return Seen(np.zeros((0, len(features.NAMES)), dtype=np.float32), none, (), cosines)
    pairs = [compare(asked.reading, each.reading) for each in cached]
    raw = features.dense(pairs, cosines, align(asked.tokens, [each.tokens for each in cached]))
    vectors = np.array([each.vector for each in cached])
    products = features.products(asked.vector, vectors, cosines)
    touched = tuple(differences.keys(pair) for pair in pairs)
    return Seen(raw, products.astype(np.float16), touched, cosines)


def score(by: Coefficients, seen: Seen, answers: Sequence[Hashable]) -> Look:
    """Weigh what was measured; neighbours with the same answer have equal ids."""
    if not seen.touched:
        none = np.zeros(0, dtype=np.float32)
        empty = none.reshape(0, 0)
        return Look(empty, seen.products, (), none, empty, np.zeros(0, dtype=np.intp), none)
    width = len(features.NAMES)
    rows = np.ones((len(seen.raw), width + 2), dtype=np.float32)
    np.divide(seen.raw - by.mean, by.scale, out=rows[:, :width])
    np.minimum(np.maximum(rows[:, :width], -_CLIP), _CLIP, out=rows[:, :width])
    rows[:, width] = said = differences.logits(by.table, seen.touched)
    logits = rows @ by.pair[: width + 2]
    logits += seen.products.astype(np.float32) @ by.pair[width + 2 :]
    bounded = np.minimum(np.maximum(logits, -_LOGIT), _LOGIT)
    columns, places = agreement(bounded, seen.cosines, answers)
    votes = np.ones((len(columns), columns.shape[1] + 1), dtype=np.float32)
    votes[:, :-1] = columns
    offsets = logits - said * by.pair[width]
    return Look(rows, seen.products, seen.touched, offsets, votes, places, votes @ by.answer)


class Memory:
    """The latest labelled rows, up to a bound; older ones are written over."""

    def __init__(self, limit: int, width: int, dtype: type[np.floating]) -> None:
        """Hold no rows yet; memory grows by doubling up to the limit."""
        self._limit = limit
        self._rows = np.zeros((min(64, limit), width), dtype=dtype)
        self._next = 0
        self.count = 0

    def add(self, rows: NDArray[np.floating]) -> None:
        """Keep these rows."""
        while len(rows):
            if self._next == len(self._rows) < self._limit:
                room = min(len(self._rows), self._limit - len(self._rows))
                self._rows = np.concatenate([self._rows, np.zeros_like(self._rows[:room])])
            self._next %= self._limit
            fit = min(len(rows), len(self._rows) - self._next)
            self._rows[self._next : self._next + fit] = rows[:fit]
            self._next += fit
            self.count = max(self.count, self._next)
            rows = rows[fit:]

    @property
    def rows(self) -> NDArray[np.floating]:
        """What is held, in no order."""
        return self._rows[: self.count]


class Learner:
    """Labels in, coefficients out; one for each namespace, used from one thread at a time."""

    def __init__(self, prior: Prior, dim: int, *, limit: int = 8000) -> None:
        """Start at the prior; at most `limit` labelled pairs are remembered, 1 KiB each."""
        self.coefficients = rested(prior, dim)
        width = len(prior.pair.centre)
        self._pairs = _ridge(prior.pair.centre, prior.pair.precision, dim, prior.metric_precision)
        self._answers = _ridge(prior.answer.centre, prior.answer.precision, 0, 0.0)
        self._rows = Memory(limit, width + 2, np.float32)
        self._products = Memory(limit, dim, np.float16)
        self._votes = Memory(limit // 2, len(prior.answer.centre) + 2, np.float32)
        self._differences = differences.Differences()
        self._learned = 0
        self._fitted = 0

    def learn(self, seen: Look, same: Sequence[bool | None], weight: float = 1.0) -> None:
        """Take the labels of a look's neighbours; None where none was revealed.

        Those of the nearest few and of the best tell the most: with the same memory, more questions
        are remembered than if all neighbours were.
        """
        studied = {*range(_STUDIED), seen.best}
        known = [
            place for place, label in enumerate(same) if label is not None and place in studied
        ]
        if not known:
            return
        labels = np.array(same, dtype=np.float32)  # NaN where none was revealed
        self._rows.add(_labelled(seen.rows[known], labels[known], weight))
        self._products.add(seen.products[known])
        told = labels[seen.places]
        revealed = ~np.isnan(told)
        self._votes.add(_labelled(seen.answers[revealed], told[revealed], weight))
        for place in known:
            self._differences.learn(
                seen.touched[place],
                float(seen.offsets[place]),
                same=bool(same[place]),
                weight=weight,
            )
        self._learned += 1
        self.coefficients = self.coefficients._replace(table=self._differences.table.copy())

    def fits(self, seen: Look) -> bool:
        """Whether the look was taken with these features and this embedder's dimensions."""
        widths = seen.rows.shape[1], seen.products.shape[1], seen.answers.shape[1]
        own = self._rows.rows.shape[1] - 2, self._products.rows.shape[1]
        return widths == (*own, self._votes.rows.shape[1] - 2)

    @property
    def due(self) -> bool:
        """Whether enough was learned since the last fit to fit again: often at first."""
        return self._learned - self._fitted >= min(100, max(10, self._fitted // 4))

    def refit(self) -> Coefficients:
        """Fit both stages to what is remembered; a fraction of a second, off the request path."""
        self._fitted = self._learned
        now = self.coefficients
        rows = self._rows.rows
        width = rows.shape[1] - 2
        pairs = np.empty((len(rows), len(now.pair)), dtype=np.float32)
        pairs[:, :width], pairs[:, width:] = rows[:, :-2], self._products.rows
        pair = fit(Labelled(pairs, rows[:, -2], rows[:, -1]), self._pairs, now.pair, WARM)
        votes = self._votes.rows
        data = Labelled(votes[:, :-2], votes[:, -2], votes[:, -1])
        answer = fit(data, self._answers, now.answer, WARM)
        self.coefficients = now._replace(pair=pair, answer=answer)
        return self.coefficients


def _labelled(rows: Floats, labels: Floats, weight: float) -> Floats:
    told = np.empty((len(rows), rows.shape[1] + 2), dtype=np.float32)
    told[:, :-2] = rows
    told[:, -2] = labels
    told[:, -1] = weight
    return told


def _ridge(centre: list[float], precision: list[float], dim: int, metric: float) -> Ridge:
    rest, firm = np.zeros(dim, dtype=np.float32), np.full(dim, metric, dtype=np.float32)
    return Ridge(np.concatenate([column(centre), rest]), np.concatenate([column(precision), firm]))
