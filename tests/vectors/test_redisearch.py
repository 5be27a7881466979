"""RediSearch in a real Valkey: the promises, drops, bounds and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.servers.redis import redis
from tests.servers.redisearch import redisearch
from tests.vectors.places import DIM, opens

from askonce.errors import ConfigError, VectorIndexError
from askonce.ports import SupportsPartitionDrop
from askonce.testing import FakeClock
from askonce.testing.shared_vectors import check_shared_index
from askonce.testing.vectors import HERE, THERE, Bench, check_vector_index, key_of, unit
from askonce.vectors.redis_wire import RedisWire
from askonce.vectors.redisearch import RediSearchIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.redisearch import RediSearch

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RediSearch]:
    """One server for all tests of this file."""
    with redisearch(tmp_path_factory.mktemp("r")) as one:
        yield one


@pytest.fixture
def clock() -> FakeClock:
    """The clock of all indexes of a test."""
    return FakeClock()


@pytest.mark.parametrize("query", ["", "&algorithm=flat"])
async def test_keeps_every_promise(
    server: RediSearch, clock: FakeClock, tmp_path: Path, query: str
) -> None:
    """It is a VectorIndex, over a socket file, with a graph or without."""
    assert issubclass(RediSearchIndex, SupportsPartitionDrop)
    await check_vector_index(opens(server.unix_url + query, clock, tmp_path), clock, dim=DIM)


async def test_replicas_share_it_and_mend_it(
    server: RediSearch, clock: FakeClock, tmp_path: Path
) -> None:
    """Two clients agree, another embedder stays apart, and a flushed server is filled again."""
    operator = RedisWire(server.plain_url)
    try:
        await check_shared_index(
            opens(server.url, clock, tmp_path),
            clock,
            dim=DIM,
            drop=lambda: operator.call("FLUSHALL"),
            make_other=opens(server.url, clock, tmp_path, embedder="other"),
        )
    finally:
        await operator.close()


async def test_an_index_dropped_without_its_hashes_is_filled_from_them(
    server: RediSearch, clock: FakeClock, tmp_path: Path
) -> None:
    """What was in it is found again, and a clear takes all of it away."""
    operator = RedisWire(server.plain_url)
    index = opens(f"{server.url}?prefix=dropped", clock, tmp_path)()
    bench = Bench(index, clock, DIM)
    for number in range(200):
        await bench.add(str(number), 1.0, number / 1000)
    (name,) = [one for one in await operator.call("FT._LIST") if b"dropped" in one]
    await operator.call("FT.DROPINDEX", name)
    await bench.add("after", 0.0, 1.0, partition=THERE)
    assert await bench.names(0.0, 1.0, partition=THERE) == ["after"]
    await operator.call("FT.DROPINDEX", name)
    assert await index.clear() == 201
    assert await operator.call("KEYS", "*dropped*") == []
    await operator.close()
    await index.close()


async def test_what_was_damaged_is_a_miss(
    server: RediSearch, clock: FakeClock, tmp_path: Path
) -> None:
    """A hash with fields lost or changed harms nothing, nor do forgotten scripts."""
    index = opens(f"{server.url}?prefix=damaged", clock, tmp_path)()
    bench, operator = Bench(index, clock, DIM), RedisWire(server.plain_url)
    for name in ("a", "b", "c"):
        await bench.add(name, 1.0)
    names = await operator.call("KEYS", "*damaged*i:*")
    keys = {bytes.fromhex(name[-64:].decode()): name for name in names}
    await operator.call("HDEL", keys[key_of("a")], "t")
    await operator.call("COPY", keys[key_of("c")], keys[key_of("c")][:-64] + b"not ours")
    await operator.call("HSET", keys[key_of("b")], "x", b"never")
    await operator.call("SCRIPT", "FLUSH")
    assert await bench.names(1.0) == ["c"]
    assert await index.delete([key_of("c")]) == 1
    await operator.call("FLUSHALL")
    await operator.close()
    await index.close()


async def test_the_first_to_die_leave_past_the_bound(
    server: RediSearch, clock: FakeClock, tmp_path: Path
) -> None:
    """Now and then the surplus is taken out, and the items with the longest life stay."""
    index = opens(server.url, clock, tmp_path, max_entries=3)()
    bench = Bench(index, clock, DIM)
    for number in range(65):
        await bench.add(str(number), 1.0, number / 100, life=100.0 + number)
    assert await index.count() == 3
    assert sorted(await bench.names(1.0)) == ["62", "63", "64"]
    await index.clear()
    await index.close()


async def test_a_server_that_goes_and_comes_back(clock: FakeClock, tmp_path: Path) -> None:
    """A dead server is a VectorIndexError; the next call after its return works."""
    with redisearch(tmp_path) as one:
        index = opens(one.url, clock, tmp_path)()
        bench = Bench(index, clock, DIM)
        await bench.add("a", 1.0)
        one.server.kill()
        with pytest.raises(VectorIndexError):
            await bench.names(1.0)
        one.server.start()
        assert await bench.names(1.0) == []
        await bench.add("b", 1.0)
        assert await bench.names(1.0) == ["b"]
        await index.close()


async def test_a_server_without_the_module(clock: FakeClock, tmp_path: Path) -> None:
    """Its own words are in the error."""
    with redis("redis7", tmp_path) as one:
        index = opens(f"redisearch://127.0.0.1:{one.port}", clock, tmp_path)()
        with pytest.raises(VectorIndexError, match=r"FT\.SEARCH"):
            await index.search(HERE, unit(DIM, 1.0), k=1)
        await index.close()


async def test_near_duplicates_are_found(
    server: RediSearch, clock: FakeClock, tmp_path: Path
) -> None:
    """The nearest of 2,000 is found in at least 99 of 100, its score exact."""
    index = opens(server.unix_url, clock, tmp_path)()
    rows = np.random.default_rng(1).standard_normal((2000, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    bench = Bench(index, clock, DIM)
    for number, row in enumerate(rows):
        await index.add(HERE, bench.item(str(number)), row)
    right = 0
    for number in range(0, 2000, 20):
        found = await index.search(HERE, rows[number], k=3)
        right += found[0].item.key == key_of(str(number))
        assert found[0].score == pytest.approx(1.0, abs=1e-6)
    assert right >= 99
    assert await index.clear() == 2000
    await index.close()


@pytest.mark.parametrize("url", ["redisearch://h?algorithm=svs", "redisearch:h"])
async def test_a_wrong_url_is_refused(clock: FakeClock, tmp_path: Path, url: str) -> None:
    """A mistake in the URL is a ConfigError, before anything connects."""
    with pytest.raises(ConfigError):
        opens(url, clock, tmp_path)()
