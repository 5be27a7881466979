"""Callers leave, engines hang, the gateway closes: nobody else suffers, nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest
from tests.cache.stage import Stage, settle

from askonce.cache.ask import Live
from askonce.errors import UpstreamBroken, UpstreamError
from askonce.flow import Lives
from askonce.policy.controls import Controls
from askonce.testing.answers import Chat
from askonce.units import Seconds

pytestmark = pytest.mark.anyio

GOOD = Chat(text="A cat is an animal.")
PRIVATE = Controls(no_store=True)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_a_leader_that_leaves_takes_nobody_along(turns: int, *, stream: bool) -> None:
    """At whatever moment its caller hangs up, all others get the answer of the same call."""
    async with Stage(GOOD) as stage:
        stage.upstream.meter()
        (leader,) = stage.start(stream=stream)
        followers = [*stage.start(5, stream=True), *stage.start(5)]
        for _ in range(turns):
            stage.upstream.let(1)
            await asyncio.sleep(0)
        leader.cancel()
        stage.upstream.let(100)
        got = await asyncio.gather(*followers)
        assert {one.text for one in got} == {"A cat is an animal."}
        assert stage.calls == 1
        assert await stage.stored() == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turns", [1, 3, 5, 8, 13])
async def test_a_caller_that_hangs_up_does_not_lose_the_fill(turns: int, *, stream: bool) -> None:
    """An answer that nobody waits for any more is stored all the same."""
    async with Stage(GOOD) as stage:
        stage.upstream.meter()
        (caller,) = stage.start(stream=stream)
        await settle(turns=turns)
        caller.cancel()
        stage.upstream.let(100)
        assert await stage.stored() == 1
        assert (await stage.get()).how == "exact"
        assert stage.calls == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("pieces", [0, 1, 2])
async def test_a_private_call_ends_with_its_caller(pieces: int, *, stream: bool) -> None:
    """An answer that may not be stored is not computed for nobody."""
    async with Stage(GOOD) as stage:
        stage.upstream.meter()
        (caller,) = stage.start(stream=stream, controls=PRIVATE)
        await stage.upstream.asked_times(1)
        stage.upstream.let(0 if not stream else pieces)
        await settle()
        caller.cancel()
        await stage.settled()
        assert not stage.cache._leads
        assert stage.upstream.live == 0
        assert stage.upstream.dropped == 1


async def test_an_unstored_call_ends_with_its_last_caller() -> None:
    """A shared call that nobody may store goes on while anybody waits, and no longer."""
    off = Lives(Seconds(0), Seconds(0))
    async with Stage(GOOD, GOOD) as stage:
        stage.upstream.open.clear()
        tasks = stage.start(3, lives=off)
        await stage.upstream.asked_times(1)
        for task in tasks[:2]:
            task.cancel()
            await settle()
        assert len(stage.cache._leads) == 1
        stage.upstream.open.set()
        assert (await tasks[2]).text == "A cat is an animal."
        assert stage.calls == 1
        stage.upstream.open.clear()
        (last,) = stage.start(lives=off)
        await stage.upstream.asked_times(2)
        last.cancel()
        await stage.settled()
        assert not stage.cache._leads


async def test_a_private_call_ends_before_its_engine_answers() -> None:
    """Also a call that is still waiting for its head is ended."""
    async with Stage(GOOD) as stage:
        stage.upstream.open.clear()
        (caller,) = stage.start(controls=PRIVATE)
        await stage.upstream.asked_times(1)
        caller.cancel()
        await settle(lambda: not stage.cache._leads)
        assert not stage.cache._leads


async def test_leaving_before_anything_began() -> None:
    """A caller who is cancelled in the very moment it boards leaves nothing behind."""
    async with Stage(GOOD) as stage:

        async def leave_at_once() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await stage.get(controls=PRIVATE)

        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(leave_at_once())
        await settle(lambda: not stage.cache._leads)
        assert not stage.cache._leads


async def test_a_caller_may_leave_without_reading() -> None:
    """Who leaves the context early is a reader no more."""
    async with Stage(GOOD) as stage:
        async with stage.cache.answering(stage.ask(stream=True)) as reply:
            assert isinstance(reply, Live)
        assert await stage.stored() == 1


async def test_an_error_of_the_caller_is_its_own() -> None:
    """What is raised inside the context comes out of it, and the fill goes on."""
    async with Stage(GOOD) as stage:
        with pytest.raises(ZeroDivisionError):
            async with stage.cache.answering(stage.ask()):
                raise ZeroDivisionError
        assert await stage.stored() == 1


async def test_a_long_stream_that_everybody_left_is_ended() -> None:
    """Past its bound a stream without readers is neither stored nor worth the engine's time."""
    async with Stage(Chat(text="word " * 1000), max_entry_bytes=2000) as stage:
        stage.upstream.meter()
        (caller,) = stage.start(stream=True)
        await stage.upstream.asked_times(1)
        stage.upstream.let(40)
        await settle()
        caller.cancel()
        await settle()
        stage.upstream.let(1)
        await stage.settled()
        assert stage.upstream.dropped == 1
        assert stage.refusals == ["oversize"]


async def test_a_slow_caller_holds_back_the_engine_not_the_memory() -> None:
    """A caller who reads slowly gets all of a long stream, which is never held whole."""
    async with Stage(Chat(text="word " * 2000), max_entry_bytes=2000) as stage:
        ask = stage.ask(stream=True)
        async with stage.cache.answering(ask) as reply:
            assert isinstance(reply, Live)
            await settle()
            assert stage.upstream.live == 1
            raw = b"".join([piece async for piece in reply.flight.pieces(usage=False)])
        assert raw.count(b"word") == 2000


async def test_closing_lets_flights_land() -> None:
    """Within the grace a flight lands and is written back."""
    async with Stage(GOOD) as stage:
        stage.upstream.open.clear()
        (caller,) = stage.start()
        await stage.upstream.asked_times(1)
        closing = asyncio.create_task(stage.cache.close(30))
        await settle()
        assert not closing.done()
        stage.upstream.open.set()
        await closing
        assert (await caller).how == "engine"
        assert (await stage.memory.stats()).entries == 1


async def test_closing_ends_what_does_not_land() -> None:
    """After the grace a flight is ended; its caller gets an error, not silence."""
    async with Stage(GOOD) as stage:
        stage.upstream.open.clear()
        (caller,) = stage.start()
        await stage.upstream.asked_times(1)
        await stage.cache.close(0.001)
        with pytest.raises(UpstreamBroken):
            await caller


async def test_closing_ends_a_flight_that_has_not_begun() -> None:
    """Even a leader that never took its first step leaves no caller waiting."""
    async with Stage(GOOD) as stage:
        flight, _ = stage.cache._board(stage.ask(), picky=False)
        next(iter(stage.cache._leads.values())).cancel()
        with pytest.raises(UpstreamError):
            await flight.settled()
        assert not stage.cache._leads
        assert not stage.cache._flights


async def test_closing_an_idle_cache() -> None:
    """With nothing in flight there is nothing to wait for."""
    async with Stage() as stage:
        await stage.cache.close(0)


async def test_a_fault_of_the_relay_is_an_upstream_error() -> None:
    """Whatever goes wrong in asking, the caller gets one of the errors it knows."""
    async with Stage(Chat(calls=(("no pair",),))) as stage:  # type: ignore[arg-type] # a bad script
        with pytest.raises(UpstreamBroken):
            await stage.get()
        assert await stage.stored() == 0
