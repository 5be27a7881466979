"""Hot copies of one replica follow what the others do."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.servers.redis import Kind, cluster, redis, tell
from tests.stores.redis.entries import entry

from askonce.clock import SystemClock
from askonce.stores.hot import HotEntries
from askonce.stores.redis.address import read_url
from askonce.stores.redis.store import RedisStore
from askonce.testing import RecordingSink
from askonce.tiers.exact import ExactTier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from askonce.canonical.entry import Entry

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

BOUND = 1.0
"""Seconds that a replica may serve what another one has changed."""
KEY = b"k" * 32


class Replica:
    """A store and its tier with hot copies."""

    def __init__(self, url: str) -> None:
        self.store = RedisStore(read_url(url), clock=SystemClock(), sink=RecordingSink())
        hot: HotEntries[Entry] = HotEntries(1_000_000)
        self.tier = ExactTier(self.store, hot, clock=SystemClock(), sink=RecordingSink())
        self.store.watch(self.tier.changed)

    def text(self, key: bytes = KEY) -> str | None:
        """What a hot copy says."""
        found = self.tier.peek(key)
        return None if found is None else found.model

    def watching(self) -> bool:
        """Whether others' changes are told."""
        return bool(self.store.statistics()["watching"])

    async def warm(self, key: bytes = KEY) -> None:
        """Make it hot."""
        for _ in range(100):
            assert await self.tier.find(key) is not None
            if self.text(key) is not None:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it does not get hot")


@asynccontextmanager
async def replicas(url: str, count: int = 2) -> AsyncIterator[list[Replica]]:
    """So many, all of whose links stand."""
    found = [Replica(url) for _ in range(count)]
    try:
        for each in found:
            await each.store.stats()
            await until(each.watching)
        yield found
    finally:
        for each in found:
            await each.store.close()


async def until(done: Callable[[], bool], limit: float = 10.0) -> float:
    """Seconds until it was done; fails past the limit."""
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < limit, "it took too long"
        await asyncio.sleep(0.002)
    return time.monotonic() - began


@pytest.fixture(params=["redis7", "redis8", "valkey", "cluster"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """A server, or a cluster."""
    with ExitStack() as stack:
        if request.param == "cluster":
            nodes = stack.enter_context(cluster("redis7", tmp_path))
            yield f"redis+cluster://127.0.0.1:{nodes[1].port}"
        else:
            kind: Kind = request.param
            yield stack.enter_context(redis(kind, tmp_path)).url


async def test_changes_by_others_reach_hot_copies(url: str) -> None:
    """Put, delete, delete by tag and clear: within a moment no other replica serves the old one."""
    async with replicas(url) as (one, other):
        changes: list[Callable[[], Awaitable[object]]] = [
            lambda: one.tier.keep(entry(KEY, "new")),
            lambda: one.store.delete(KEY),
            lambda: one.store.delete_tag("t"),
            one.store.clear,
        ]
        for change in changes:
            await one.tier.keep(entry(KEY, "old", tags=("t",)))
            await other.warm()
            assert other.text() == "old"
            await change()
            assert await until(lambda: other.text() != "old", BOUND) < BOUND


async def test_who_takes_away_serves_it_no_more(url: str) -> None:
    """When an invalidating call returns, its own replica has no hot copy."""
    async with replicas(url) as (one, _):
        changes: list[Callable[[], Awaitable[object]]] = [
            lambda: one.store.delete(KEY),
            lambda: one.store.delete_tag("t"),
        ]
        for change in changes:
            await one.tier.keep(entry(KEY, "old", tags=("t",)))
            await one.warm()
            await change()
            assert one.text() is None
        await one.tier.keep(entry(KEY, "old"))
        await one.warm()
        await one.store.clear()
        assert one.text() is None


async def test_other_keys_stay_hot(url: str) -> None:
    """A change of one key drops no copy of another."""
    async with replicas(url) as (one, other):
        await one.tier.keep(entry(b"x" * 32, "other"))
        await other.warm(b"x" * 32)
        await one.tier.keep(entry(KEY, "new"))
        await one.store.delete(KEY)
        await other.store.epoch()
        assert other.text(b"x" * 32) == "other"


async def test_a_read_that_crosses_a_change_warms_nothing_old(url: str) -> None:
    """Under a storm of changes and reads the last word is seen by all."""
    async with replicas(url, 3) as all_of_them:
        one, *others = all_of_them

        async def read(replica: Replica, turns: int) -> None:
            for _ in range(turns):
                await replica.tier.find(KEY)

        for number in range(60):
            await asyncio.gather(
                one.tier.keep(entry(KEY, str(number))), *(read(each, 5) for each in others)
            )
        assert await until(lambda: all(e.text() in {None, "59"} for e in others), BOUND) < BOUND


async def test_a_flushed_server_empties_hot_copies(tmp_path: Path) -> None:
    """Whoever flushes the server takes everything away."""
    with redis("valkey", tmp_path) as server:
        async with replicas(server.url) as (one, other):
            await one.tier.keep(entry(KEY, "old"))
            await other.warm()
            tell(server.port, "FLUSHALL")
            assert await until(lambda: other.text() is None, BOUND) < BOUND


@pytest.mark.parametrize("how", ["killed", "frozen", "cut"])
async def test_without_a_link_copies_age_within_the_bound(how: str, tmp_path: Path) -> None:
    """Copies that nobody can take back live a second at most, and are trusted again later."""
    with redis("redis7", tmp_path) as server:
        async with replicas(server.url) as (one, other):
            await one.tier.keep(entry(KEY, "old"))
            await other.warm()
            if how == "killed":
                server.server.kill()
            elif how == "frozen":
                server.server.signal(signal.SIGSTOP)
            else:
                tell(server.port, "CLIENT", "KILL", "TYPE", "normal")
            assert await until(lambda: other.text() is None, BOUND) < BOUND
            if how != "cut":
                await until(lambda: not other.watching(), 2)
                other.tier.hold(entry(KEY, "own"))
                assert other.text() == "own"
                assert await until(lambda: other.text() is None, BOUND) < BOUND
            if how == "killed":
                server.server.start()
            elif how == "frozen":
                server.server.signal(signal.SIGCONT)
            back = await until(other.watching, 5)
            assert back < 5
            await until(one.watching, 5)
            await one.tier.keep(entry(KEY, "again"))
            await other.warm()
            assert other.text() == "again"


async def test_a_strangers_key_under_our_prefix_breaks_no_connection(tmp_path: Path) -> None:
    """The server tells of it as of any other."""
    with redis("redis7", tmp_path) as server:
        async with replicas(server.url, 1) as (one,):
            before = one.store._calls.nodes.ready(0)
            for name in ("askonce:e{", "askonce:g{x", "askonce:f{}"):
                tell(server.port, "SET", name, "1")
            for _ in range(20):
                await one.store.stats()
            assert one.store._calls.nodes.ready(0) is before
