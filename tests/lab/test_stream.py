"""A stream of questions as the product would see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from askonce.lab.stream import (
    Choice,
    Near,
    Neighbourhood,
    by_group,
    erring,
    play,
    play_static,
    shuffled,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _unit(count: int, dim: int = 16, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


class Bare:
    """Serves the nearest at or above a floor, and notes the labels it is told."""

    def __init__(self, floor: float, *, audit: bool = False) -> None:
        self.floor, self.audit = floor, audit
        self.told: list[tuple[int, list[bool], int]] = []

    def choose(self, query: int, near: Near) -> Choice:
        if len(near.rows) and near.cosines[0] >= self.floor:
            return Choice(0, self.audit)
        return Choice()

    def learn(self, query: int, near: Near, same: NDArray[np.bool_], choice: Choice) -> None:
        self.told.append((query, same.tolist(), choice.serve))


@pytest.mark.parametrize("count", [30, 700])
def test_near_rows_are_the_exact_nearest_of_those_stored(count: int) -> None:
    """Whatever is stored, the rows and their order are those of a full scan."""
    vectors = _unit(count)
    neighbourhood = Neighbourhood(vectors)
    stored = np.random.default_rng(1).random(count) < 0.5
    for query in range(0, count, 7):
        near = neighbourhood.near(query, stored, 5)
        every = np.flatnonzero(stored)
        expected = every[np.argsort(-(vectors[every] @ vectors[query]), kind="stable")[:5]]
        assert near.rows.tolist() == expected.tolist()
        assert near.cosines.tolist() == pytest.approx((vectors[expected] @ vectors[query]).tolist())


def test_an_empty_cache_has_no_neighbours() -> None:
    """Nothing stored, nothing near."""
    near = Neighbourhood(_unit(4)).near(0, np.zeros(4, dtype=np.bool_), 8)
    assert len(near.rows) == len(near.cosines) == 0


def test_misses_are_stored_and_labelled_and_hits_are_not() -> None:
    """A hit reveals nothing and stores nothing; a miss tells the labels of what was near."""
    vectors = np.array([[1, 0], [0, 1], [1, 0.01], [1, 0.02]], dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    player = Bare(0.9)
    log = play(np.arange(4), Neighbourhood(vectors), player, ["a", "b", "a", "b"], k=3)
    assert log.hit.tolist() == [False, False, True, True]
    assert log.wrong.tolist() == [False, False, False, True]
    assert player.told == [(0, [], -1), (1, [False], -1)]


def test_an_audited_hit_tells_its_labels_and_is_not_stored() -> None:
    """An audit asks the engine behind the caller's back."""
    vectors = np.array([[1, 0], [1, 0.01], [1, 0.02]], dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    player = Bare(0.9, audit=True)
    log = play(np.arange(3), Neighbourhood(vectors), player, ["a", "a", "b"])
    assert log.audited.tolist() == [False, True, True]
    assert player.told == [(0, [], -1), (1, [True], 0), (2, [False], 0)]


def test_an_erring_judge_errs_at_its_rate_and_repeats_itself() -> None:
    """The turned share is near the one asked for, and a pair's verdict never changes."""
    groups = [row % 2 for row in range(60)]
    pairs = [(one, other) for one in range(60) for other in range(one)]
    true, told = by_group(groups), erring(by_group(groups), 0.1, seed=3)
    turned = [true(*pair) != told(*pair) for pair in pairs]
    assert turned == [true(*pair) != told(*pair) for pair in pairs]
    assert 0.07 < sum(turned) / len(pairs) < 0.13


def test_orders_are_fixed_by_their_seed_and_cut_to_the_limit() -> None:
    """Two runs see the same questions in the same order."""
    assert shuffled(50, 1).tolist() == shuffled(50, 1).tolist() != shuffled(50, 2).tolist()
    assert shuffled(50, 1, limit=10).tolist() == shuffled(50, 1)[:10].tolist()


@pytest.mark.parametrize("count", [30, 700])
def test_all_static_thresholds_at_once_do_as_one_by_one(count: int) -> None:
    """What each serves, and what of it is wrong, is the same."""
    neighbourhood = Neighbourhood(_unit(count, dim=4))
    groups = [row % 7 for row in range(count)]
    order, floors = shuffled(count, 3), (-0.5, 0.7, 0.9, 0.99)
    logs = play_static(order, neighbourhood, groups, floors)
    for floor, log in zip(floors, logs, strict=True):
        one = play(order, neighbourhood, Bare(floor), groups, k=1)
        assert log.hit.tolist() == one.hit.tolist()
        assert log.wrong.tolist() == one.wrong.tolist()
