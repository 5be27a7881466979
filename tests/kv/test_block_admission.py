"""Admission: which blocks are worth the store's bytes."""

from __future__ import annotations

import random

import pytest

from askonce.kv.admission import Admission, Claims, Limits
from askonce.kv.reuse import COUNTS
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
    assert other.merge(one.drain(), Seconds(1.0))
    assert one.drain() == b""
    assert [each % COUNTS for each in other.see(hashes(1, 2), Seconds(2.0)).classes] == [1, 1]


@pytest.mark.parametrize(
    "told", [b"\0", b"\0\0\0\0", b"\x02\0\0\0" + bytes(8), b"\x01\0\0\0" + bytes(8) + b"\x01"]
)
def test_nonsense_from_others_is_left_out(told: bytes) -> None:
    """Bytes that are no journal change nothing."""
    admission = Admission(limits(100))
    assert not admission.merge(told, Seconds(0.0))
    assert admission.see([0], Seconds(1.0)).classes == (0,)


def test_too_much_from_others_is_left_out() -> None:
    """A journal longer than any replica keeps is not read."""
    admission = Admission(Limits(budget=Bytes(100), block_bytes=Bytes(1), journal=20))
    assert not admission.merge(b"\x03\0\0\0" + bytes(24), Seconds(0.0))


def test_the_journal_is_bounded() -> None:
    """With nobody listening the older sights are dropped, and huge requests are not noted."""
    bound = Limits(budget=Bytes(100), block_bytes=Bytes(1), journal=50)
    admission = Admission(bound)
    for number in range(10):
        admission.see([number, number], Seconds(0.0))
        assert len(admission.drain()) <= 50
    for number in range(10):
        admission.see([number, number], Seconds(0.0))
    admission.see(list(range(100)), Seconds(0.0))
    admission.see([], Seconds(0.0))
    assert len(admission.drain()) <= 50


def test_only_one_writes_a_block() -> None:
    """A claim holds until it is released or void."""
    claims = Claims(Seconds(10.0))
    assert claims.claim(b"a", Seconds(0.0))
    assert not claims.claim(b"a", Seconds(9.0))
    claims.release(b"a")
    assert claims.claim(b"a", Seconds(9.0))
    assert claims.claim(b"b", Seconds(12.0))
    assert claims.claim(b"a", Seconds(19.5))
    claims.release(b"c")
