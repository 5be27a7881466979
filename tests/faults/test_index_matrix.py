"""What a vector index or an embedder that fails costs: the semantic step's deadline, then nothing.

Bounds are wider than the promise, as with the stores.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.faults.causes import ANYWHERE, IN_REDIS, PASSWORD, USER, Place, babbling, in_redis
from tests.faults.proxy import proxy
from tests.faults.scene import keeps_to, open_scene
from tests.gateway.house import near
from tests.servers.postgres import postgres
from tests.servers.process import ROOT, free_port, running
from tests.servers.redis import redis
from tests.servers.redisearch import redisearch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager

    from tests.faults.scene import Endured
    from tests.servers.postgres import Postgres
    from tests.servers.process import Server

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

DEADLINE = 0.050
MARGIN = 0.100
OPEN = 0.002
SERVES_ON = {"out of memory", "read-only replica", "flapping", "read-only"}
NO_ENDLESS = {"endless array", "endless value"}


def check(endured: Endured, *, opens: bool) -> None:
    """Within the bounds; that every answer was right is checked at each."""
    assert keeps_to(endured.noticing, DEADLINE + MARGIN), endured.noticing.added
    if opens:
        assert endured.opened
        assert endured.later.median <= OPEN


def over(index: str) -> dict[str, Any]:
    """Sections for an index that is asked about every question."""
    semantic = {"enabled": True, "index": index, "deadline": DEADLINE, "floor": 0.9}
    return {
        "exact": {"store": "memory"},
        "semantic": semantic,
        "breaker": {"cooldown": 0.5},
        "embedder": near(),
    }


@pytest.fixture(scope="module", params=["redis", "redisearch"])
def redis_like(request: pytest.FixtureRequest) -> Iterator[tuple[str, Server, int]]:
    """Scheme, server and port; one server for all its faults."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askonce-")))
        if request.param == "redis":
            one = stack.enter_context(redis("redis8", folder))
            yield "redis", one.server, one.port
        else:
            other = stack.enter_context(redisearch(folder))
            yield "redisearch", other.server, int(other.plain_url.split(":")[2].split("/")[0])


@pytest.mark.parametrize("cause", [each for each in IN_REDIS if each not in NO_ENDLESS])
async def test_index_in_redis(
    cause: str, redis_like: tuple[str, Server, int], tmp_path: Path
) -> None:
    """No request fails or is answered wrongly, and the index is used again by itself."""
    scheme, server, port = redis_like
    async with proxy(("127.0.0.1", port)) as wire:
        place = in_redis(server, wire, port)
        url = f"{scheme}://{USER}:{PASSWORD}@127.0.0.1:{wire.port}/0"
        async with open_scene(tmp_path, **over(url)) as scene:
            endured = await scene.endure(IN_REDIS[cause](place), "semantic", reworded=True)
            check(endured, opens=cause not in SERVES_ON)


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[Postgres]:
    """One for all its faults."""
    with postgres() as server:
        yield server


async def tell(server: Postgres, *statements: str) -> None:
    """As an operator, past the wire."""
    import asyncpg

    link = await asyncpg.connect(server.url.replace("postgres@", "operator@"))
    for statement in statements:
        await link.execute(statement)
    await link.close()


_CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres'"


def role(server: Postgres, for_now: str, again: str) -> AbstractAsyncContextManager[None]:
    """The gateway's user is another one for a while."""

    @asynccontextmanager
    async def cause() -> AsyncIterator[None]:
        await tell(server, f"ALTER ROLE postgres {for_now}", _CUT)
        yield
        await tell(server, f"ALTER ROLE postgres {again}", _CUT)

    return cause()


OF_ROLES = {
    "read-only": ("SET default_transaction_read_only = on", "RESET default_transaction_read_only"),
    "statement timeout": ("SET statement_timeout = 1", "RESET statement_timeout"),
    "login refused": ("NOLOGIN", "LOGIN"),
}


@pytest.mark.parametrize("cause", [*ANYWHERE, *OF_ROLES])
async def test_index_in_postgres(cause: str, postgres_server: Postgres, tmp_path: Path) -> None:
    """As in Redis."""
    await operator(postgres_server)
    async with proxy(str(postgres_server.folder / ".s.PGSQL.5432")) as wire:
        place = Place(postgres_server.server, wire)
        url = f"postgresql://postgres@127.0.0.1:{wire.port}/postgres?sslmode=disable"
        async with open_scene(tmp_path, **over(url)) as scene:
            own = OF_ROLES.get(cause)
            fault = role(postgres_server, *own) if own else ANYWHERE[cause](place)
            endured = await scene.endure(fault, "semantic", reworded=True)
            check(endured, opens=cause not in {*SERVES_ON, "statement timeout"})


async def operator(server: Postgres) -> None:
    """Make a user whom no fault shuts out."""
    import asyncpg

    link = await asyncpg.connect(server.url)
    if not await link.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'operator'"):
        await link.execute("CREATE ROLE operator SUPERUSER LOGIN")
    await link.close()


@pytest.fixture(scope="module")
def embedding_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, int]]:
    """An API of embeddings in a process of its own."""
    from urllib.request import urlopen

    port = free_port()

    def ready() -> bool:
        try:
            return bool(urlopen(f"http://127.0.0.1:{port}/ready", timeout=1).status == 200)
        except OSError:
            return False

    path = f"PYTHONPATH={ROOT / 'src'}"
    program = str(Path(__file__).with_name("embedding_api.py"))
    command = ["env", path, sys.executable, program, str(port)]
    folder = tmp_path_factory.mktemp("api")
    with running(command, folder, ready) as server:
        yield server, port


@pytest.mark.parametrize("cause", [*ANYWHERE, "no JSON"])
async def test_embedder(cause: str, embedding_server: tuple[Server, int], tmp_path: Path) -> None:
    """An API that fails costs the same, and nobody gets an answer by a wrong vector."""
    server, port = embedding_server
    no_json = babbling("no JSON")
    async with proxy(("127.0.0.1", port)) as wire:
        place = Place(server, wire, port)
        sections = over("local")
        del sections["embedder"]
        url = f"http://127.0.0.1:{wire.port}/v1"
        sections["semantic"] |= {"embedder": url, "model": "near", "dimension": 256}
        sections["semantic"]["memo_bytes"] = 1  # texts that are remembered need no embedder
        async with open_scene(tmp_path, **sections) as scene:
            fault = no_json(place) if cause == "no JSON" else ANYWHERE[cause](place)
            endured = await scene.endure(fault, "semantic", reworded=True)
            # What is known to be slow is shed without a try, so the breaker may stay closed.
            check(endured, opens=cause not in {*SERVES_ON, "100x slow"})
