"""What a real server can do to its clients, and what becomes of it."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.servers.redis import Redis, cluster, redis, tell, watched

from askonce.clock import SystemClock
from askonce.errors import StoreError
from askonce.ports import Put
from askonce.stores.redis import link as links
from askonce.stores.redis.address import read_url
from askonce.stores.redis.frame import tag_digest
from askonce.stores.redis.nodes import slot_of
from askonce.stores.redis.store import RedisStore
from askonce.stores.redis.wire import pack
from askonce.testing import RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

LONG = Seconds(600.0)
BACK = 5.0
"""Seconds after a server's return until its clients use it."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    """One server."""
    with redis("redis7", tmp_path) as found:
        yield found


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisStore]:
    """A store that leaves no task behind."""
    others = asyncio.all_tasks()
    store = RedisStore(read_url(url), clock=SystemClock(), sink=RecordingSink())
    try:
        yield store
    finally:
        await store.close()
        assert asyncio.all_tasks() <= others


async def works(store: RedisStore, key: bytes = b"probe") -> bool:
    """Whether it takes and gives."""
    try:
        async with asyncio.timeout(0.5):
            await store.put(key, b"v", ttl=LONG)
            return await store.get(key) == b"v"
    except (StoreError, TimeoutError):
        return False


async def until_it_works(store: RedisStore) -> float:
    """Seconds until then; fails past the bound."""
    began = time.monotonic()
    while not await works(store):
        assert time.monotonic() - began < BACK
        await asyncio.sleep(0.01)
    return time.monotonic() - began


@pytest.mark.parametrize("what", ["g", "s"])
async def test_a_lost_book_loses_all_entries_with_it(server: Redis, what: str) -> None:
    """An evicted generation or state never brings back what was taken away."""
    async with opened(server.url) as store:
        await store.put(b"k", b"v", ttl=LONG, tags=("t",))
        epoch = await store.epoch()
        tell(server.port, "DEL", f"askonce:{what}{{0}}")
        assert await store.delete_tag("t") == 0
        assert await store.get(b"k") is None
        assert await store.epoch() > epoch
        assert await works(store)


@pytest.mark.parametrize("since", ["nothing", "another"])
async def test_an_evicted_tag_takes_all_entries_when_it_is_deleted(
    server: Redis, since: str
) -> None:
    """Whose entries are not known any more cannot be spared; also when new ones came since."""
    async with opened(server.url) as store:
        await store.put(b"k", b"v", ttl=LONG, tags=("t",))
        await store.put(b"other", b"v", ttl=LONG, tags=("u",))
        assert await store._calls.ask(0, pack("DEL", store._names.tag(0, tag_digest("t")))) == 1
        if since == "another":
            await store.put(b"new", b"v", ttl=LONG, tags=("t",))
        assert await store.delete_tag("u") == 1
        assert await store.delete_tag("t") >= 1
        assert await store.get(b"k") is None
        assert await works(store)
        assert await store.delete_tag("t") == 0
        assert await store.get(b"probe") == b"v"


async def test_a_large_tag_goes_in_parts_and_whole(server: Redis) -> None:
    """Entries beyond one part go too, and other callers are served meanwhile."""
    async with opened(server.url) as store:
        puts = [Put(b"%d" % number, b"v", LONG, ("t",)) for number in range(1700)]
        await store.put_many(puts)
        deleting = asyncio.create_task(store.delete_tag("t"))
        others = [asyncio.create_task(works(store, b"p%d" % number)) for number in range(20)]
        assert await deleting == 1700
        assert all(await asyncio.gather(*others))
        assert (await store.stats()).entries == 20
        assert await asyncio.gather(*(store.get(each.key) for each in puts)) == [None] * 1700


async def test_a_broken_off_tag_deletion_is_taken_up(server: Redis) -> None:
    """What one caller did not finish the next one does."""
    async with opened(server.url) as store:
        await store.put_many([Put(b"%d" % n, b"v", LONG, ("t",)) for n in range(1700)])
        deleting = asyncio.create_task(store.delete_tag("t"))
        while (await store.stats()).entries == 1700:
            await asyncio.sleep(0)
        deleting.cancel()
        await asyncio.wait([deleting])
        left = (await store.stats()).entries
        assert 0 < left < 1700
        await store.put(b"new", b"v", ttl=LONG, tags=("t",))
        assert await store.delete_tag("t") == left + 1
        assert (await store.stats()).entries == 0


async def test_sets_of_tags_do_not_grow_with_what_has_ended(server: Redis) -> None:
    """A tag in steady use holds about as many keys as live under it."""
    async with opened(server.url) as store:
        for number in range(40):
            puts = [Put(b"%d-%d" % (number, n), b"v", Seconds(0.05), ("t",)) for n in range(20)]
            await store.put_many(puts)
            await asyncio.sleep(0.01)
        held = await store._calls.ask(0, pack("ZCARD", store._names.tag(0, tag_digest("t"))))
        assert isinstance(held, int)
        assert held < 400


async def test_a_full_server_refuses_and_goes_on(server: Redis) -> None:
    """What it cannot take is told; what it has is still served; nothing is half put."""
    async with opened(server.url) as store:
        await store.put(b"k", b"v", ttl=LONG)
        tell(server.port, "CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(StoreError, match="full"):
            await store.put_many([Put(b"a", b"v", LONG), Put(b"b", b"v", LONG)])
        assert await store.get(b"k") == b"v"
        assert await store.get(b"a") is None
        tell(server.port, "CONFIG", "SET", "maxmemory", "0")
        assert await works(store)


async def test_a_server_that_evicts_serves_no_wrong_value(server: Redis) -> None:
    """Under pressure all is there as put or not at all, and deletions hold."""
    async with opened(server.url) as store:
        tell(server.port, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        tell(server.port, "CONFIG", "SET", "maxmemory", "4mb")
        for number in range(1500):
            tags = ("even",) if number % 2 == 0 else ()
            await store.put(b"%d" % number, b"%d" % number * 1000, ttl=LONG, tags=tags)
        await store.delete_tag("even")
        for number in range(1500):
            got = await store.get(b"%d" % number)
            assert got is None or (got == b"%d" % number * 1000 and number % 2)


async def test_a_wrong_password_is_told_and_put_right(server: Redis) -> None:
    """Calls fail at once with the reason; when the password fits they work."""
    tell(server.port, "ACL", "SETUSER", "cache", "on", ">right", "~*", "&*", "+@all")
    async with opened(f"redis://cache:wrong@127.0.0.1:{server.port}") as store:
        with pytest.raises(StoreError, match="WRONGPASS") as told:
            await store.get(b"k")
        assert "wrong@" not in str(told.value)
        tell(server.port, "ACL", "SETUSER", "cache", ">wrong")
        assert await until_it_works(store) < BACK


async def test_without_tracking_it_works_and_says_so(
    server: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """A user who may not ask for changes has hot copies of a second at most."""
    tell(
        server.port, "ACL", "SETUSER", "cache", "on", ">p", "~*", "&*", "+@all", "-client|tracking"
    )
    async with opened(f"redis://cache:p@127.0.0.1:{server.port}") as store:
        told: list[object] = []
        assert await works(store)
        store.watch(told.append)
        await asyncio.sleep(1.3)
        assert len(told) >= 3
        assert not store.statistics()["watching"]
    assert "no client tracking" in caplog.text


async def test_a_scripts_cache_may_be_emptied(server: Redis) -> None:
    """A restarted server knows no scripts, and learns them again."""
    async with opened(server.url) as store:
        assert await works(store)
        tell(server.port, "SCRIPT", "FLUSH")
        assert await works(store)


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_lost_server_costs_moments_and_is_used_again(server: Redis, how: str) -> None:
    """Calls fail fast once it is noticed, and work soon after its return."""
    async with opened(server.url) as store:
        assert await works(store)
        if how == "killed":
            server.server.kill()
        else:
            server.server.signal(signal.SIGSTOP)
        await asyncio.sleep(1.2)
        began = time.monotonic()
        for _ in range(100):
            with pytest.raises(StoreError):
                await store.get(b"k")
        assert time.monotonic() - began < 0.2
        if how == "killed":
            server.server.start()
        else:
            server.server.signal(signal.SIGCONT)
        assert await until_it_works(store) < BACK


async def test_a_thousand_lost_connections_leave_nothing_behind(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task and no connection of them."""
    monkeypatch.setattr(links, "FIRST_PAUSE", 0)
    monkeypatch.setattr(links, "LAST_PAUSE", 0)
    async with opened(server.url) as store:
        link = store._calls.nodes._link  # type: ignore[attr-defined]
        while link.reconnects < 1000:
            with suppress(StoreError):
                await store.get(b"k")
            link.distrust("cut")
            await asyncio.sleep(0)
        assert await until_it_works(store) < BACK
        assert len(asyncio.all_tasks()) < 4
        assert tell(server.port, "CLIENT", "LIST").count("name=askonce") == 1


async def test_a_failover_is_followed(tmp_path: Path) -> None:
    """When Sentinels make the replica the primary, calls go there."""
    with watched("redis7", tmp_path) as servers:
        async with opened(servers.url) as store:
            assert await works(store)
            servers.primary.server.kill()
            began = time.monotonic()
            while not await works(store):
                assert time.monotonic() - began < 20
                await asyncio.sleep(0.05)
            assert tell(servers.replica.port, "ROLE").startswith("*3\r\n$6\r\nmaster")


async def test_a_moved_slot_is_followed(tmp_path: Path) -> None:
    """In the middle of a move and after it every key is found."""
    with cluster("redis7", tmp_path) as nodes:
        async with opened(f"redis+cluster://127.0.0.1:{nodes[0].port}") as store:
            assert await works(store)
            partition = store._names.partition(b"probe")
            slot = slot_of(b"%d" % partition)
            source = nodes[slot * 3 // 16384]
            target = nodes[(slot * 3 // 16384 + 1) % 3]
            ids = [tell(node.port, "CLUSTER", "MYID").split("\r\n")[1] for node in (source, target)]
            tell(target.port, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
            tell(source.port, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
            assert await store.get(b"probe") == b"v"
            names = tell(source.port, "CLUSTER", "GETKEYSINSLOT", slot, 100).split("\r\n")
            for name in [each for each in names if each.startswith("askonce")]:
                moved = tell(source.port, "MIGRATE", "127.0.0.1", target.port, name, 0, 1000)
                assert moved.startswith("+OK")
            assert await store.get(b"probe") == b"v"
            for node in (target, source):
                tell(node.port, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
            assert await store.get(b"probe") == b"v"
            assert await until_it_works(store) < BACK
            assert await store.delete(b"probe")


async def test_a_lost_node_of_a_cluster_costs_its_own_keys_alone(tmp_path: Path) -> None:
    """Keys of the other nodes are served on."""
    with cluster("redis7", tmp_path) as nodes:
        for node in nodes:
            tell(node.port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
        async with opened(f"redis+cluster://127.0.0.1:{nodes[0].port}") as store:
            names = [b"key-%d" % number for number in range(60)]
            await store.put_many([Put(name, name, LONG) for name in names])
            nodes[2].server.kill()
            await asyncio.sleep(0.5)
            got = await asyncio.gather(*map(store.get, names), return_exceptions=True)
            good = sum(one == name for one, name in zip(got, names, strict=True))
            assert 20 < good < 60
            assert all(
                one == name or isinstance(one, StoreError)
                for one, name in zip(got, names, strict=True)
            )


async def test_two_who_take_the_same_tag_back_take_nothing_else(server: Redis) -> None:
    """The one that comes to the end first leaves the other nothing to do."""
    clock, sink = SystemClock(), RecordingSink()
    one, two = (RedisStore(read_url(server.url), clock=clock, sink=sink) for _ in range(2))
    await one.put(b"other", b"v", ttl=Seconds(60.0))
    for round_ in range(5):
        puts = [
            Put(b"%d-%d" % (round_, number), b"v", Seconds(60.0), ("red",))
            for number in range(3000)
        ]
        await one.put_many(puts)
        await asyncio.gather(one.delete_tag("red"), two.delete_tag("red"), one.delete_tag("red"))
        assert await one.get(b"other") == b"v"
        assert await two.get(puts[-1].key) is None
    await one.close()
    await two.close()
