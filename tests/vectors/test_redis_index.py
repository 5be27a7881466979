"""What indexes in Redis and in RediSearch must do alike, in real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.servers.redis import redis
from tests.servers.redisearch import WITH_VECTORS
from tests.vectors.places import DIM, opens

from askonce.errors import ConfigError, VectorIndexError
from askonce.ports import SupportsPartitionDrop
from askonce.testing import FakeClock
from askonce.testing.shared_vectors import check_shared_index
from askonce.testing.vectors import HERE, Bench, check_vector_index, key_of, unit
from askonce.vectors.redis_wire import RedisWire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.redis import Redis

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

OTHERWISE = {"redis": "&quant=none", "redisearch": "&algorithm=flat"}


@pytest.fixture(scope="module", params=WITH_VECTORS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Redis]:
    """One server of each kind for all tests of this file."""
    with WITH_VECTORS[request.param](tmp_path_factory.mktemp("r")) as one:
        yield one


@pytest.fixture
def clock() -> FakeClock:
    """The clock of all indexes of a test."""
    return FakeClock()


@pytest.mark.parametrize("otherwise", [False, True])
async def test_keeps_every_promise(
    server: Redis, clock: FakeClock, tmp_path: Path, *, otherwise: bool
) -> None:
    """It is a VectorIndex, over a socket file, in either kind that it knows."""
    query = OTHERWISE[server.scheme] if otherwise else ""
    make = opens(server.unix_url + query, clock, tmp_path)
    assert isinstance(make(), SupportsPartitionDrop)
    await check_vector_index(make, clock, dim=DIM)


async def test_replicas_share_it_and_mend_it(
    server: Redis, clock: FakeClock, tmp_path: Path
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


async def test_the_first_to_die_leave_past_the_bound(
    server: Redis, clock: FakeClock, tmp_path: Path
) -> None:
    """The surplus goes, in RediSearch at every 64th add, and those with the longest life stay."""
    index = opens(server.url, clock, tmp_path, max_entries=3)()
    bench = Bench(index, clock, DIM)
    for number in range(65):
        await bench.add(str(number), 1.0, number / 100, life=100.0 + number)
    assert await index.count() == 3
    assert sorted(await bench.names(1.0)) == ["62", "63", "64"]
    await index.clear()
    await index.close()


@pytest.mark.parametrize("kind", WITH_VECTORS)
async def test_a_server_that_goes_and_comes_back(
    kind: str, clock: FakeClock, tmp_path: Path
) -> None:
    """A dead server is a VectorIndexError; the next call after its return works."""
    with WITH_VECTORS[kind](tmp_path) as one:
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


@pytest.mark.parametrize(
    ("scheme", "says"), [("redis", "Unknown Redis command"), ("redisearch", r"FT\.SEARCH")]
)
async def test_a_server_that_knows_no_vectors(
    scheme: str, says: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Its own words are in the error."""
    with redis("redis7", tmp_path) as one:
        index = opens(one._replace(scheme=scheme).url, clock, tmp_path)()
        with pytest.raises(VectorIndexError, match=says):
            await index.search(HERE, unit(DIM, 1.0), k=1)
        await index.close()


async def test_near_duplicates_are_found(server: Redis, clock: FakeClock, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "url",
    [
        "redis://h?quant=int4",
        "redis://h?connections=0",
        "redis://h?prefix=Ä",
        "redis://h?socket_timeout=x",
        "redisearch://h?algorithm=svs",
        "redisearch:h",
    ],
)
async def test_a_wrong_url_is_refused(clock: FakeClock, tmp_path: Path, url: str) -> None:
    """A mistake in the URL is a ConfigError, before anything connects."""
    with pytest.raises(ConfigError):
        opens(url, clock, tmp_path)()
