"""What an exact store that fails costs a request: its deadline while that is noticed, then nothing.

Bounds are wider than the promise, since other work may share the machine; `python -m bench faults`
measures the promise itself.
"""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.faults.causes import (
    ANYWHERE,
    IN_REDIS,
    PASSWORD,
    USER,
    Place,
    in_redis,
)
from tests.faults.proxy import proxy
from tests.faults.scene import Endured, keeps_to, open_scene
from tests.servers.memcached import Memcached, memcached
from tests.servers.redis import Redis, redis

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Causes = Callable[[Place], AbstractAsyncContextManager[None]]

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

DEADLINE = 0.005
FLIGHT_DEADLINE = 0.050
"""Of joining another replica's call, where the store can tell of them."""
MARGIN = 0.060
"""Seconds by which a busy machine may miss a bound."""
OPEN = 0.002
"""Seconds that the median request may cost once a breaker is open; the promise is 0.0002."""
SERVES_ON = {"out of memory", "read-only replica", "flapping"}
"""Causes that do not stop reading, or not for long: no breaker of the store need open."""


def check(endured: Endured, *, opens: bool) -> None:
    """Within the bounds; that every answer was right is checked at each."""
    assert keeps_to(endured.noticing, DEADLINE + FLIGHT_DEADLINE + MARGIN), endured.noticing.added
    if opens:
        assert endured.opened
        assert endured.later.median <= OPEN


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """One for all its faults."""
    with redis("redis7", tmp_path_factory.mktemp("r")) as server:
        yield server


@pytest.fixture(scope="module")
def memcached_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memcached]:
    """One for all its faults; small, and it evicts nothing."""
    with memcached(tmp_path_factory.mktemp("m"), arguments=("-M", "-m", "2")) as server:
        yield server


def over(store: str) -> dict[str, Any]:
    """Sections for a store whose every hit is its own."""
    exact = {"store": store, "memory_bytes": 0, "deadline": DEADLINE}
    return {"exact": exact, "breaker": {"cooldown": 0.5}}


@pytest.mark.parametrize("cause", IN_REDIS)
async def test_redis(
    cause: str,
    redis_server: Redis,
    tmp_path: Path,
) -> None:
    """No request fails or is answered wrongly, and the store is used again by itself."""
    async with proxy(("127.0.0.1", redis_server.port)) as wire:
        place = in_redis(redis_server.server, wire, redis_server.port)
        url = f"redis://{USER}:{PASSWORD}@127.0.0.1:{wire.port}/0"
        async with open_scene(tmp_path, **over(url)) as scene:
            endured = await scene.endure(IN_REDIS[cause](place), "store")
            check(endured, opens=cause not in SERVES_ON)


@pytest.mark.parametrize("cause", [*ANYWHERE, "full"])
async def test_memcached(
    cause: str,
    memcached_server: Memcached,
    tmp_path: Path,
) -> None:
    """As with Redis; what is full is emptied by a restart."""
    async with proxy(("127.0.0.1", memcached_server.port)) as wire:
        place = Place(memcached_server.server, wire, memcached_server.port)
        async with open_scene(tmp_path, **over(f"memcached://127.0.0.1:{wire.port}")) as scene:
            causes: dict[str, Causes] = {**ANYWHERE, "full": overfull}
            opens = cause not in {*SERVES_ON, "full"}
            check(await scene.endure(causes[cause](place), "store"), opens=opens)


@asynccontextmanager
async def overfull(place: Place) -> AsyncIterator[None]:
    """Values until none is taken any more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
    for size in (*(500_000,) * 8, *(20_000,) * 200, *(300,) * 4000):
        writer.write(b"set fill-%d-%d 0 0 %d\r\n%s\r\n" % (size, id(writer), size, bytes(size)))
        await reader.readuntil(b"\r\n")
    for number in range(4000):
        writer.write(b"set more-%d 0 0 900\r\n%s\r\n" % (number, bytes(900)))
        if b"memory" in await reader.readuntil(b"\r\n"):
            break
    else:
        pytest.fail("the server does not get full")
    writer.close()
    yield
    async with ANYWHERE["killed"](place):
        pass


@asynccontextmanager
async def no_room(_folder: Path) -> AsyncIterator[None]:
    """No file of this process may be written past its first pages, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[None]:
    """Another process holds the file for itself."""
    (file,) = (path for path in folder.rglob("*.sqlite3") if "exact" in path.name)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        other.close()


@pytest.mark.parametrize("cause", [no_room, locked])
async def test_sqlite(
    cause: Callable[[Path], AbstractAsyncContextManager[None]],
    tmp_path: Path,
) -> None:
    """What is there is served on, or not; no request fails, and new answers are stored again."""
    async with open_scene(tmp_path, **over("sqlite")) as scene:
        check(await scene.endure(cause(tmp_path / "with"), "store"), opens=False)
