"""Questions that a busy embedder had no time for are indexed once it has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.cache.stage import CAT, Stage

from askonce.cache import late
from askonce.errors import EmbedderError, TextTooLong
from askonce.events import IndexedLate, StepSkipped
from askonce.testing.answers import Chat
from askonce.testing.embedders import HashingEmbedder
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.ports import Vector

pytestmark = pytest.mark.anyio

GOOD = Chat(text="A cat is an animal.")
LIKE_CAT = "What is a cat??"


class Saturated(HashingEmbedder):
    """An embedder that has no time for requests as long as it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = True
        self.fault: Exception | None = None
        self.slow = asyncio.Event()
        self.slow.set()

    def expected_time(self, text: str) -> Seconds:
        """For ever, or no time."""
        return Seconds(99.0) if self.busy else super().expected_time(text)

    async def embed(self, text: str) -> Vector:
        """As the fake does, when it may."""
        await self.slow.wait()
        if self.fault is not None:
            raise self.fault
        return await super().embed(text)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late, "PAUSE", 0)


def outcomes(stage: Stage) -> list[str]:
    return [event.outcome for event in stage.sink.of(IndexedLate)]


async def drained(stage: Stage) -> None:
    """Wait until nothing waits to be indexed."""
    queue = stage.cache._parts.late
    assert queue is not None
    async with asyncio.timeout(5):
        while queue._task is not None:
            await asyncio.sleep(0)


async def test_a_shed_question_is_found_later() -> None:
    """The request is served at once without it; then the question is in the index."""
    embedder = Saturated()
    async with Stage(GOOD, embedder=embedder) as stage:
        await stage.get(CAT)
        await stage.settled()
        assert {event.cause for event in stage.sink.of(StepSkipped)} == {"busy"}
        await drained(stage)
        embedder.busy = False
        assert (await stage.get(LIKE_CAT)).how == "semantic"
        assert outcomes(stage) == ["waits", "indexed"]


async def test_requests_come_first() -> None:
    """While a request's own text is embedded, nothing else is."""
    embedder = Saturated()
    async with Stage(GOOD, GOOD, embedder=embedder) as stage:
        embedder.busy = False
        embedder.slow.clear()
        (asked,) = stage.start(text=LIKE_CAT)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        embedder.busy = True
        await stage.get(CAT)
        for _ in range(50):
            await asyncio.sleep(0)
        assert outcomes(stage) == ["waits"]
        embedder.slow.set()
        await asked
        await drained(stage)
        assert embedder.embedded == [LIKE_CAT, CAT]
        assert outcomes(stage)[-1] == "indexed"


@pytest.mark.parametrize("fault", [EmbedderError("as told"), TextTooLong("as told")])
async def test_what_fails_is_lost(fault: Exception) -> None:
    """It is counted, and what comes after it is indexed all the same."""
    embedder = Saturated()
    async with Stage(GOOD, GOOD, embedder=embedder) as stage:
        embedder.fault = fault
        await stage.get(CAT)
        await drained(stage)
        embedder.fault = None
        await stage.get("When does the shop open?")
        await drained(stage)
        assert outcomes(stage) == ["waits", "lost", "waits", "indexed"]


async def test_what_is_too_old_is_lost() -> None:
    """A question whose answer's life has ended meanwhile is not embedded any more."""
    embedder = Saturated()
    async with Stage(GOOD, embedder=embedder) as stage:
        await stage.get(CAT)
        stage.clock.advance(10_000)
        await drained(stage)
        assert outcomes(stage) == ["waits", "lost"]
        assert embedder.embedded == []


async def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are let go, and what waits at the end ends with the cache."""
    monkeypatch.setattr(late, "WAITING", 2)
    monkeypatch.setattr(late, "PAUSE", 3600)
    embedder = Saturated()
    async with Stage(embedder=embedder) as stage:
        for number in range(3):
            stage.upstream.script(GOOD)
            await stage.get(f"What is cat {number}?")
            await stage.settled()
        queue = stage.cache._parts.late
        assert queue is not None
        assert queue.waiting == 2
        assert outcomes(stage) == ["waits", "waits", "waits", "lost"]
