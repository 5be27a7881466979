"""What Memcached does wrong costs misses, and heals by itself."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop
from tests.servers.memcached import Memcached, cluster, url_of

from askonce.clock import SystemClock
from askonce.errors import StoreError
from askonce.events import AdmissionRefused, Unreadable
from askonce.stores.memcached.items import Names
from askonce.stores.memcached.ring import parse_url
from askonce.stores.memcached.store import MemcachedStore
from askonce.stores.memcached.wire import Command, ServerDown
from askonce.testing import RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

LONG = Seconds(3600.0)
KEYS = [number.to_bytes(32, "big") for number in range(60)]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Memcached]]:
    """Three servers."""
    with ExitStack() as stack:
        yield cluster(stack, tmp_path, 3)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Memcached]:
    """A server."""
    with ExitStack() as stack:
        yield cluster(stack, tmp_path, 1)[0]


@asynccontextmanager
async def opened(url: str, sink: RecordingSink | None = None) -> AsyncIterator[MemcachedStore]:
    """A store, closed in the end."""
    store = MemcachedStore(parse_url(url), clock=SystemClock(), sink=sink or RecordingSink())
    try:
        yield store
    finally:
        await store.close()


async def until(true: Callable[[], Awaitable[bool]], seconds: float = 5.0) -> None:
    """Wait until something is so, and fail when it does not come."""
    end = time.monotonic() + seconds
    while not await true():
        assert time.monotonic() < end, "it did not come in time"
        await asyncio.sleep(0.05)


async def fill(store: MemcachedStore) -> None:
    """Put all keys."""
    for key in KEYS:
        await store.put(key, b"of " + key, ttl=LONG)


async def held(store: MemcachedStore) -> set[bytes]:
    """Keys that are found; a value that is found is the right one."""
    found = await asyncio.gather(*map(store.get, KEYS))
    assert {value for key, value in zip(KEYS, found, strict=True) if value != b"of " + key} <= {
        None
    }
    return {key for key, value in zip(KEYS, found, strict=True) if value is not None}


async def test_a_dead_server_costs_its_share_alone(three: list[Memcached]) -> None:
    """Others go on, deletes say that they cannot be sure, and the share can be filled again."""
    async with opened(url_of(three)) as store:
        await fill(store)
        assert await held(store) == set(KEYS)
        three[1].server.kill()
        await until(lambda: _is(not store._servers[1].up))
        left = await held(store)
        lost = set(KEYS) - left
        assert 5 < len(lost) < 40
        await store.put(min(lost), b"x", ttl=LONG)
        with pytest.raises(StoreError):
            await store.delete(min(lost))
        with pytest.raises(StoreError):
            await store.clear()
        assert await held(store) == set()
        three[1].server.start()
        await until(lambda: _is(store._servers[1].up))
        await fill(store)
        assert await held(store) == set(KEYS)


async def _is(so: bool) -> bool:  # noqa: FBT001 - a value to be awaited
    return so


async def test_a_single_dead_server_is_told(one: Memcached) -> None:
    """With no server left, every call raises StoreError at once, and the store heals."""
    async with opened(url_of([one])) as store:
        await fill(store)
        one.server.kill()
        await until(lambda: _is(not store._servers[0].up))
        began = time.monotonic()
        for call in (store.get(KEYS[0]), store.stats(), store.epoch(), store.delete_tag("t")):
            with pytest.raises(StoreError):
                await call
        with pytest.raises(StoreError):
            await store.put(KEYS[0], b"x", ttl=LONG)
        assert time.monotonic() - began < 0.5
        one.server.start()
        await until(lambda: _is(store._servers[0].up))
        assert await store.get(KEYS[0]) is None


async def test_a_frozen_server_is_given_up_and_found_again(three: list[Memcached]) -> None:
    """Calls to it end within the patience, later ones at once, and its entries are still good."""
    async with opened(url_of(three) + "?patience=0.2") as store:
        await fill(store)
        three[0].server.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert 0 < len(await held(store)) < len(KEYS)
            assert time.monotonic() - began < 2
            began = time.monotonic()
            assert 0 < len(await held(store)) < len(KEYS)
            assert time.monotonic() - began < 0.2
        finally:
            three[0].server.signal(signal.SIGCONT)
        await until(lambda: _is(store._servers[0].up))
        assert await held(store) == set(KEYS)


async def test_an_abandoned_call_takes_no_other_calls_answer(one: Memcached) -> None:
    """Callers that leave at any time do no harm to those that stay."""
    async with opened(url_of([one]) + "?patience=10") as store:
        await fill(store)
        for _ in range(100):
            calls = [asyncio.ensure_future(store.get(key)) for key in KEYS]
            await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert done[1::2] == [b"of " + key for key in KEYS[1::2]]
        assert len(asyncio.all_tasks()) <= 3


async def test_whatever_epoch_is_lost_nothing_comes_back(one: Memcached) -> None:
    """Losing the item of an epoch is a miss of all under it, for good, on every replica."""
    names = Names("askonce")
    async with opened(url_of([one])) as store, opened(url_of([one])) as other:
        await store.put(b"k", b"v", ttl=LONG, tags=("t",))
        assert await other.get(b"k") == b"v"
        epoch = store._servers[0]._epoch
        tag = (await _listed(store, b":t:"))[0]
        await store._servers[0].ask(Command(b"md " + tag))
        assert await store.get(b"k") is None
        assert await other.get(b"k") is None
        await store.put(b"other", b"v", ttl=LONG, tags=("t",))
        assert await store.get(b"k") is None
        await store.put(b"k", b"v", ttl=LONG, tags=("t",))
        assert await other.get(b"k") == b"v"
        await store._servers[0].ask(Command(b"md " + names.epoch))
        assert await other.get(b"k") is None
        await other.put(b"else", b"v", ttl=LONG)
        assert await store.get(b"k") is None
        assert store._servers[0]._epoch != epoch


async def _listed(store: MemcachedStore, part: bytes) -> list[bytes]:
    from askonce.stores.memcached.census import listed

    address = store._servers[0].address
    return [each.name async for each in listed(address, b"") if part in each.name]


async def test_removals_reach_other_replicas_at_once(three: list[Memcached]) -> None:
    """After clear or delete_tag returns, no replica finds what was taken, and all see the epoch."""
    async with opened(url_of(three)) as store, opened(url_of(three)) as other:
        for key in KEYS:
            await store.put(key, b"of " + key, ttl=LONG, tags=("even",) if key[-1] % 2 == 0 else ())
        assert await held(other) == set(KEYS)
        before = await other.epoch()
        assert await store.delete_tag("even") == 30
        assert await held(other) == set(KEYS[1::2])
        between = await other.epoch()
        assert await store.clear() == 30
        assert await held(other) == set()
        assert before < between < await other.epoch()
        await fill(other)
        assert await held(store) == set(KEYS)


async def test_a_lost_piece_is_a_miss(one: Memcached) -> None:
    """A long value comes back whole or not at all, and its loss is counted."""
    sink = RecordingSink()
    async with opened(url_of([one]) + "?item_bytes=65536", sink) as store:
        value = bytes(range(256)) * 2000
        await store.put(b"k", value, ttl=LONG, tags=("t",))
        assert await store.get(b"k") == value
        pieces = await _listed(store, b":c:")
        assert len(pieces) == 8
        await store._servers[0].ask(Command(b"ms %b 3 T60" % pieces[3], b"bad"))
        assert await store.get(b"k") is None
        await store.put(b"k", value, ttl=LONG)
        await store._servers[0].ask(*(Command(b"md " + name) for name in pieces))
        assert await store.get(b"k") == value
    assert sink.events == [Unreadable("store", "piece")]


async def test_what_is_too_large_is_refused_and_replaces_what_was_there(one: Memcached) -> None:
    """Past the bound, or past the server's own, a value is refused, counted, and not half there."""
    for query in ("?largest=1000", "?item_bytes=3000000"):
        sink = RecordingSink()
        async with opened(url_of([one]) + query, sink) as store:
            await store.put(b"k", b"small", ttl=LONG)
            await store.put(b"k", b"x" * 2_000_000, ttl=LONG)
            assert await store.get(b"k") is None
        assert sink.events == [AdmissionRefused("store_limit")]


async def test_damaged_and_foreign_items_are_misses(one: Memcached) -> None:
    """Whatever lies under an entry's name, it is the entry or a miss."""
    sink = RecordingSink()
    async with opened(url_of([one]), sink) as store:
        await fill(store)
        server, names, epoch = store._servers[0], Names("askonce"), store._servers[0]._epoch
        (item,) = await server.ask(Command(b"mg %b v" % names.entry(epoch, KEYS[0])))
        others = [b"", b"AM", item.value[:-1], item.value + b"x", b"\0" * 200]
        others += [bytes([item.value[0] ^ 1]) + item.value[1:], item.value[:30] + b"\xff" * 50]
        for bad in [*others, item.value]:
            name = names.entry(epoch, KEYS[1])
            await server.ask(Command(b"ms %b %d" % (name, len(bad)), bad))
            assert await store.get(KEYS[1]) is None
    assert sink.events == [Unreadable("store", "damaged")] * 8


async def test_a_full_server_evicts_and_stays_right(tmp_path: Path) -> None:
    """Under eviction entries are right or gone, and puts go on."""
    with ExitStack() as stack:
        servers = cluster(stack, tmp_path, 1, arguments=("-m", "8"))
        async with opened(url_of(servers)) as store:
            for number in range(400):
                key = number.to_bytes(4, "big")
                await store.put(key, key * 25_000, ttl=LONG, tags=(f"t{number % 7}",))
                got = await store.get((number // 2).to_bytes(4, "big"))
                assert got in {None, (number // 2).to_bytes(4, "big") * 25_000}
            assert await store.get((399).to_bytes(4, "big")) is not None


def test_it_works_on_the_servers_own_loop(one: Memcached) -> None:
    """The gateway runs on uvloop, whose transports are of another kind."""

    async def round_trip() -> bool:
        async with opened(url_of([one])) as store:
            await fill(store)
            return await held(store) == set(KEYS)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(round_trip())


async def test_a_server_that_lists_no_names_still_serves(tmp_path: Path) -> None:
    """Taking away works uncounted, and stats say that they cannot tell."""
    with ExitStack() as stack:
        servers = cluster(stack, tmp_path, 1, arguments=("-X",))
        async with opened(url_of(servers)) as store:
            await store.put(b"k", b"v", ttl=LONG, tags=("t",))
            with pytest.raises(StoreError, match="cannot be listed"):
                await store.stats()
            assert await store.get(b"k") == b"v"
            assert await store.delete_tag("t") == 0
            assert await store.get(b"k") is None
            assert await store.clear() == 0


async def test_nothing_leaks_however_often_a_connection_breaks(one: Memcached) -> None:
    """After many breaks and many stores there are as many tasks and descriptors as before."""
    at_first = len(asyncio.all_tasks())
    async with opened(url_of([one])) as store:
        await fill(store)
        server = store._servers[0]
        before = len(asyncio.all_tasks()), descriptors()
        for _ in range(300):
            lost = server._wire
            assert lost is not None
            asked = asyncio.gather(*map(store.get, KEYS[:5]), return_exceptions=True)
            await asyncio.sleep(0)
            lost.give_up("the test breaks it")
            assert {type(each) for each in await asked} <= {ServerDown}
            while not server.up:
                await asyncio.sleep(0.001)
        assert await held(store) == set(KEYS)
        await asyncio.sleep(0.05)
        assert (len(asyncio.all_tasks()), descriptors()) == before
    for _ in range(100):
        async with opened(url_of([one])) as store:
            assert await store.get(KEYS[0]) == b"of " + KEYS[0]
    await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks()) == at_first


def descriptors() -> int:
    """How many files and sockets are open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
