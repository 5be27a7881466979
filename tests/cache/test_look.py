"""A look into the exact store, before anybody leads a flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.cache.stage import Stage, settle

from askonce.cache.ask import Live, Look
from askonce.flow import Hit
from askonce.policy.controls import Controls
from askonce.stores.hot import HotEntries
from askonce.stores.memory import MemoryStore
from askonce.testing.answers import Chat, Reply
from askonce.testing.clock import FakeClock
from askonce.testing.sink import RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.testing.answers import Script

pytestmark = pytest.mark.anyio

GOOD = Chat(text="A cat is an animal.")


class CountingStore(MemoryStore):
    """Counts its reads, and never knows beforehand that there is nothing to read."""

    reads = 0

    async def get(self, key: bytes) -> bytes | None:
        """Count."""
        self.reads += 1
        return await super().get(key)

    def surely_absent(self, key: bytes) -> bool:
        """Never sure."""
        return False


class Cold(Stage):
    """A stage without hot copies."""

    def __init__(self, *scripts: Script) -> None:
        self.counting = CountingStore(clock=FakeClock(), sink=RecordingSink(), max_bytes=10_000_000)
        super().__init__(*scripts, store=self.counting, hot=HotEntries(0), semantic=False)
        self.counting._clock = self.clock


async def test_a_stored_answer_needs_no_flight() -> None:
    """What the store holds is a hit at once, and no task is made for it."""
    async with Cold(GOOD) as stage:
        await stage.get()
        await stage.settled()
        ask, tasks = stage.ask(), len(asyncio.all_tasks())
        found = await stage.cache.look(ask.key, ask.plan)
        assert isinstance(found, Hit)
        assert found.tier == "exact"
        assert len(asyncio.all_tasks()) == tasks


async def test_a_miss_reads_the_store_once() -> None:
    """The flight goes on from what the look has brought."""
    async with Cold(GOOD) as stage:
        assert (await stage.get()).how == "engine"
        assert stage.counting.reads == 1


async def test_an_answer_too_old_is_told_as_stale() -> None:
    """An entry that the caller finds too old is not looked up again, and the engine is asked."""
    async with Cold(GOOD) as stage:
        await stage.get()
        await stage.settled()
        stage.clock.advance(30)
        got = await stage.get(controls=Controls(max_age=Seconds(10.0)))
        assert isinstance(got.reply, Live)
        assert got.reply.head.forward == "stale"
        assert stage.counting.reads == 2


async def test_nobody_looks_while_an_equal_request_is_under_way() -> None:
    """Its answer will be joined, in whichever delivery; afterwards the store is asked again."""
    async with Cold(GOOD) as stage:
        stage.upstream.open.clear()
        first = stage.start()
        await stage.upstream.asked_times(1)
        ask = stage.ask()
        assert await stage.cache.look(ask.key, ask.plan) is None
        stage.upstream.open.set()
        await asyncio.gather(*first)
        await stage.settled()
        assert isinstance(await stage.cache.look(ask.key, ask.plan), Hit)


async def test_who_wants_no_stored_answer_does_not_look() -> None:
    """`no-cache` reads nothing; an empty store says so."""
    async with Cold(GOOD) as stage:
        fresh, ask = stage.ask(controls=Controls(no_cache=True)), stage.ask()
        assert await stage.cache.look(fresh.key, fresh.plan) is None
        assert await stage.cache.look(ask.key, ask.plan) == Look()


async def test_what_became_hot_meanwhile_is_served() -> None:
    """A flight that ended between a look and the next flight leaves nothing to compute."""
    async with Stage(GOOD, semantic=False) as stage:
        ask = stage.ask()
        looked = await stage.cache.look(ask.key, ask.plan)
        assert looked == Look()
        await stage.get()
        late = msgspec.structs.replace(ask, looked=looked)
        async with stage.cache.answering(late) as reply:
            assert isinstance(reply, Hit)
        assert stage.calls == 1


class HeldStore(CountingStore):
    """Has its answers ready at once, but hands out only the first, until it is opened."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock, sink=RecordingSink(), max_bytes=10_000_000)
        self.first = asyncio.Event()
        self.others = asyncio.Event()

    async def get(self, key: bytes) -> bytes | None:
        """Read, then wait."""
        found = await super().get(key)
        await (self.first if self.reads == 1 else self.others).wait()
        return found


class Held(Stage):
    """A stage without hot copies, over a store that can be held."""

    def __init__(self, *scripts: Script) -> None:
        self.held = HeldStore(FakeClock())
        super().__init__(*scripts, store=self.held, hot=HotEntries(0), semantic=False)
        self.held._clock = self.clock


async def test_who_asks_during_a_look_shares_it() -> None:
    """However slow the store is to one of them, equal requests at once are computed once."""
    async with Held(GOOD) as stage:
        callers = stage.start(20)
        await settle(lambda: stage.held.reads > 0)
        stage.held.first.set()
        await asyncio.wait(callers[:1], timeout=5)
        await stage.settled()
        stage.held.others.set()
        assert {(await one).text for one in callers} == {GOOD.text}
        assert (stage.calls, stage.held.reads) == (1, 1)


async def test_a_look_given_up_is_begun_again() -> None:
    """The caller whose look it was leaves, and so does another: the rest are answered, by one."""
    async with Held(GOOD) as stage:
        stage.held.others.set()
        callers = stage.start(5)
        await settle(lambda: stage.held.reads > 0)
        for gone in callers[:2]:
            gone.cancel()
        assert [(await one).text for one in callers[2:]] == [GOOD.text] * 3
        assert (stage.calls, stage.held.reads) == (1, 2)


async def test_who_asks_again_looks_again() -> None:
    """When the call that was joined fails, what others have stored meanwhile is found."""
    async with Held(Reply(status=503)) as stage:
        stage.upstream.open.clear()
        callers = stage.start(2)
        await settle(lambda: stage.held.reads > 0)
        stage.held.others.set()
        stage.held.first.set()
        await stage.upstream.asked_times(1)
        async with Stage(GOOD, store=stage.held, semantic=False) as other:
            await other.get()
            await other.settled()
        stage.upstream.open.set()
        assert [(await one).how for one in callers] == ["engine", "exact"]
        assert stage.calls == 1
