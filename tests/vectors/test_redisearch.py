"""What RediSearch in a real Valkey does by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.redisearch import redisearch
from tests.vectors.places import DIM, opens

from askonce.testing import FakeClock
from askonce.testing.vectors import THERE, Bench, key_of
from askonce.vectors.redis_wire import RedisWire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.redis import Redis

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """One server for all tests of this file."""
    with redisearch(tmp_path_factory.mktemp("r")) as one:
        yield one


@pytest.fixture
def clock() -> FakeClock:
    """The clock of all indexes of a test."""
    return FakeClock()


async def test_an_index_dropped_without_its_hashes_is_filled_from_them(
    server: Redis, clock: FakeClock, tmp_path: Path
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


async def test_what_was_damaged_is_a_miss(server: Redis, clock: FakeClock, tmp_path: Path) -> None:
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
