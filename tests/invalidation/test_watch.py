"""Following the log, and taking back."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.policy.test_revocation import ENTRY

from askonce.canonical.entry import Origin
from askonce.errors import ConfigError, StoreError
from askonce.invalidation.desk import InvalidationDesk, Request
from askonce.invalidation.watch import PAGE, Watch
from askonce.ports import IndexedText, Neighbour, Put, Revocation, RevocationPage, Selector
from askonce.stores.memory import MemoryRevocations, MemoryStore
from askonce.testing import FakeClock, RecordingSink
from askonce.units import Cosine, Seconds, UnixTime

pytestmark = pytest.mark.anyio

RULE = Revocation(what=Selector(model="m"), at=UnixTime(1.0))


class Fixture:
    """Two replicas over one log."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = MemoryRevocations(clock=self.clock)
        self.here, self.there = self.watch(), self.watch()

    def watch(self) -> Watch:
        """A replica's view."""
        return Watch(self.log, clock=self.clock, patience=Seconds(5))


async def test_nothing_is_served_before_the_log_was_read() -> None:
    """A replica that knows no rules cannot know what holds."""
    two = Fixture()
    assert two.here.blind
    await two.here.refresh()
    assert two.here.serves(replace(ENTRY, stamp=two.here.stamp))


async def test_a_rule_holds_here_at_once_and_there_after_a_look() -> None:
    """The replica that took the call obeys when it returns."""
    two = Fixture()
    await two.here.refresh()
    await two.there.refresh()
    entry = replace(ENTRY, stamp=two.here.stamp)
    seq = await two.here.revoke(RULE)
    assert not two.here.serves(entry)
    assert two.here.serves(replace(entry, stamp=seq))
    assert two.there.serves(entry)
    await two.there.refresh()
    assert not two.there.serves(entry)


async def test_many_rules_are_read_in_pages() -> None:
    """However long the log, all of it is known after one refresh."""
    two = Fixture()
    for _ in range(PAGE + 1):
        last = await two.log.append(RULE)
    await two.here.refresh()
    assert two.here.stamp == last


async def test_a_blind_replica_serves_nothing_and_sees_again() -> None:
    """Rules may have been made that it does not know."""
    two = Fixture()
    await two.here.refresh()
    entry = replace(ENTRY, stamp=two.here.stamp)
    two.clock.advance(6)
    assert not two.here.serves(entry)
    await two.here.refresh()
    assert two.here.serves(entry)


async def test_it_follows_through_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that fails is asked again."""
    monkeypatch.setattr("askonce.invalidation.watch.INTERVAL", 0)
    two = Fixture()
    good, calls = two.log.read, []

    async def read(after: int, limit: int) -> object:
        calls.append(after)
        if len(calls) == 1:
            raise StoreError("gone")
        return await good(after, limit)

    monkeypatch.setattr(two.log, "read", read)
    task = asyncio.create_task(two.here.follow())
    while two.here.blind:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(calls) > 1


async def test_what_the_store_can_find_is_freed_at_once() -> None:
    """Keys, tags and everything leave the store; the rest waits for its end of life."""
    two = Fixture()
    await two.here.refresh()
    store = MemoryStore(clock=two.clock, sink=RecordingSink(), max_bytes=1 << 20)
    desk = InvalidationDesk(two.here, store, None, None, clock=two.clock)
    for put in (Put(b"a" * 32, b"1", Seconds(9), ("t",)), Put(b"b" * 32, b"2", Seconds(9))):
        await store.put(put.key, put.value, ttl=put.ttl, tags=put.tags)
    await desk.take_back(Selector(model="m"), Request(by="me", why="new weights"))
    assert (await store.stats()).entries == 2
    await desk.take_back(Selector(tag="t"), Request())
    assert (await store.stats()).entries == 1
    await desk.take_back(Selector(key=b"b".hex() * 32), Request())
    assert (await store.stats()).entries == 0
    await store.put(b"c" * 32, b"3", ttl=Seconds(9))
    await desk.take_back(Selector(), Request())
    assert (await store.stats()).entries == 0
    page = await two.log.read(0, 10)
    assert (page.rules[0].by, page.rules[0].why) == ("me", "new weights")


async def test_many_answers_are_taken_back_by_one_look_at_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has its rule; nothing to take back is no rule."""
    two = Fixture()
    await two.here.refresh()
    store = MemoryStore(clock=two.clock, sink=RecordingSink(), max_bytes=1 << 20)
    desk = InvalidationDesk(two.here, store, None, None, clock=two.clock)
    found = []
    for key in (b"a" * 32, b"b" * 32):
        await store.put(key, b"1", ttl=Seconds(9))
        item = IndexedText(key, "What is the refund policy?", UnixTime(9))
        found.append(Neighbour(Cosine(0.9), item, b""))
    looks = []
    read = two.log.read

    async def counted(after: int, limit: int) -> RevocationPage:
        looks.append(after)
        return await read(after, limit)

    monkeypatch.setattr(two.log, "read", counted)
    await desk.take_back_all([], Request())
    await desk.take_back_all(found, Request())
    assert len(looks) == 1
    assert two.here.rules == 2
    assert (await store.stats()).entries == 0


async def test_a_store_that_fails_does_not_keep_the_rule_from_holding(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Space is freed when it can be."""
    two = Fixture()
    await two.here.refresh()
    store = MemoryStore(clock=two.clock, sink=RecordingSink(), max_bytes=1 << 20)
    await store.close()
    desk = InvalidationDesk(two.here, store, None, None, clock=two.clock)
    entry = replace(ENTRY, stamp=two.here.stamp)
    await desk.take_back(Selector(), Request())
    assert not two.here.serves(entry)
    assert "still takes space" in caplog.text


async def test_without_an_index_nothing_is_found_by_meaning() -> None:
    """The operator is told so."""
    two = Fixture()
    store = MemoryStore(clock=two.clock, sink=RecordingSink(), max_bytes=1 << 20)
    desk = InvalidationDesk(two.here, store, None, None, clock=two.clock)
    with pytest.raises(ConfigError, match="by meaning"):
        await desk.alike("What is the refund policy?", floor=Cosine(0.9))


@pytest.mark.parametrize(
    "what",
    [
        Selector(key=f" {ENTRY.key.hex().upper()}"),
        Selector(tenant="AB" * 32),
        Selector(prompt="CD" * 32),
        Selector(tag="cafe\u0301"),
        Selector(namespace="cafe\u0301"),
    ],
)
async def test_a_rule_matches_however_it_is_written(what: Selector) -> None:
    """Large letters, spaces in a digest, and letters put together from parts."""
    two = Fixture()
    await two.here.refresh()
    origin = Origin(revision="", namespace="caf\u00e9", tenant="ab" * 32, prompt="cd" * 32)
    entry = replace(ENTRY, origin=origin, tags=("caf\u00e9",), stamp=two.here.stamp)
    store = MemoryStore(clock=two.clock, sink=RecordingSink(), max_bytes=1 << 20)
    desk = InvalidationDesk(two.here, store, None, None, clock=two.clock)
    assert two.here.serves(entry)
    await desk.take_back(what, Request())
    assert not two.here.serves(entry)


async def test_a_log_that_lost_rules_takes_all_back() -> None:
    """Whoever knew a lost rule sees that it is gone, and others may never have heard of it."""
    two = Fixture()
    await two.here.refresh()
    await two.there.refresh()
    entry = replace(ENTRY, stamp=two.here.stamp)
    await two.log.append(replace(RULE, what=Selector(model="another")))
    await two.here.revoke(RULE)
    two.log._rules.clear()  # as after a snapshot from before is restored
    await two.there.refresh()
    assert two.there.serves(entry)
    await two.here.refresh()
    await two.there.refresh()
    assert not two.there.serves(entry)
