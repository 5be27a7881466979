"""Admission: which blocks are worth the store's bytes."""

from __future__ import annotations

import random

import pytest

from askonce.kv.admission import Admission, Limits
from askonce.kv.reuse import COUNTS
from askonce.kv.sights import read_page
from askonce.units import Bytes, Seconds

SESSION = COUNTS
"""The first class of blocks that go on from a session."""


def limits(blocks: int) -> Limits:
    """A store for so many blocks."""
    return Limits(budget=Bytes(blocks * 100), block_bytes=Bytes(100))


def hashes(*numbers: int) -> list[int]:
    """Uniform 64-bit hashes of numbered blocks."""
    return [random.Random(number).getrandbits(64) for number in numbers]


def one_offs(admission: Admission, count: int, *, start: int = 0) -> None:
    """Requests of which no two share a block, one a second."""
    for number in range(start, start + count):
        blocks = hashes(*range(1000 * number + 10**6, 1000 * number + 10**6 + 8))
        admission.see(blocks, Seconds(float(number)))


def sessions(admission: Admission, count: int, turns: int = 3) -> None:
    """Prompts that come again after 30 seconds with more behind them."""
    for number in range(count):
        for turn in range(turns):
            if number - 30 * turn >= 0:
                first = 1000 * (number - 30 * turn)
                blocks = hashes(*range(first, first + 4 * (turn + 1)))
                admission.see(blocks, Seconds(float(number)))


def test_before_anything_is_known_everything_is_stored() -> None:
    """The first requests are kept for a while of their own."""
    admission = Admission(limits(1000))
    seen = admission.see(hashes(1, 2, 3), Seconds(0.0))
    assert admission.keep(seen) == [300.0] * 3


def test_what_is_never_read_again_is_not_stored() -> None:
    """With one-off prompts alone the store stays free, however much room it has."""
    admission = Admission(limits(10**6))
    one_offs(admission, 100)
    seen = admission.see(hashes(1, 2, 3), Seconds(100.0))
    assert admission.keep(seen) == []


def test_with_room_to_spare_first_sights_are_stored() -> None:
    """Where prompts do come again, a large store takes them at once."""
    admission = Admission(limits(10**6))
    sessions(admission, 200)
    seen = admission.see(hashes(-1, -2, -3), Seconds(200.0))
    assert len(admission.keep(seen)) == 3


def test_under_pressure_the_likeliest_are_stored_first() -> None:
    """A small store refuses first sights and takes what was seen before."""
    admission = Admission(limits(120))
    sessions(admission, 200)
    one_offs(admission, 100, start=200)
    assert admission.shares[0] < 0.5
    assert max(admission.shares) > 0.9


def test_a_store_without_room_takes_nothing() -> None:
    """A budget below one block admits no class in full."""
    admission = Admission(limits(0))
    sessions(admission, 100)
    assert admission.keep(admission.see(hashes(-1), Seconds(101.0))) == []


def test_no_block_is_stored_without_those_before_it() -> None:
    """Admission stops at the first refused block, but what the store has stays."""
    admission = Admission(limits(10**6))
    one_offs(admission, 100)
    seen = admission.see(hashes(1, 2, 3), Seconds(100.0))
    assert len(admission.keep(seen, known=2)) == 2


def test_a_block_never_outlives_those_before_it() -> None:
    """Times to live fall along a prefix."""
    admission = Admission(limits(10**6))
    sessions(admission, 200)
    lives = admission.keep(admission.see(hashes(*range(12)), Seconds(201.0)))
    assert lives == sorted(lives, reverse=True)


def test_a_session_is_told_from_a_shared_head() -> None:
    """What follows a prefix with many children is new; what follows one with few goes on."""
    admission = Admission(limits(100))
    for number in range(10):
        admission.see(hashes(0, 100 + number), Seconds(float(number)))
    stranger = admission.see(hashes(0, 999), Seconds(20.0))
    follower = admission.see(hashes(0, 101, 555), Seconds(21.0))
    assert stranger.classes[-1] < SESSION
    assert follower.classes[-1] == SESSION


def test_replicas_learn_from_each_other() -> None:
    """A block that another replica saw is not seen for the first time."""
    one, other = Admission(limits(100)), Admission(limits(100))
    one.see(hashes(1, 2), Seconds(0.0))
    one.see(hashes(3), Seconds(0.0))
    (page,) = one.drain()
    for heard in read_page(page) or ():
        other.hear(heard, Seconds(1.0))
    assert one.drain() == []
    assert other.drain() == []
    assert [each % COUNTS for each in other.see(hashes(1, 2), Seconds(2.0)).classes] == [1, 1]


def crowded(mine: int, *, own_budget: int | None) -> Admission:
    """Of a fleet with room for little, in which one request of `mine` is this replica's."""
    bound = Limits(
        budget=Bytes(10**8),
        own_budget=None if own_budget is None else Bytes(100 * own_budget),
        block_bytes=Bytes(100),
    )
    admission = Admission(bound)
    for number in range(600):
        asks = admission.see if number % mine == 0 else admission.hear
        first = 1000 * (number - 31 * (number % 2))  # each prompt comes twice
        asks(hashes(*range(first, first + 8)), Seconds(float(number)))
    return admission


def test_a_replica_has_a_budget_of_its_own() -> None:
    """It fills no more than that, however much room the fleet has."""
    assert crowded(1, own_budget=None).shares[0] == 1.0
    assert crowded(1, own_budget=10).shares[0] < 0.3
    assert crowded(1, own_budget=10**6).shares[0] == 1.0


def test_a_budget_of_ones_own_is_filled_by_ones_own_requests() -> None:
    """A replica that meets few of the fleet's requests may store more of each class."""
    busy, idle = crowded(1, own_budget=10), crowded(9, own_budget=10)
    assert idle.shares[0] > 3 * busy.shares[0]
    assert crowded(601, own_budget=10).shares[0] == 1.0


def test_no_life_is_longer_than_the_store_keeps_any() -> None:
    """Neither the first ones nor the learned."""
    bound = limits(10**6).within(Seconds(20.0))
    admission = Admission(bound)
    assert admission.keep(admission.see(hashes(1), Seconds(0.0))) == [20.0]
    sessions(admission, 200)
    assert max(admission.keep(admission.see(hashes(*range(12)), Seconds(201.0)))) <= 20.0


def test_a_life_that_the_store_allows_is_given_in_the_same_order() -> None:
    """Every block gets as much more, so that a store with room keeps them all."""
    short, long = (Admission(limits(10**6).within(Seconds(ttl))) for ttl in (1800.0, 86_400.0))
    for admission in (short, long):
        sessions(admission, 200)
    asked = hashes(*range(12))
    lives = [each.keep(each.see(asked, Seconds(201.0))) for each in (short, long)]
    assert [life + 84_600.0 for life in lives[0]] == pytest.approx(lives[1])


def test_the_journal_is_bounded() -> None:
    """With nobody listening, further sights are dropped."""
    admission = Admission(limits(100))
    for number in range(10):
        admission.see(hashes(number) * 4000, Seconds(0.0))
    assert len(admission.drain()) == 8
