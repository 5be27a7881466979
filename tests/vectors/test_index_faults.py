"""Indexes on real servers that freeze, refuse or talk nonsense: bounded, cancelable, mended."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.servers.postgres import postgres
from tests.servers.redis import redis
from tests.servers.redisearch import WITH_VECTORS
from tests.vectors.places import DIM, opens

from askonce.errors import VectorIndexError
from askonce.testing import FakeClock
from askonce.testing.vectors import HERE, Bench, unit
from askonce.vectors.redis_wire import RedisWire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.process import Server

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

KINDS = (*WITH_VECTORS, "postgresql")
SCHEMES = (*KINDS, "qdrant", "milvus")


@contextmanager
def serving(kind: str) -> Iterator[tuple[Server, str]]:
    """A server of one kind, and the URL of an index in it with two connections."""
    with tempfile.TemporaryDirectory(prefix="askonce-") as folder:
        if kind in WITH_VECTORS:
            with WITH_VECTORS[kind](Path(folder)) as one:
                yield one.server, f"{one.url}?connections=2"
        else:
            with postgres() as other:
                yield other.server, f"{other.url}&connections=2"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_frozen_server_costs_the_deadline_and_no_connection(
    kind: str, tmp_path: Path
) -> None:
    """Each call ends at its caller's deadline; after the thaw all connections are usable."""
    with serving(kind) as (server, url):
        index = opens(url, FakeClock(), tmp_path)()
        bench = Bench(index, FakeClock(), DIM)
        await bench.add("a", 1.0)
        server.signal(signal.SIGSTOP)
        if kind == "postgresql":
            _signal_children(server.pid, signal.SIGSTOP)
        started = asyncio.get_running_loop().time()
        for _ in range(8):
            with pytest.raises((TimeoutError, VectorIndexError)):
                async with asyncio.timeout(0.05):
                    await bench.names(1.0)
        assert asyncio.get_running_loop().time() - started < 3.0
        if kind == "postgresql":
            _signal_children(server.pid, signal.SIGCONT)
        server.signal(signal.SIGCONT)
        async with asyncio.timeout(10.0):
            assert await asyncio.gather(*(bench.names(1.0) for _ in range(8))) == [["a"]] * 8
        await index.close()


def _signal_children(parent: int, number: signal.Signals) -> None:
    """PostgreSQL answers from a process for each connection."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for child in children:
        os.kill(int(child), number)


@pytest.mark.parametrize("kind", KINDS)
async def test_more_calls_than_connections_wait_their_turn(kind: str, tmp_path: Path) -> None:
    """Fifty lookups at once over two connections all get their answer."""
    with serving(kind) as (_, url):
        index = opens(url, FakeClock(), tmp_path)()
        bench = Bench(index, FakeClock(), DIM)
        await bench.add("a", 1.0)
        assert await asyncio.gather(*(bench.names(1.0) for _ in range(50))) == [["a"]] * 50
        await index.close()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_nonsense_is_a_fault(scheme: str, tmp_path: Path) -> None:
    """Another protocol at the place is a VectorIndexError, or silence until the deadline."""

    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00nonsense\r\n" * 10)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        index = opens(f"{scheme}://u:p@127.0.0.1:{port}", FakeClock(), tmp_path)()
        with pytest.raises((VectorIndexError, TimeoutError)):
            async with asyncio.timeout(3.0):
                await index.search(HERE, unit(DIM, 1.0), k=1)
        await index.close()


async def test_a_wrong_password_is_told(tmp_path: Path) -> None:
    """Redis' own words are in the error."""
    with redis("redis8", tmp_path, arguments=("--requirepass", "right")) as one:
        index = opens(f"redis://:wrong@127.0.0.1:{one.port}", FakeClock(), tmp_path)()
        with pytest.raises(VectorIndexError, match="invalid username-password"):
            await index.count()
        await index.close()
        index = opens(f"redis://:right@127.0.0.1:{one.port}", FakeClock(), tmp_path)()
        assert await index.count() == 0
        await index.close()


async def test_a_full_server_refuses_adds_and_still_finds(tmp_path: Path) -> None:
    """Out of memory is a VectorIndexError for adds; what is there is found."""
    full = ("--maxmemory-policy", "noeviction")
    with redis("redis8", tmp_path, arguments=full) as one:
        index = opens(one.url, FakeClock(), tmp_path)()
        bench = Bench(index, FakeClock(), DIM)
        await bench.add("a", 1.0)
        operator = RedisWire(one.url)
        await operator.call("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(VectorIndexError, match="maxmemory"):
            await bench.add("b", 1.0)
        assert await bench.names(1.0) == ["a"]
        await operator.close()
        await index.close()
