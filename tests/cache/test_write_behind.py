"""Entries written in batches, by one writer for all flights."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.cache.stage import Stage

from askonce.cache import write_back
from askonce.cache.ask import Live
from askonce.cache.steps import Steps
from askonce.cache.write_back import WriteBack
from askonce.config import BreakerConfig
from askonce.errors import StoreError
from askonce.events import StepSkipped
from askonce.stores.memory import MemoryStore
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Put

pytestmark = pytest.mark.anyio


class Batching(MemoryStore):
    """Remembers batches; can fail or hang."""

    fault: StoreError | None = None
    hangs = False

    def __init__(self, stage: Stage) -> None:
        super().__init__(clock=stage.clock, sink=stage.sink, max_bytes=10_000_000)
        self.batches: list[int] = []

    async def put_many(self, puts: Sequence[Put]) -> None:
        """Put one by one."""
        self.batches.append(len(puts))
        if self.hangs:
            await asyncio.Event().wait()
        if self.fault:
            raise self.fault
        for each in puts:
            await self.put(each.key, each.value, ttl=each.ttl, tags=each.tags)


def batching(stage: Stage, *, deadline: float = 30.0) -> Batching:
    """Give the stage a store that takes many at once."""
    store = Batching(stage)
    parts = stage.cache._parts
    stage.exact._store = store
    stage.exact._absent = store.surely_absent
    steps = Steps(BreakerConfig(), clock=stage.clock, sink=stage.sink)
    writer = WriteBack(parts.exact, steps, Seconds(deadline))
    stage.cache._parts = msgspec.structs.replace(parts, writer=writer)
    return store


async def test_answers_are_written_together() -> None:
    """Answers that come within a moment of each other are one batch."""
    async with Stage(semantic=False) as stage:
        store = batching(stage)
        for number in range(5):
            reply = (await stage.get(f"Question {number}?")).reply
            assert isinstance(reply, Live)
            assert reply.head.stored
        assert (await stage.get("Question 1?")).how == "exact"
        await stage.settled()
        assert store.batches == [5]
        stage.exact.cool()
        assert (await stage.get("Question 1?")).how == "exact"


async def test_the_writer_needs_nobody_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A little later all is written by itself, also what came meanwhile."""
    monkeypatch.setattr(write_back, "LINGER", 0.001)
    monkeypatch.setattr(write_back, "AT_ONCE", 2)
    async with Stage(semantic=False) as stage:
        store = batching(stage)
        for number in range(5):
            await stage.get(f"Question {number}?")
        async with asyncio.timeout(5):
            while sum(store.batches) < 5:
                await asyncio.sleep(0.001)
        assert max(store.batches) <= 2


async def test_closing_writes_what_waits() -> None:
    """The end of the cache loses no answer that was to be stored."""
    async with Stage(semantic=False) as stage:
        store = batching(stage)
        await stage.get()
        await stage.cache.close(5)
        assert (await store.stats()).entries == 1


async def test_closing_does_not_wait_for_ever() -> None:
    """A store that hangs is given up after the grace."""
    async with Stage(semantic=False) as stage:
        store = batching(stage)
        store.hangs = True
        await stage.get()
        writer = stage.cache._parts.writer
        assert writer is not None
        await writer.close(0.01)
        assert store.batches == [1]


async def test_too_much_waiting_is_not_stored_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound an answer is hot, told as not stored, and counted once."""
    monkeypatch.setattr(write_back, "WAITING_BYTES", 500)
    async with Stage(semantic=False) as stage:
        store = batching(stage)
        stored = []
        for number in range(6):
            reply = (await stage.get(f"Question {number}?")).reply
            assert isinstance(reply, Live)
            stored.append(reply.head.stored)
        assert stored[0]
        assert not stored[-1]
        assert (await stage.get("Question 5?")).how == "exact"
        skips = [(skip.part, skip.cause) for skip in stage.sink.of(StepSkipped)]
        assert skips == [("store_write", "busy")] * stored.count(False)
        await stage.settled()
        assert store.batches == [stored.count(True)]


async def test_a_batch_that_fails_is_one_step() -> None:
    """Its entries are lost together and counted as one step; the next ones are written."""
    async with Stage(semantic=False) as stage:
        store = batching(stage)
        store.fault = StoreError("x")
        for number in range(3):
            await stage.get(f"Question {number}?")
        await stage.settled()
        assert [skip.cause for skip in stage.sink.of(StepSkipped)] == ["error"]
        store.fault = None
        await stage.get("Question 9?")
        await stage.settled()
        assert (await store.stats()).entries == 1


async def test_a_question_waits_for_no_store_that_lacks_it() -> None:
    """What is surely absent costs no read."""
    async with Stage(semantic=False) as stage:
        store = batching(stage)

        await store.close()
        stage.exact._absent = lambda _key: True
        assert (await stage.get()).how == "engine"
        assert stage.sink.of(StepSkipped) == []
        assert store.batches == []
