"""What a cache would have served, and how much of it wrongly; pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from askonce.trust.text.guards import veto

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from askonce.ports import Vector

    Matrix = NDArray[np.float32]
    """Shape (texts, dim), unit rows."""

_CLOSE_ENOUGH = 1e-6
"""Cosines of equal vectors fall short of 1 by rounding."""


class Rule(msgspec.Struct, frozen=True):
    """How a cache decides."""

    floor: float
    guarded: bool
    """AskOnce's decision; without it, a bare threshold on the nearest."""


class Stream(msgspec.Struct, frozen=True):
    """Questions in the order they come, each once; row i of the matrix embeds text i."""

    texts: Sequence[str]
    groups: Sequence[Hashable]
    vectors: Matrix


class Tally(msgspec.Struct, frozen=True):
    """What one rule served."""

    asked: int
    hits: int
    wrong: int

    @property
    def hit_share(self) -> float:
        """Hits per question."""
        return self.hits / self.asked if self.asked else 0.0

    @property
    def wrong_share(self) -> float:
        """Wrong hits per hit."""
        return self.wrong / self.hits if self.hits else 0.0

    @property
    def wrong_per_thousand(self) -> float:
        """Wrong answers per 1,000 questions."""
        return 1000 * self.wrong / self.asked if self.asked else 0.0


def ceiling(groups: Sequence[Hashable]) -> float:
    """Share of questions that come after another one of their group."""
    return 1 - len(set(groups)) / len(groups) if groups else 0.0


def replay(stream: Stream, rule: Rule, *, neighbours: int) -> Tally:
    """Send each question once into an empty cache; what misses is stored, as in the product."""
    stored = np.empty_like(stream.vectors)
    origin: list[int] = []
    hits = wrong = 0
    for index in range(len(stream.texts)):
        near = _nearest(stored[: len(origin)], stream.vectors[index], rule, neighbours)
        served = next(
            (origin[k] for k in near if passes(stream.texts[index], stream.texts[origin[k]], rule)),
            None,
        )
        if served is None:
            stored[len(origin)] = stream.vectors[index]
            origin.append(index)
        else:
            hits += 1
            wrong += stream.groups[served] != stream.groups[index]
    return Tally(len(stream.texts), hits, wrong)


def replay_storing_all(stream: Stream, floors: Sequence[float]) -> list[Tally]:
    """Bare thresholds where every question is stored, hit or not: the form static tables take."""
    best = np.full(len(stream.texts), -1.0)
    wrong = np.zeros(len(stream.texts), dtype=bool)
    for index in range(1, len(stream.texts)):
        scores = stream.vectors[:index] @ stream.vectors[index]
        nearest = int(scores.argmax())
        best[index] = scores[nearest]
        wrong[index] = stream.groups[nearest] != stream.groups[index]
    reached = [best >= floor - _CLOSE_ENOUGH for floor in floors]
    return [Tally(len(best), int(hit.sum()), int((hit & wrong).sum())) for hit in reached]


def passes(question: str, cached: str, rule: Rule) -> bool:
    """Whether the guards, if the rule has any, let the cached question answer this one."""
    return not rule.guarded or veto(question, cached) is None


def _nearest(stored: Matrix, vector: Vector, rule: Rule, neighbours: int) -> list[int]:
    """Rows at or above the floor, nearest first, as many as the rule looks at."""
    scores = stored @ vector
    above = np.flatnonzero(scores >= rule.floor - _CLOSE_ENOUGH)
    count = neighbours if rule.guarded else 1
    return [int(row) for row in above[np.argsort(-scores[above], kind="stable")][:count]]


class Judged(msgspec.Struct, frozen=True):
    """One pair as the tier sees it."""

    a: str
    b: str
    same: bool
    kind: str
    comparable: bool
    """Everything around the two texts is equal, so the tier compares them at all."""
    cosine: float


def count_served(pairs: Sequence[Judged], rule: Rule) -> int:
    """How many of the pairs the rule serves.

    A bare threshold looks at the last texts alone, as caches keyed on the last message do.
    """
    return sum(_serves(pair, rule) for pair in pairs)


def _serves(pair: Judged, rule: Rule) -> bool:
    if pair.cosine < rule.floor - _CLOSE_ENOUGH:
        return False
    return not rule.guarded or (pair.comparable and passes(pair.a, pair.b, rule))
