"""A look into the exact store, before anybody leads a flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.cache.stage import Stage

from askonce.cache.ask import Live, Look
from askonce.flow import Hit
from askonce.policy.controls import Controls
from askonce.stores.hot import HotEntries
from askonce.stores.memory import MemoryStore
from askonce.testing.answers import Chat
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
