"""What vector sets of a real Redis 8 do by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.redis import redis
from tests.vectors.places import DIM, opens

from askonce.testing import FakeClock
from askonce.testing.vectors import Bench, key_of
from askonce.vectors.redis_wire import RedisWire

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]


async def test_what_was_lost_in_part_is_a_miss(tmp_path: Path) -> None:
    """Hashes that were evicted or damaged, or scripts that were forgotten, harm nothing."""
    with redis("redis8", tmp_path) as server:
        clock = FakeClock()
        index = opens(server.url, clock, tmp_path)()
        bench, operator = Bench(index, clock, DIM), RedisWire(server.url)
        for name in ("a", "b", "c", "d"):
            await bench.add(name, 1.0)
        keys = {key[-32:]: key for key in await operator.call("KEYS", "*i:*")}
        await operator.call("DEL", keys[key_of("a")])
        await operator.call("HSET", keys[key_of("b")], "v", b"short")
        await operator.call("HSET", keys[key_of("c")], "x", b"never")
        await operator.call("SCRIPT", "FLUSH")
        assert await bench.names(1.0) == ["d"]
        assert await bench.names(1.0) == ["d"]
        assert await index.clear() >= 1
        assert await operator.call("DBSIZE") == 0
        await operator.close()
        await index.close()
