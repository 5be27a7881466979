"""Qdrant's REST calls over its embedded engine: the promises, drops, bounds and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from tests.vectors.places import DIM, opens
from tests.vectors.qdrant_server import qdrant

from askonce.errors import ConfigError, VectorIndexError
from askonce.ports import IndexedText, SupportsPartitionDrop
from askonce.testing import FakeClock
from askonce.testing.shared_vectors import check_shared_index
from askonce.testing.vectors import HERE, Bench, check_vector_index, key_of, unit
from askonce.units import UnixTime
from askonce.vectors.qdrant import QdrantIndex
from askonce.vectors.qdrant_wire import QdrantWire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.vectors.qdrant_server import Qdrant

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def clock() -> FakeClock:
    """The clock of all indexes of a test."""
    return FakeClock()


@pytest.fixture
async def server() -> AsyncIterator[Qdrant]:
    """A server for one test."""
    async with qdrant() as one:
        yield one


async def test_keeps_every_promise(server: Qdrant, clock: FakeClock, tmp_path: Path) -> None:
    """It is a VectorIndex."""
    assert issubclass(QdrantIndex, SupportsPartitionDrop)
    await check_vector_index(opens(server.url, clock, tmp_path), clock, dim=DIM)


async def test_replicas_share_it_and_mend_it(
    server: Qdrant, clock: FakeClock, tmp_path: Path
) -> None:
    """Two clients agree, another embedder stays apart, and what was dropped is made anew."""

    async def drop() -> None:
        server.drop_all()

    await check_shared_index(
        opens(server.url, clock, tmp_path),
        clock,
        dim=DIM,
        drop=drop,
        make_other=opens(server.url, clock, tmp_path, embedder="other"),
    )


async def test_the_first_to_die_leave_past_the_bound(
    server: Qdrant, clock: FakeClock, tmp_path: Path
) -> None:
    """Now and then the dead and the surplus are taken out; the longest lives stay."""
    index = opens(server.url, clock, tmp_path, max_entries=3)()
    bench = Bench(index, clock, DIM)
    await bench.add("short", 1.0, life=5.0)
    clock.advance(6.0)
    for number in range(256):
        await bench.add(str(number), 1.0, number / 100, life=100.0 + number)
    assert await index.count() == 3
    assert sorted(await bench.names(1.0)) == ["253", "254", "255"]
    await index.close()


async def test_an_api_key_is_sent(server: Qdrant, clock: FakeClock, tmp_path: Path) -> None:
    """The URL's password is the key; a wrong one is a VectorIndexError with the server's words."""
    server.api_key = "secret"
    place = server.url.removeprefix("qdrant://")
    index = opens(f"qdrant://:secret@{place}", clock, tmp_path)()
    assert await index.count() == 0
    await index.close()
    index = opens(server.url, clock, tmp_path)()
    with pytest.raises(VectorIndexError, match="401: Must provide"):
        await index.count()
    await index.close()


async def test_what_it_cannot_keep_is_refused(
    server: Qdrant, clock: FakeClock, tmp_path: Path
) -> None:
    """JSON has no lone surrogates."""
    index = opens(server.url, clock, tmp_path)()
    item = IndexedText(key_of("a"), "\ud800", UnixTime(clock.now() + 9))
    with pytest.raises(VectorIndexError):
        await index.add(HERE, item, unit(DIM, 1.0))
    assert await index.count() == 0
    await index.close()


@pytest.mark.parametrize(
    "said", ["", "nonsense", "[]", '{"result": null}', '{"result": {"points": [{"id": 1}]}}']
)
async def test_another_server_there_is_a_fault(clock: FakeClock, tmp_path: Path, said: str) -> None:
    """An answer that Qdrant does not give is a VectorIndexError."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=said)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    index = opens(f"qdrant://127.0.0.1:{runner.addresses[0][1]}", clock, tmp_path)()
    with pytest.raises(VectorIndexError):
        await index.search(HERE, unit(DIM, 1.0), k=1)
    await index.close()
    await runner.cleanup()


async def test_a_server_that_is_not_there(clock: FakeClock, tmp_path: Path) -> None:
    """No connection is a VectorIndexError."""
    index = opens("qdrant://127.0.0.1:9", clock, tmp_path)()
    with pytest.raises(VectorIndexError):
        await index.count()
    await index.close()


@pytest.mark.parametrize("url", ["qdrant:host", "qdrants://", "qdrant://h?connections=x"])
async def test_a_wrong_url_is_refused(clock: FakeClock, tmp_path: Path, url: str) -> None:
    """A mistake in the URL is a ConfigError, before anything connects."""
    with pytest.raises(ConfigError):
        opens(url, clock, tmp_path)()


async def test_no_server_leads_to_another_one() -> None:
    """The key is for the configured one alone."""
    shown: list[str | None] = []

    async def elsewhere(request: web.Request) -> web.Response:
        shown.append(request.headers.get("api-key"))
        return web.json_response({"result": {"count": 7}})

    async def leads(_: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("/other")

    app = web.Application()
    app.router.add_post("/other", elsewhere)
    app.router.add_post("/c/points/count", leads)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/c"
    wire = QdrantWire(url, api_key="s3cret", connections=1, settings={}, indexes=())
    with pytest.raises(VectorIndexError):
        await wire.ask("POST", "points/count", {}, dict)
    await wire.close()
    await runner.cleanup()
    assert shown == []
