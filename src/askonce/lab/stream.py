"""A stream of questions into a cache that stores what it misses, with the labels it would get.

Each question comes once. A miss calls the engine, so its fresh answer is judged against those of
the nearest stored questions; so does an audited hit. Nothing else reveals a label.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
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
    ranks: NDArray[np.int64] | None = None
    """Place of each among the nearest of all rows, stored or not, if it is that near."""

    def only(self, places: NDArray[np.intp]) -> Near:
        """Those at these places."""
        ranks = self.ranks if self.ranks is None else self.ranks[places]
        return Near(self.rows[places], self.cosines[places], ranks)


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
        """Work out the nearest rows of each row: O(n^2) once, 2 KiB a row kept."""
        self._vectors = vectors
        count = min(_AHEAD, len(vectors))
        self._ahead = np.empty((len(vectors), count), dtype=np.int32)
        self._cosines = np.empty((len(vectors), count), dtype=np.float32)
        for start in range(0, len(vectors), _BLOCK):
            scores = vectors[start : start + _BLOCK] @ vectors.T
            best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
            near = np.take_along_axis(scores, best, axis=1)
            ranked = np.argsort(-near, axis=1, kind="stable")
            self._ahead[start : start + _BLOCK] = np.take_along_axis(best, ranked, axis=1)
            self._cosines[start : start + _BLOCK] = np.take_along_axis(near, ranked, axis=1)

    def near(self, query: int, stored: NDArray[np.bool_], k: int) -> Near:
        """The k nearest rows of those stored."""
        ahead = self._ahead[query]
        ranks = stored[ahead].nonzero()[0][:k]
        if len(ranks) == k:
            return Near(ahead[ranks].astype(np.int64), self._cosines[query, ranks], ranks)
        every = np.flatnonzero(stored)
        scores = self._vectors[every] @ self._vectors[query]
        best = np.argsort(-scores, kind="stable")[:k]
        return Near(every[best], scores[best])

    def nearest(
        self, query: int, stored: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The nearest row in each of several caches, columns of `stored`; cosine -1 for none."""
        ahead = self._ahead[query]
        held = stored[ahead]
        ranks = held.argmax(axis=0)
        found = held[ranks, np.arange(held.shape[1])]
        rows, cosines = ahead[ranks].astype(np.int64), self._cosines[query, ranks]
        for cache in np.flatnonzero(~found).tolist():
            near = self.near(query, stored[:, cache], 1)
            rows[cache] = near.rows[0] if len(near.rows) else query
            cosines[cache] = near.cosines[0] if len(near.rows) else -1.0
        return rows, cosines


def by_group(groups: Sequence[Hashable]) -> Judge:
    """A judge that never errs."""
    return lambda one, other: groups[one] == groups[other]


def erring(judge: Judge, share: float, seed: int) -> Judge:
    """A judge whose verdict on a pair is turned with this probability, always the same way."""

    def judged(one: int, other: int) -> bool:
        drawn = blake2b(b"%d %d %d" % (seed, one, other), digest_size=8).digest()
        return judge(one, other) != (int.from_bytes(drawn, "big") < share * 2**64)

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


def play_static(
    order: NDArray[np.int64],
    neighbourhood: Neighbourhood,
    groups: Sequence[Hashable],
    floors: Sequence[float],
) -> list[Log]:
    """As `play` with a bare threshold on the nearest, for all of the floors at once."""
    floor = np.array(floors, dtype=np.float64)
    numbers: dict[Hashable, int] = {}
    group = np.array([numbers.setdefault(each, len(numbers)) for each in groups])
    stored = np.zeros((len(groups), len(floors)), dtype=np.bool_)
    hit = np.zeros((len(order), len(floors)), dtype=np.bool_)
    wrong = np.zeros_like(hit)
    for place, query in enumerate(order.tolist()):
        rows, cosines = neighbourhood.nearest(query, stored)
        hit[place] = cosines >= floor
        wrong[place] = hit[place] & (group[rows] != group[query])
        stored[query] = ~hit[place]
    none = np.zeros(len(order), dtype=np.bool_)
    return [Log(hit[:, at], wrong[:, at], none) for at in range(len(floors))]
