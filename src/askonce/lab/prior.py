"""Train the prior that ships: what holds in every domain, and nothing more.

A verifier trained freely on some domains fails in others, so a column may only speak in the
direction that its meaning gives it: likeness for, a difference or a guard's veto against.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from askonce.lab.perturb import made
from askonce.lab.stream import Neighbourhood, shuffled
from askonce.trust import features, prior
from askonce.trust.alignment import TokenVectors, align
from askonce.trust.logistic import Labelled, Ridge, fit, probability
from askonce.trust.text.comparison import compare
from askonce.trust.text.reading import analyse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from askonce.lab.sets import LabelledSet
    from askonce.ports import Vector

    Floats = NDArray[np.float32]
    Read = Callable[[str], tuple[Vector, TokenVectors]]

_FOR = (
    "cosine", "mean_", "least_", "new_mean", "new_least", "in_order", "alike", "akin", "asks_",
    "tense_", "mood_", "person_", "owner_", "asked_within", "cached_within", "content_equal",
)  # fmt: skip
_AGAINST = (
    "poor", "new_asked", "new_cached", "only_", "hard_", "number_", "code",
    "name_", "negation", "guard_", "one_swapped",
)  # fmt: skip
_MOST_WEIGHT = 1000.0
"""A set counts as this many pairs at the most."""
_STREAM = 1500
_PAIRS = 2500
_MADE = 100
_NEIGHBOURS = 8
_RIDGE = 3.0
_CONSTANT = 0.1
_DIFFERENCES = 0.3
_ANSWER = 5.0
_SHUT = 1e6
_CLIP = 4
LEVELS = (0.5, 0.6, 2 / 3, 0.7, 0.8, 0.9)
"""Chances at which a prior is tried on a set that it has not seen."""


class Domain(NamedTuple):
    """Pairs of one set."""

    rows: Floats
    """Columns of features.NAMES."""
    labels: Floats


class LeftOut(NamedTuple):
    """Shares of a set that are served by a prior made without it, where no guard speaks."""

    least: float
    """P(same answer) from which on a pair is served."""
    different: float
    same: float


def directions() -> NDArray[np.int8]:
    """For each column of features.NAMES: 1 speaks for one answer, -1 against, 0 is left out."""
    return np.array(
        [name.startswith(_FOR) - name.startswith(_AGAINST) for name in features.NAMES],
        dtype=np.int8,
    )


def domain(labelled: LabelledSet, read: Read) -> Domain:
    """Its pairs; of a group set each question with its nearest earlier ones."""
    if labelled.pairs:
        chosen = [p for p in labelled.pairs if isinstance(p.a, str) and isinstance(p.b, str)]
        told = [(str(p.a), str(p.b), bool(p.same)) for p in chosen[:_PAIRS]]
    else:
        told = _near(labelled, read)
    return _domain(told, read)


def turned(texts: Sequence[str], read: Read) -> Domain:
    """Pairs made by rule from any texts."""
    pairs = made(texts, Random(0), _MADE)  # noqa: S311 - a fixed order, not a secret
    return _domain([(str(p.a), str(p.b), bool(p.same)) for p in pairs], read)


def _near(labelled: LabelledSet, read: Read) -> list[tuple[str, str, bool]]:
    asked = labelled.asked[:_STREAM]
    neighbourhood = Neighbourhood(np.stack([read(each.text)[0] for each in asked]))
    stored = np.zeros(len(asked), dtype=np.bool_)
    told = []
    for query in shuffled(len(asked), 0).tolist():
        for row in neighbourhood.near(query, stored, _NEIGHBOURS).rows.tolist():
            same = asked[row].group == asked[query].group
            told.append((asked[row].text, asked[query].text, same))
        stored[query] = True
    return told


def _domain(told: Sequence[tuple[str, str, bool]], read: Read) -> Domain:
    rows = [_row(cached, asked, read) for cached, asked, _ in told]
    return Domain(np.concatenate(rows), np.array([same for *_, same in told], dtype=np.float32))


def _row(cached: str, asked: str, read: Read) -> Floats:
    (one, tokens), (other, others) = read(asked), read(cached)
    cosine = np.array([one @ other], dtype=np.float32)
    pair = compare(analyse(asked), analyse(cached))
    return features.dense([pair], cosine, align(tokens, [others]))


def train(domains: Sequence[Domain]) -> prior.Prior:
    """Fit one set of coefficients to all domains, each in its direction or not at all."""
    rows = np.concatenate([each.rows for each in domains])
    labels = np.concatenate([each.labels for each in domains])
    weights = np.concatenate([_weights(each) for each in domains])
    mean = weights @ rows / weights.sum()
    scale = np.sqrt(weights @ (rows - mean) ** 2 / weights.sum()) + np.float32(0.05)
    scaled = _scaled(rows, mean, scale)
    columns = np.column_stack([scaled, np.zeros_like(labels), np.ones_like(labels)])
    data = Labelled(columns.astype(np.float32), labels, weights)
    return _written(mean, scale, _directed(data))


def left_out(domains: Sequence[Domain], at: int) -> list[LeftOut]:
    """What a prior of all other sets serves of this one, at each of LEVELS."""
    found = train([each for place, each in enumerate(domains) if place != at])
    rows, same = domains[at].rows, domains[at].labels > 0
    centre = prior.column(found.pair.centre)
    width = len(features.NAMES)
    scaled = _scaled(rows, prior.column(found.mean), prior.column(found.scale))
    chances = probability(scaled @ centre[:width] + centre[-1])
    guards = [place for place, name in enumerate(features.NAMES) if name.startswith("guard_")]
    chances[rows[:, guards].any(axis=1)] = 0
    return [
        LeftOut(
            least, float((chances[~same] >= least).mean()), float((chances[same] >= least).mean())
        )
        for least in LEVELS
    ]


def _scaled(rows: Floats, mean: Floats, scale: Floats) -> Floats:
    found: Floats = np.clip((rows - mean) / scale, -_CLIP, _CLIP)
    return found


def _weights(each: Domain) -> Floats:
    share = min(_MOST_WEIGHT, len(each.labels)) / len(each.labels)
    return np.full(len(each.labels), share, dtype=np.float32)


def _directed(data: Labelled) -> Floats:
    """Fit, shut the columns that point the wrong way, and fit again until none does."""
    way = directions()
    open_ = way != 0
    rest = np.zeros(len(prior.PAIR_NAMES), dtype=np.float32)
    while True:
        precision = np.where(open_, _RIDGE, _SHUT)
        precision = np.append(precision, [_DIFFERENCES, _CONSTANT]).astype(np.float32)
        found = fit(data, Ridge(rest, precision), rest)
        wrong = open_ & (found[:-2] * way < 0)
        if not wrong.any():
            found[:-2][~open_] = 0
            return found
        open_ &= ~wrong


def _written(mean: Floats, scale: Floats, pair: Floats) -> prior.Prior:
    answers = [1.0] + [0.0] * (len(prior.ANSWER_NAMES) - 1)
    return prior.Prior(
        version=prior.VERSION,
        mean=_rounded(mean),
        scale=_rounded(scale),
        pair=prior.Stage(
            list(prior.PAIR_NAMES),
            _rounded(pair),
            [_RIDGE] * len(features.NAMES) + [_DIFFERENCES, _CONSTANT],
        ),
        answer=prior.Stage(
            list(prior.ANSWER_NAMES),
            answers,
            [_ANSWER] * (len(prior.ANSWER_NAMES) - 1) + [_CONSTANT],
        ),
    )


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 5) for value in values]
