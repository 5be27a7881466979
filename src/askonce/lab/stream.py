"""A stream of questions into a cache that stores what it misses, with the labels it would get.

Each question comes once. A miss calls the engine, so its fresh answer is judged against those of
the nearest stored questions; so does an audited hit. Nothing else reveals a label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

Judge = Callable[[int, int], bool]
"""Whether the fresh answer to one row would do for another, as the judge has it."""

_AHEAD = 256
"""Nearest rows worked out beforehand for each row, of which the stored ones count."""
_BLOCK = 512


class Near(NamedTuple):
    """The nearest stored questions, best first."""

    rows: NDArray[np.int64]
    cosines: NDArray[np.float32]


class Choice(NamedTuple):
    """What a player does with one question."""

    serve: int = -1
    """Place among the near, or -1: ask the engine and store."""
    audited: bool = False
    """The hit is served, and the engine asked all the same."""


class Player(Protocol):
    """A cache under test; randomness of its own comes from a seed that it was made with."""

    def choose(self, query: int, near: Near) -> Choice:
        """Serve one of the near, or miss; changes nothing but its own random state."""
        ...

    def learn(self, query: int, near: Near, same: NDArray[np.bool_], choice: Choice) -> None:
        """Labels of all the near, after a miss (then the query is stored) or an audited hit."""
        ...


class Log(NamedTuple):
    """What happened to each question, in the order they came."""

    hit: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    """Hits alone, by the true groups."""
    audited: NDArray[np.bool_]


class Neighbourhood:
    """Exact nearest rows among any subset of fixed unit vectors; the search is shared by orders."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        """Work out the nearest rows of each row: O(n^2) once, 1 KiB a row kept."""
        self._vectors = vectors
        count = min(_AHEAD, len(vectors))
        self._ahead = np.empty((len(vectors), count), dtype=np.int32)
        for start in range(0, len(vectors), _BLOCK):
            scores = vectors[start : start + _BLOCK] @ vectors.T
            best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
            ranked = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
            self._ahead[start : start + _BLOCK] = np.take_along_axis(best, ranked, axis=1)

    def near(self, query: int, stored: NDArray[np.bool_], k: int) -> Near:
        """The k nearest rows of those stored."""
        ahead = self._ahead[query]
        rows: NDArray[np.int64] = ahead[stored[ahead]][:k].astype(np.int64)
        if len(rows) < k:
            every = np.flatnonzero(stored)
            scores = self._vectors[every] @ self._vectors[query]
            rows = every[np.argsort(-scores, kind="stable")[:k]]
        return Near(rows, self._vectors[rows] @ self._vectors[query])


def by_group(groups: Sequence[Hashable]) -> Judge:
    """A judge that never errs."""
    return lambda one, other: groups[one] == groups[other]


def erring(judge: Judge, share: float, seed: int) -> Judge:
    """A judge whose verdict on a pair is turned with this probability, always the same way."""

    def judged(one: int, other: int) -> bool:
        turned = np.random.default_rng((seed, one, other)).random() < share
        return judge(one, other) != turned

    return judged


def shuffled(count: int, seed: int, limit: int = 0) -> NDArray[np.int64]:
    """An order of the rows fixed by the seed, cut to the limit unless that is 0."""
    order = np.random.default_rng(seed).permutation(count)
    return order[:limit] if limit else order


def play(
    order: NDArray[np.int64],
    neighbourhood: Neighbourhood,
    player: Player,
    groups: Sequence[Hashable],
    *,
    judge: Judge | None = None,
    k: int = 8,
) -> Log:
    """Send the rows in this order through the player."""
    judge = judge or by_group(groups)
    stored = np.zeros(len(groups), dtype=np.bool_)
    log = Log(*(np.zeros(len(order), dtype=np.bool_) for _ in Log._fields))
    for place, query in enumerate(order.tolist()):
        near = neighbourhood.near(query, stored, k)
        choice = player.choose(query, near)
        log.hit[place] = choice.serve >= 0
        log.audited[place] = choice.audited
        if choice.serve >= 0:
            log.wrong[place] = groups[near.rows[choice.serve]] != groups[query]
        if choice.serve < 0 or choice.audited:
            same = np.array([judge(query, row) for row in near.rows.tolist()], dtype=np.bool_)
            player.learn(query, near, same, choice)
        stored[query] |= choice.serve < 0
    return log
