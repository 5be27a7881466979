"""The exact tier over a store in memory."""

from __future__ import annotations

import pytest

from askonce.canonical.answer import Answer
from askonce.canonical.entry import Entry, seal
from askonce.errors import EntryUnreadable, StoreError
from askonce.events import Evicted
from askonce.stores.hot import HotEntries
from askonce.stores.memory import MemoryStore
from askonce.testing.clock import FakeClock
from askonce.testing.sink import RecordingSink
from askonce.tiers.exact import ExactTier
from askonce.units import Seconds, Tokens, UnixTime

pytestmark = pytest.mark.anyio

KEY = b"k" * 32


class Stage:
    """A tier with everything around it in reach."""

    def __init__(self, hot_bytes: int = 100_000) -> None:
        self.clock = FakeClock()
        self.sink = RecordingSink()
        self.store = MemoryStore(clock=self.clock, sink=self.sink, max_bytes=100_000)
        self.hot: HotEntries[Entry] = HotEntries(hot_bytes)
        self.tier = ExactTier(self.store, self.hot, clock=self.clock, sink=self.sink)

    def entry(self, key: bytes = KEY, *, exact: float = 60, semantic: float = 0) -> Entry:
        """An entry with these lives from now on."""
        now = self.clock.now()
        return Entry(
            key=key,
            answer=Answer(b'"x":1}', "chatcmpl-", Tokens(1), Tokens(1)),
            created_at=now,
            exact_until=UnixTime(now + exact),
            semantic_until=UnixTime(now + semantic if semantic else 0),
            tags=("red",),
            model="m",
            upstream="u",
            question="",
            engine_time=Seconds(1),
        )


async def test_what_is_held_is_hot_at_once() -> None:
    """Holding an entry serves it before any store has it."""
    stage = Stage()
    entry = stage.entry()
    stage.tier.hold(entry)
    assert stage.tier.peek(KEY) == entry
    assert await stage.tier.find(KEY) is None


async def test_what_is_kept_comes_back_and_gets_hot() -> None:
    """A kept entry is found in the store, and the find makes it hot."""
    stage = Stage()
    entry = stage.entry()
    await stage.tier.keep(entry)
    assert stage.tier.peek(KEY) is None
    assert await stage.tier.find(KEY) == entry
    assert stage.tier.peek(KEY) == entry
    assert await stage.store.delete_tag("red") == 1


async def test_an_entry_lives_for_its_longer_life() -> None:
    """Hot copy and store keep an entry until both lives are over, reads or not."""
    stage = Stage()
    entry = stage.entry(exact=10, semantic=100)
    stage.tier.hold(entry)
    await stage.tier.keep(entry)
    for _ in range(9):
        stage.clock.advance(11)
        assert stage.tier.peek(KEY) == await stage.tier.find(KEY) == entry
    stage.clock.advance(1.1)
    assert stage.tier.peek(KEY) is None
    assert await stage.tier.find(KEY) is None


async def test_an_unreadable_entry_is_never_served() -> None:
    """Damaged and foreign bytes are a fault, and get hot under no key."""
    stage = Stage()
    foreign = seal(stage.entry(b"f" * 32))
    for bad in (b"", b"rubbish", foreign, seal(stage.entry())[:-1]):
        await stage.store.put(KEY, bad, ttl=Seconds(60))
        with pytest.raises(EntryUnreadable):
            await stage.tier.find(KEY)
        assert stage.tier.peek(KEY) is None


async def test_a_dead_store_is_a_store_error() -> None:
    """Faults of the store come out as they are."""
    stage = Stage()
    await stage.store.close()
    with pytest.raises(StoreError):
        await stage.tier.find(KEY)


async def test_cooling_drops_every_hot_copy() -> None:
    """After cooling only the store answers."""
    stage = Stage()
    stage.tier.hold(stage.entry())
    stage.tier.cool()
    assert stage.tier.peek(KEY) is None


async def test_entries_that_leave_are_told() -> None:
    """What has to leave the hot cache is an event, what fits is none."""
    stage = Stage(hot_bytes=1500)
    stage.tier.hold(stage.entry())
    assert stage.sink.of(Evicted) == []
    stage.tier.hold(stage.entry(b"l" * 32))
    assert stage.sink.of(Evicted) == [Evicted("hot", "capacity", 1)]


async def test_what_others_change_is_hot_no_more() -> None:
    """Named keys lose their copies, or all do when it is not known which have changed."""
    stage = Stage()
    keys = [b"a" * 32, b"b" * 32, b"c" * 32]
    for key in keys:
        stage.tier.hold(stage.entry(key))
    stage.tier.changed(keys[:1])
    assert [stage.tier.peek(key) is not None for key in keys] == [False, True, True]
    stage.tier.changed(None)
    assert [stage.tier.peek(key) for key in keys] == [None] * 3


async def test_a_find_that_crosses_a_change_makes_nothing_hot() -> None:
    """What was read may be from before the change."""
    stage = Stage()
    await stage.tier.keep(stage.entry())
    get = stage.store.get

    async def crossed(key: bytes) -> bytes | None:
        stage.tier.changed([KEY])
        return await get(key)

    stage.store.get = crossed  # type: ignore[method-assign]
    assert await stage.tier.find(KEY) is not None
    assert stage.tier.peek(KEY) is None


async def test_a_slow_find_leaves_a_newer_hot_copy() -> None:
    """An answer that was held while the store was read is newer than what the read brings."""
    stage = Stage()
    older = stage.entry()
    await stage.tier.keep(older)
    get = stage.store.get
    stage.clock.advance(1)
    newer = stage.entry()

    async def slow(key: bytes) -> bytes | None:
        sealed = await get(key)
        stage.tier.hold(newer)
        return sealed

    stage.store.get = slow  # type: ignore[method-assign]
    assert await stage.tier.find(KEY) == older
    assert stage.tier.peek(KEY) == newer


def test_says_what_it_may_serve() -> None:
    """An entry that was taken back is none, wherever it comes from."""
    stage = Stage()
    assert stage.tier.serves(stage.entry())
