"""One engine call in flight, and everyone who reads it."""

from __future__ import annotations

import asyncio

import pytest
from tests.cache.stage import settle

from askonce.cache.flight import Flight, Head, Piece, Seat
from askonce.canonical.answer import Answer
from askonce.errors import UpstreamBroken, UpstreamUnreachable
from askonce.flow import GiveUp
from askonce.units import Tokens

pytestmark = pytest.mark.anyio

HEAD = Head(status=200, headers=[], forward="miss", details=(), streamed=True)
ANSWER = Answer(b'"x":1}', "chatcmpl-", Tokens(1), Tokens(1))


def flight_of(capacity: int = 1000) -> Flight:
    """A streamed flight."""
    return Flight(capacity, stream=True)


def event(text: str, *, usage_only: bool = False) -> Piece:
    """One piece."""
    return Piece(text.encode(), usage_only)


async def read(seat: Seat, *, usage: bool = True) -> str:
    """Everything until the end; an error is told at the end."""
    text = b""
    try:
        async for data in seat.pieces(usage=usage):
            assert data
            text += data
    except UpstreamBroken:
        text += b"!"
    return text.decode()


async def test_every_reader_gets_everything_from_the_first_byte() -> None:
    """Early, late and last-moment readers read the same."""
    flight = flight_of()
    with flight.reading() as early, flight.reading() as late, flight.reading() as last:
        reading = [asyncio.create_task(read(early))]
        await settle(turns=3)
        flight.resolve(HEAD, done=False)
        await flight.extend([event("a"), event("b")])
        reading.append(asyncio.create_task(read(late)))
        await settle(turns=3)
        await flight.extend([event("c")])
        flight.finish()
        reading.append(asyncio.create_task(read(last)))
        assert await asyncio.gather(*reading) == ["abc"] * 3
    assert flight.readers == 0


async def test_pieces_come_as_they_come() -> None:
    """A reader has each piece before the next one exists."""
    flight = flight_of()
    with flight.reading() as seat:
        pieces = seat.pieces(usage=True)
        for text in ("a", "b"):
            await flight.extend([event(text)])
            assert await anext(pieces) == text.encode()
        flight.finish()
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)


async def test_usage_is_hidden_from_those_who_did_not_ask() -> None:
    """Usage-only pieces reach only those who want them, and make no empty piece."""
    flight = flight_of()
    with flight.reading() as curious, flight.reading() as plain:
        await flight.extend([event("a"), event("u", usage_only=True)])
        reading = [
            asyncio.create_task(read(curious)),
            asyncio.create_task(read(plain, usage=False)),
        ]
        await settle(turns=3)
        await flight.extend([event("v", usage_only=True)])
        await settle(turns=3)
        await flight.extend([event("b")])
        flight.finish()
        assert await asyncio.gather(*reading) == ["auvb", "ab"]


async def test_an_error_reaches_every_reader_after_its_pieces() -> None:
    """Who reads a broken answer gets what came, then the error."""
    flight = flight_of()
    with flight.reading() as early, flight.reading() as late:
        reading = [asyncio.create_task(read(early))]
        await flight.extend([event("a")])
        await settle(turns=3)
        flight.finish(UpstreamBroken("gone"))
        reading.append(asyncio.create_task(read(late)))
        assert await asyncio.gather(*reading) == ["a!", "a!"]


async def test_the_outcome_is_told_once() -> None:
    """All who wait get the first outcome, later ones change nothing."""
    flight = flight_of()
    waiting = [asyncio.create_task(flight.settled()) for _ in range(3)]
    await settle(turns=3)
    flight.resolve(GiveUp(), done=True)
    flight.resolve(HEAD, done=False)
    assert await asyncio.gather(*waiting) == [GiveUp()] * 3
    assert flight.done


@pytest.mark.parametrize("error", [UpstreamUnreachable("no"), None])
async def test_an_end_without_outcome_is_an_error(error: UpstreamUnreachable | None) -> None:
    """A flight that ends before its outcome raises its error, or that there was no answer."""
    flight = flight_of()
    waiting = asyncio.create_task(flight.settled())
    await settle(turns=3)
    flight.finish(error)
    with pytest.raises(type(error) if error else UpstreamBroken):
        await waiting


async def test_landing_gives_the_answer() -> None:
    """Who wants it whole waits for the end and gets the answer, or None without one."""
    whole, broken = flight_of(), flight_of()
    waiting = [asyncio.create_task(flight.landed()) for flight in (whole, broken)]
    await settle(turns=3)
    assert not any(task.done() for task in waiting)
    whole.answer = ANSWER
    whole.finish()
    broken.finish(UpstreamBroken("gone"))
    assert await asyncio.gather(*waiting) == [ANSWER, None]
    with whole.reading() as seat:
        assert seat.answer is ANSWER


async def test_nobody_joins_what_is_over() -> None:
    """A flight can be joined until it is done or longer than what is kept."""
    flight = flight_of(10)
    joinable = [flight.joinable]
    for size in (10, 1):
        await flight.extend([event("x" * size)])
        joinable.append(flight.joinable)
    assert joinable == [True, True, False]
    done = flight_of()
    done.finish()
    assert not done.joinable


async def test_who_wants_it_whole_leaves_when_it_gets_too_long() -> None:
    """Past the capacity no whole answer will come, and nobody waits for it."""
    flight = flight_of(10)
    waiting = asyncio.create_task(flight.landed())
    await settle(turns=3)
    await flight.extend([event("x" * 11)])
    assert await waiting is None


async def fly(flight: Flight, pieces: int) -> None:
    """A leader that hands out so many pieces of four bytes."""
    for number in range(pieces):
        await flight.extend([event(f"{number:03d}.")])
    flight.finish()


def expected(pieces: int) -> str:
    """What `fly` hands out."""
    return "".join(f"{number:03d}." for number in range(pieces))


async def test_a_slow_reader_slows_the_leader_down() -> None:
    """Past the capacity memory stays bounded: the slowest sets the pace and loses nothing."""
    flight = flight_of(40)
    with flight.reading() as fast, flight.reading() as slow:
        leader = asyncio.create_task(fly(flight, 100))
        reading = asyncio.create_task(read(fast))
        got = b""
        async for data in slow.pieces(usage=True):
            got += data
            await settle(turns=20)
            assert sum(len(piece.data) for piece in flight._pieces) <= 44
            assert not leader.done() or len(got) > 300
        assert got.decode() == expected(100)
        assert await reading == expected(100)
        await leader


async def test_a_reader_that_has_not_begun_loses_nothing() -> None:
    """A seat counts from the moment it is taken, not from its first read."""
    flight = flight_of(40)
    with flight.reading() as fast, flight.reading() as late:
        leader = asyncio.create_task(fly(flight, 50))
        reading = asyncio.create_task(read(fast))
        await settle()
        assert not leader.done()
        assert await read(late) == expected(50)
        assert await reading == expected(50)
        await leader


async def test_a_reader_that_leaves_frees_the_leader() -> None:
    """When the slowest leaves, begun or not, the others read on."""
    flight = flight_of(40)
    with flight.reading() as fast:
        with flight.reading() as slow, flight.reading():
            leader = asyncio.create_task(fly(flight, 50))
            reading = asyncio.create_task(read(fast))
            pieces = slow.pieces(usage=True)
            await anext(pieces)
            await settle()
            assert not leader.done()
        assert await reading == expected(50)
        await leader
        await pieces.aclose()  # type: ignore[attr-defined] # it is a generator


async def test_without_readers_a_long_answer_is_unwanted() -> None:
    """When all have left, nothing is held and the leader is told that it may stop."""
    flight = flight_of(40)
    with flight.reading():
        leader = asyncio.create_task(fly(flight, 50))
        await settle()
        assert not leader.done()
        unwanted = [flight.unwanted]
    await leader
    assert [*unwanted, flight.unwanted] == [False, True]
    assert flight._pieces == []


async def test_without_readers_a_short_answer_is_kept() -> None:
    """A call that everybody left is still read for the cache."""
    flight = flight_of()
    await flight.extend([event("a")])
    assert not flight.unwanted
    with flight.reading() as seat:
        flight.finish()
        assert await read(seat) == "a"


async def test_a_reader_that_is_cancelled_wakes_as_nobody() -> None:
    """A waiter who has gone does not stop the others from being woken."""
    flight = flight_of()
    gone, there = (asyncio.create_task(flight.settled()) for _ in range(2))
    await settle(turns=3)
    gone.cancel()
    await settle(turns=3)
    flight.resolve(GiveUp(), done=True)
    assert await there == GiveUp()
