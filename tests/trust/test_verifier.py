"""The verifier: cold it knows traps, and it learns what counts as one answer here."""

from __future__ import annotations

import zlib
from random import Random

import numpy as np
import pytest

from askonce.trust.alignment import pack
from askonce.trust.prior import shipped
from askonce.trust.text.reading import analyse
from askonce.trust.verifier import Coefficients, Learner, Look, Memory, Text, rested, score, see

DIM = 48


def _text(text: str) -> Text:
    """A text whose tokens have random directions by their spelling."""
    words = text.lower().strip("?").split()
    seeds = [zlib.crc32(word.encode()) for word in words]
    rows = np.array([np.random.default_rng(seed).standard_normal(DIM) for seed in [0, *seeds, 0]])
    mean = rows[1:-1].mean(axis=0)
    ids = [0, *(seed % 30000 for seed in seeds), 0]
    vector = (mean / np.linalg.norm(mean)).astype(np.float32)
    return Text(analyse(text), pack(ids, rows.astype(np.float32)), vector)


def _look(
    by: Coefficients, asked: str, cached: list[str], answers: list[str] | None = None
) -> Look:
    one, others = _text(asked), [_text(each) for each in cached]
    cosines = np.array([one.vector @ each.vector for each in others], dtype=np.float32)
    return score(by, see(one, others, cosines), answers or cached)


def test_without_neighbours_there_is_nothing_to_serve() -> None:
    """An empty cache gives no place and no chance."""
    found = _look(rested(shipped(), DIM), "where is my card?", [])
    assert (found.best, found.score) == (-1, 0.0)


@pytest.mark.parametrize(
    ("asked", "cached"),
    [
        ("can i not pay by card?", "can i pay by card?"),
        ("how do i close account 17?", "how do i close account 71?"),
        ("flights from oslo to lima?", "flights from lima to oslo?"),
        ("does my policy cover theft?", "does his policy cover theft?"),
    ],
)
def test_cold_it_prefers_a_plain_rewording_to_a_trap(asked: str, cached: str) -> None:
    """The shipped prior ranks a near-copy with another meaning below one with the same."""
    by = rested(shipped(), DIM)
    trap = _look(by, asked, [cached])
    same = _look(by, "please tell me, " + asked, [asked])
    assert trap.score < 0.6 < same.score


def test_a_look_serves_the_best_place_and_says_how_sure_it_is() -> None:
    """The likeliest of several neighbours is served, wherever it stands."""
    by = rested(shipped(), DIM)
    found = _look(by, "where is my card now?", ["where is his card now?", "where is my card now ?"])
    assert found.best == 1
    assert 0.6 < found.score < 1


def _stream(count: int, seed: int) -> list[tuple[str, str, bool]]:
    """In this domain the season decides, and what things are called does not."""
    random = Random(seed)
    pairs = []
    for _ in range(count):
        thing = random.choice(["labs", "talks", "tours"])
        one, other = random.choice(["classes", "courses"]), random.choice(["classes", "courses"])
        season, next_ = random.choice(["winter", "autumn"]), random.choice(["winter", "autumn"])
        pairs.append(
            (f"{thing} of {one} in {season}", f"{thing} of {other} in {next_}", season == next_)
        )
    return pairs


def _taught(count: int, *, weight: float = 1.0) -> Learner:
    learner = Learner(shipped(), DIM, limit=500)
    for asked, cached, same in _stream(count, seed=1):
        learner.learn(_look(learner.coefficients, asked, [cached]), [same], weight)
        if learner.due:
            learner.refit()
    return learner


def test_it_learns_what_means_another_answer_here() -> None:
    """After a few hundred labels right and wrong pairs of the domain stand far apart."""
    by = _taught(300).coefficients
    chances = {True: [], False: []}  # type: dict[bool, list[float]]
    for asked, cached, same in _stream(60, seed=2):
        chances[same].append(_look(by, asked, [cached]).score)
    assert min(chances[True]) > 0.9
    assert max(chances[False]) < 0.1


def test_what_was_published_never_changes() -> None:
    """Coefficients held by a request in flight are not moved by later labels."""
    learner = _taught(40)
    held = learner.coefficients
    copies = [array.copy() for array in held]
    for asked, cached, same in _stream(40, seed=3):
        learner.learn(_look(held, asked, [cached]), [same])
    learner.refit()
    assert all(np.array_equal(one, other) for one, other in zip(held, copies, strict=True))
    assert not np.array_equal(learner.coefficients.pair, held.pair)


def test_the_same_labels_give_the_same_coefficients() -> None:
    """Learning is deterministic."""
    one, other = _taught(60).coefficients, _taught(60).coefficients
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_unrevealed_labels_teach_nothing() -> None:
    """An audit may know the served answer alone; the others are left out."""
    learner = Learner(shipped(), DIM)
    found = _look(learner.coefficients, "labs in winter", ["labs in autumn", "labs of winter"])
    before = learner.coefficients
    learner.learn(found, [None, None])
    assert learner.coefficients is before
    learner.learn(found, [None, True])
    touched = {int(place) for place in np.flatnonzero(learner.coefficients.table)}
    assert touched <= set(found.touched[1].tolist())


def test_far_neighbours_are_not_studied() -> None:
    """Labels beyond the nearest few and the best one change nothing."""
    cached = [f"what is the fee for card {number}?" for number in range(6)]
    learned = []
    for far in (True, False, None):
        learner = Learner(shipped(), DIM)
        look = _look(learner.coefficients, "what is the fee for card 9?", cached)
        near = [False if place in {0, 1, 2, look.best} else far for place in range(6)]
        learner.learn(look, near)
        learned.append(learner.coefficients.table.tolist())
    assert learned[0] == learned[1] == learned[2]


def test_it_is_due_often_at_first_and_then_every_hundred() -> None:
    """Early labels change much, late ones little."""
    learner, fits = Learner(shipped(), DIM, limit=100), []
    found = _look(learner.coefficients, "labs in winter", ["labs in autumn"])
    for count in range(1, 1000):
        learner.learn(found, [count % 3 == 0])
        if learner.due:
            learner.refit()
            fits.append(count)
    gaps = np.diff(fits)
    assert fits[0] == 10
    assert (gaps[1:] >= gaps[:-1]).all()
    assert gaps[-1] == 100


def test_memory_holds_the_latest_rows_up_to_its_bound() -> None:
    """Older rows are written over, and it grows only as far as it must."""
    memory = Memory(100, 1, np.float32)
    memory.add(np.arange(30.0)[:, None])
    assert memory.count == 30
    memory.add(np.arange(30.0, 250.0)[:, None])
    assert memory.count == 100
    assert sorted(memory.rows[:, 0].tolist()) == list(np.arange(150.0, 250.0))
