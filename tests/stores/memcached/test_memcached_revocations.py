"""The log of what was taken back, on the servers of the store."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.servers.memcached import Memcached, cluster, url_of

from askonce.clock import SystemClock
from askonce.errors import StoreError
from askonce.ports import Revocation, Selector
from askonce.stores.memcached import revocations as memcached_log
from askonce.stores.memcached.revocations import MemcachedRevocations
from askonce.stores.memcached.ring import parse_url
from askonce.stores.memcached.wire import Command
from askonce.testing import check_revocations
from askonce.units import UnixTime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Memcached]]:
    """Three servers."""
    with ExitStack() as stack:
        yield cluster(stack, tmp_path, 3)


@asynccontextmanager
async def opened(servers: list[Memcached], query: str = "") -> AsyncIterator[MemcachedRevocations]:
    """A log, closed in the end."""
    log = MemcachedRevocations(parse_url(url_of(servers) + query), clock=SystemClock())
    try:
        yield log
    finally:
        await log.close()


def rule(model: str) -> Revocation:
    """One that takes a model's answers back."""
    return Revocation(what=Selector(model=model), at=UnixTime(1.0))


async def models(log: MemcachedRevocations) -> list[str | None]:
    """All rules, by their models."""
    return [each.what.model for each in (await log.read(0, 1000)).rules]


@pytest.mark.parametrize("count", [1, 3])
async def test_keeps_the_promises(tmp_path: Path, count: int) -> None:
    """It is a RevocationLog."""
    with ExitStack() as stack:
        url = parse_url(url_of(cluster(stack, tmp_path, count)))
        await check_revocations(lambda: MemcachedRevocations(url, clock=SystemClock()))


async def test_any_server_may_be_lost(three: list[Memcached]) -> None:
    """One after the other starts anew, and no rule and no number is lost."""
    async with opened(three) as log, opened(three) as other:
        await log.append(rule("a"))
        before = await log.read(0, 10)
        for each in three:
            each.server.kill()
            await asyncio.sleep(0.05)
            assert await log.read(0, 10) == before
            with pytest.raises(StoreError):
                await other.append(rule("b"))
            each.server.start()
            await asyncio.sleep(1.3)
            before = await other.read(0, 10)
            assert set(await models(log)) == {"a", "b"}


async def test_when_all_is_lost_a_new_log_begins_past_the_old(three: list[Memcached]) -> None:
    """So nothing from before is served."""
    async with opened(three) as log, opened(three) as other:
        seq = await log.append(rule("a"))
        for server in log._servers:
            await server.ask(Command(b"md " + log._name))
        one, two = await asyncio.gather(log.read(0, 10), other.read(0, 10))
        again = await log.read(0, 10)
        assert again == await other.read(0, 10)
        assert again.birth > seq
        assert again.birth in {one.birth, two.birth}


async def test_damage_is_mended_from_the_others(three: list[Memcached]) -> None:
    """Whatever lies in the log's place on one server."""
    async with opened(three) as log:
        await log.append(rule("a"))
        for bad in (b"", b"1234567890", b"\0\0\0\0"):
            await log._servers[1].ask(Command(b"ms %b %d" % (log._name, len(bad)), bad))
            assert await models(log) == ["a"]
            held, _ = await log._held(log._servers[1])
            assert held is not None
            assert [each.what.model for each in held.rules] == ["a"]


async def test_it_is_bounded(three: list[Memcached], monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound the oldest rules go, and what they could take back with them."""
    monkeypatch.setattr(memcached_log, "MOST_RULES", 3)
    async with opened(three) as log:
        seqs = [await log.append(rule(name)) for name in "abcde"]
        page = await log.read(0, 10)
        assert (await models(log), page.birth) == (["c", "d", "e"], seqs[1])
    async with opened(three, "?item_bytes=4096&namespace=small") as log:
        for number in range(5):
            await log.append(rule(f"{number}" * 1500))
        assert [name[0] for name in await models(log) if name] == ["3", "4"]


async def test_writers_that_reach_different_servers_give_different_numbers(
    three: list[Memcached],
) -> None:
    """Neither rule takes the other's place when the servers' logs are put together."""
    async with opened(three) as log:
        await log.append(rule("a"))
        async with opened(three[:1]) as one, opened(three[1:2]) as other:
            await one.append(rule("b"))
            await other.append(rule("c"))
        assert await models(log) == ["a", "b", "c"]
