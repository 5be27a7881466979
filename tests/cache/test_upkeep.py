"""Work beside the requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.cache.stage import Stage, settle

from askonce.cache import upkeep
from askonce.errors import StoreError
from askonce.events import HeldBytes
from askonce.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Coroutine

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds follow each other at once."""
    monkeypatch.setattr(upkeep, "EPOCH_INTERVAL", 0)
    monkeypatch.setattr(upkeep, "STATS_INTERVAL", 0)


class Epochs:
    """A store that can only tell its epoch; None is a fault."""

    def __init__(self) -> None:
        self.now: int | None = 1

    async def epoch(self) -> int:
        """As set."""
        if self.now is None:
            raise StoreError("as told")
        return self.now


async def run(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Start upkeep and let it do some rounds."""
    task = asyncio.create_task(work)
    await settle(turns=10)
    return task


async def end(task: asyncio.Task[None]) -> None:
    """Upkeep runs until it is cancelled."""
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_hot_copies_go_when_entries_were_taken_away() -> None:
    """A new epoch drops every hot copy; the same one drops none; a fault is outlived."""
    async with Stage() as stage:
        store = Epochs()
        task = await run(upkeep.follow_epoch(store, stage.exact))
        key = stage.ask().key
        await stage.get()
        await settle(turns=10)
        hot = [stage.exact.peek(key) is not None]
        for epoch in (2, None, 3):
            store.now = epoch
            await settle(turns=10)
            hot.append(stage.exact.peek(key) is not None)
            await stage.settled()
            await stage.exact.find(key)
        assert hot == [True, False, True, False]
        await end(task)


async def test_copies_made_before_the_first_look_are_dropped() -> None:
    """What got hot while the epoch could not be read may have been taken away since."""
    async with Stage() as stage:
        store = Epochs()
        store.now = None
        task = await run(upkeep.follow_epoch(store, stage.exact))
        await stage.get()
        store.now = 5
        await settle(turns=10)
        assert stage.exact.peek(stage.ask().key) is None
        await end(task)


async def test_sizes_are_told() -> None:
    """Store and index say what they hold; a fault is outlived."""
    async with Stage() as stage:
        await stage.get()
        await stage.settled()
        task = await run(upkeep.tell_sizes(stage.memory, stage.plain_index, stage.sink))
        held = stage.sink.of(HeldBytes)
        assert HeldBytes("index", Bytes(0), 1) in held
        assert any(event.part == "store" and event.entries == 1 for event in held)
        await stage.memory.close()
        await settle(turns=10)
        await end(task)


async def test_without_an_index_the_store_is_told() -> None:
    """A cache without semantics has one size."""
    async with Stage() as stage:
        task = await run(upkeep.tell_sizes(stage.memory, None, stage.sink))
        assert {event.part for event in stage.sink.of(HeldBytes)} == {"store"}
        await end(task)
