"""The log of what was taken back, in the server."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.servers.redis import Kind, Redis, cluster, redis, tell

from askonce.errors import StoreError
from askonce.ports import Revocation, Selector
from askonce.stores.redis.address import read_url
from askonce.stores.redis.revocations import RedisRevocations
from askonce.stores.urls import open_revocations
from askonce.testing import FakeClock, RecordingSink, check_revocations
from askonce.units import UnixTime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

RULE = Revocation(what=Selector(tag="old"), at=UnixTime(1.0))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    """One server."""
    with redis("redis7", tmp_path) as found:
        yield found


@pytest.mark.parametrize("kind", ["redis7", "redis8", "valkey", "cluster"])
async def test_keeps_the_promises(kind: str, tmp_path: Path) -> None:
    """It is a RevocationLog that replicas share."""
    with ExitStack() as stack:
        if kind == "cluster":
            nodes = stack.enter_context(cluster("redis7", tmp_path))
            url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
        else:
            one: Kind = kind  # type: ignore[assignment]
            url = stack.enter_context(redis(one, tmp_path)).url
        data = {"clock": FakeClock(), "sink": RecordingSink(), "data_dir": tmp_path}
        await check_revocations(lambda: open_revocations(url, **data))  # type: ignore[arg-type]


async def test_rules_that_left_take_all_that_is_as_old_with_them(server: Redis) -> None:
    """Past its bound a log is born later than it was."""
    log = RedisRevocations(read_url(server.url), most=10)
    birth = (await log.read(0, 0)).birth
    seqs = [await log.append(RULE) for _ in range(25)]
    page = await log.read(0, 100)
    assert (page.birth, page.last) == (seqs[-11], seqs[-1])
    assert page.birth > birth
    assert [rule.seq for rule in page.rules] == seqs[-10:]
    await log.close()


@pytest.mark.parametrize("lost", ["askonce:r{0}", "askonce:q{0}", "all"])
async def test_a_lost_log_is_born_past_all_it_said(server: Redis, lost: str) -> None:
    """Whatever the server evicts, a rule is never forgotten without all that is older."""
    log = RedisRevocations(read_url(server.url))
    for _ in range(3):
        last = await log.append(RULE)
    tell(server.port, *(["FLUSHALL"] if lost == "all" else ["DEL", lost]))
    page = await log.read(0, 10)
    assert page.birth > last
    assert page.rules == ()
    await log.close()


async def test_a_damaged_rule_is_told(server: Redis) -> None:
    """What cannot be read stops the log, and with it all serving, instead of being left out."""
    log = RedisRevocations(read_url(server.url))
    birth = (await log.read(0, 0)).birth
    tell(server.port, "XADD", "askonce:q{0}", f"{birth + 1}-0", "r", "nonsense" * 20)
    tell(server.port, "HSET", "askonce:r{0}", "last", birth + 1, "count", 1)
    with pytest.raises(StoreError, match="cannot be read"):
        await log.read(0, 10)
    await log.close()


async def test_no_number_is_given_twice_after_a_failover(server: Redis) -> None:
    """A replica that lacked the newest rule became the primary: its next one is seen by all."""
    log, names = RedisRevocations(read_url(server.url)), ("askonce:r{0}", "askonce:q{0}")
    await log.append(RULE)
    for name in names:
        tell(server.port, "COPY", name, f"{name}:replica")
    known = await log.append(RULE)
    for name in names:
        tell(server.port, "COPY", f"{name}:replica", name, "REPLACE")
    after = await log.append(RULE)
    assert after > known
    assert [rule.seq for rule in (await log.read(known, 10)).rules] == [after]
    await log.close()
