"""With any part of the cache dead, AskOnce is a plain proxy with the right answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.cache.stage import CAT, Stage

from askonce.cache.ask import Live
from askonce.errors import EmbedderBusy, EmbedderError, StoreError, VectorIndexError
from askonce.events import BreakerMoved, StepSkipped
from askonce.ports import StoreStats
from askonce.testing.answers import Chat
from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.ports import Vector
    from askonce.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

TINY = 0.002


class Dead:
    """Fails at every call, as store, embedder, index or hot cache: raises, or hangs for ever."""

    id = "dead"
    dim = 64

    def __init__(self, error: BaseException | None, expected: float = 0) -> None:
        self.error = error
        self.expected = expected
        self.called = 0

    async def _die(self, *_: object, **__: object) -> Any:
        self.called += 1
        if self.error is None:
            await asyncio.Event().wait()
        else:
            raise self.error

    get: Any = _die
    put: Any = _die
    delete = clear = search = add = count = embed = _die

    async def stats(self) -> StoreStats:
        """Nothing."""
        return StoreStats(0, Bytes(0))

    async def close(self) -> None:
        """Nothing to release."""

    def expected_time(self, text: str) -> Seconds:
        """As told."""
        return Seconds(self.expected)


class DeadHot:
    """A hot cache with a bug in every method."""

    def _die(self, *_: object) -> Any:
        raise RuntimeError("a bug")

    get = put = discard = clear = _die


def dead_stage(part: str, error: BaseException | None, **more: Any) -> Stage:
    """A stage on which this part (or `all`) is dead."""
    dead: dict[str, Any] = {name: Dead(error) for name in ("store", "embedder", "index")}
    dead["hot"] = DeadHot()
    chosen = dead if part == "all" else {part: dead[part]}
    return Stage(**chosen, deadline=TINY if error is None else 30.0, **more)


FAULTS: list[Callable[[], BaseException | None]] = [
    lambda: StoreError("x"),
    lambda: EmbedderError("x"),
    lambda: VectorIndexError("x"),
    ZeroDivisionError,
    asyncio.CancelledError,
    lambda: None,
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("part", ["store", "embedder", "index", "hot", "all"])
@pytest.mark.parametrize("fault", FAULTS, ids=["store", "embed", "index", "any", "cancel", "hang"])
async def test_a_dead_part_costs_no_answer(
    part: str, fault: Callable[[], BaseException | None], *, stream: bool
) -> None:
    """Whatever is dead and in whatever way, every request gets its own right answer."""
    async with dead_stage(part, fault()) as stage:
        for number in range(8):
            text = f"Question {number}?"
            got = await stage.get(text, stream=stream)
            assert got.how == "engine"
            assert got.status == 200
            assert got.text.endswith(text)
        assert stage.calls == 8


@pytest.mark.parametrize("error", [StoreError("x"), None])
async def test_a_dead_part_is_left_alone(error: StoreError | None) -> None:
    """After a few failures the breaker opens, and the part costs nothing more."""
    store = Dead(error)
    deadline = TINY if error is None else 30.0
    async with Stage(store=store, deadline=deadline, failures=3, semantic=False) as stage:
        for number in range(20):
            await stage.get(f"Question {number}?")
            await stage.settled()
        assert store.called == 6
        moved = [event.part for event in stage.sink.of(BreakerMoved) if event.state == "open"]
        assert sorted(moved) == ["store", "store_write"]


class Moody(Dead):
    """A store that fails until it gets one that works."""

    healthy: MemoryStore | None = None

    async def get(self, key: bytes) -> bytes | None:
        """Ask the one that works."""
        return await self.healthy.get(key) if self.healthy else await self._die()

    async def put(self, key: bytes, value: bytes, **more: Any) -> None:
        """Put into the one that works."""
        await (self.healthy.put(key, value, **more) if self.healthy else self._die())


async def test_a_healed_part_is_used_again() -> None:
    """After the cooldown a trial finds the store alive, and hits are back."""
    store = Moody(StoreError("x"))
    async with Stage(store=store, failures=1) as stage:
        await stage.get("one")
        await stage.settled()
        store.healthy = stage.memory
        stage.clock.advance(2)
        await stage.get("two")
        await stage.settled()
        stage.exact.cool()
        assert (await stage.get("two")).how == "exact"
        states = [event.state for event in stage.sink.of(BreakerMoved) if event.part == "store"]
        assert states == ["open", "half_open", "closed"]


async def test_a_dead_store_still_has_hot_copies() -> None:
    """What is hot is served without the store, to peekers and to those who wait."""
    async with dead_stage("store", StoreError("x")) as stage:
        await stage.get()
        ask = stage.ask()
        assert stage.cache.peek(ask.key, ask.plan) is not None
        assert (await stage.get()).how == "exact"
        assert stage.calls == 1


async def test_what_was_skipped_is_told() -> None:
    """The details name each part that was given up, in order, and events count them."""
    async with dead_stage("all", ZeroDivisionError()) as stage:
        reply = (await stage.get()).reply
        assert isinstance(reply, Live)
        assert reply.head.details == ("store_error", "semantic_error")
        await stage.settled()
        skipped = Counter(event.part for event in stage.sink.of(StepSkipped))
        assert skipped == {"hot": 3, "store": 1, "semantic": 1}


async def test_a_busy_embedder_is_shed_not_broken() -> None:
    """A full queue skips the tier for this request and never opens a breaker."""
    busy = Dead(EmbedderBusy())
    async with Stage(embedder=busy, failures=1) as stage:
        for number in range(5):
            reply = (await stage.get(f"Question {number}?")).reply
            assert isinstance(reply, Live)
            assert reply.head.details == ("semantic_busy",)
        assert stage.sink.of(BreakerMoved) == []


async def test_an_embedder_that_would_be_late_is_not_asked() -> None:
    """A text that would take longer than the budget is not even tried, nor at write-back."""
    slow = Dead(ZeroDivisionError(), expected=60.0)
    async with Stage(embedder=slow) as stage:
        reply = (await stage.get()).reply
        assert isinstance(reply, Live)
        assert reply.head.details == ("semantic_busy",)
        await stage.settled()
        assert slow.called == 0
        assert [skip.part for skip in stage.sink.of(StepSkipped)] == ["semantic", "semantic_write"]


async def test_an_unreadable_entry_is_a_miss_and_heals() -> None:
    """Damaged bytes in the store cost one miss; the fresh answer takes their place."""
    async with Stage(Chat(text="right")) as stage:
        ask = stage.ask()
        await stage.memory.put(ask.key, b"rubbish", ttl=Seconds(60))
        got = await stage.get(ask)
        assert (got.how, got.text) == ("engine", "right")
        assert isinstance(got.reply, Live)
        assert got.reply.head.details == ("store_unreadable",)
        await stage.settled()
        stage.exact.cool()
        assert (await stage.get(CAT)).how == "exact"


async def test_followers_suffer_no_more_than_the_leader() -> None:
    """With all parts hanging, a hundred callers still share one call."""
    async with dead_stage("all", None) as stage:
        got = await asyncio.gather(*stage.start(50), *stage.start(50, stream=True))
        assert len({one.text for one in got}) == 1
        assert stage.calls == 1


class Flaky(Dead):
    """An embedder that works once asked again: for vectors made at write-back."""

    async def embed(self, text: str) -> Vector:  # type: ignore[override] # the one that works
        """Fail first, then work."""
        self.called += 1
        if self.called == 1:
            raise EmbedderError("x")
        return await self.stage.embedder.embed(text)  # type: ignore[no-any-return]

    stage: Any


async def test_a_question_that_could_not_be_looked_up_is_indexed_later() -> None:
    """An embedder that fails on the way in is asked again at write-back."""
    flaky = Flaky(None)
    async with Stage(embedder=flaky) as stage:
        flaky.stage = stage
        await stage.get()
        await stage.settled()
        assert len(stage.plain_index.rows) == 1
        assert (await stage.get("What is a cat??")).how == "semantic"
