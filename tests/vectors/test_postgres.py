"""pgvector in a real PostgreSQL: the promises, drops, graphs, bounds and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
import numpy as np
import pytest
from tests.servers.postgres import postgres
from tests.vectors.places import DIM, opens

from askonce.errors import ConfigError, VectorIndexError
from askonce.ports import SupportsPartitionDrop
from askonce.testing import FakeClock
from askonce.testing.shared_vectors import check_shared_index
from askonce.testing.vectors import HERE, THERE, Bench, check_vector_index, key_of
from askonce.vectors.postgres import PostgresIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres import Postgres

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One server for all tests of this file."""
    with postgres() as one:
        yield one


@pytest.fixture
def clock() -> FakeClock:
    """The clock of all indexes of a test."""
    return FakeClock()


async def told(server: Postgres, statement: str) -> Any:
    """What the server answers an operator."""
    connection = await asyncpg.connect(server.url)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


async def tables(server: Postgres) -> list[str]:
    """The tables of all embedders."""
    found = await told(server, "SELECT tablename FROM pg_tables WHERE tablename LIKE 'askonce%'")
    return [name for (name,) in found if name != "askonce_versions"]


async def test_keeps_every_promise(server: Postgres, clock: FakeClock, tmp_path: Path) -> None:
    """It is a VectorIndex."""
    assert issubclass(PostgresIndex, SupportsPartitionDrop)
    await check_vector_index(opens(server.url, clock, tmp_path), clock, dim=DIM)


@pytest.mark.parametrize("what", ["table", "ledger and table", "extension"])
async def test_replicas_share_it_and_mend_it(
    server: Postgres, clock: FakeClock, tmp_path: Path, what: str
) -> None:
    """Two clients agree, another embedder stays apart, and what was dropped is made anew."""

    async def drop() -> None:
        if what == "extension":
            await told(server, "DROP EXTENSION vector CASCADE")
            return
        for name in await tables(server):
            await told(server, f"DROP TABLE {name}")
        if what == "ledger and table":
            await told(server, "DROP TABLE askonce_versions")

    await check_shared_index(
        opens(server.url, clock, tmp_path),
        clock,
        dim=DIM,
        drop=drop,
        make_other=opens(server.url, clock, tmp_path, embedder="other"),
    )


async def test_a_crowd_gets_a_graph_and_loses_it(
    server: Postgres, clock: FakeClock, tmp_path: Path
) -> None:
    """A large partition is searched by its own graph, which goes when the crowd does."""
    make = opens(f"{server.url}&graph_from=300", clock, tmp_path, embedder="crowd")
    index = make()
    assert isinstance(index, PostgresIndex)
    bench = Bench(index, clock, DIM)
    rows = np.random.default_rng(1).standard_normal((600, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for number, row in enumerate(rows):
        await index.add(HERE, bench.item(str(number)), row)
    await bench.add("there", 1.0, partition=THERE)
    await index.settled()
    (name,) = [one for one in await tables(server) if await told(server, f"SELECT 1 FROM {one}")]
    graphs = f"SELECT indexname FROM pg_indexes WHERE indexname LIKE '{name}\\_g%'"
    assert len(await told(server, graphs)) == 1
    near = [await index.search(HERE, row, k=3) for row in rows[::6]]
    right = [found[0].item.key == key_of(str(6 * n)) for n, found in enumerate(near)]
    assert sum(right) >= 99
    assert await bench.names(1.0, partition=THERE) == ["there"]
    assert await index.drop_partition(HERE) == 600
    clock.advance(60)
    await bench.add("after", 1.0)
    await index.settled()
    assert await told(server, graphs) == []
    await index.clear()
    await index.close()


async def test_upkeep_takes_out_the_dead_and_the_surplus(
    server: Postgres, clock: FakeClock, tmp_path: Path
) -> None:
    """Rows do not stay past their life, nor past the bound; the longest lives stay."""
    make = opens(server.url, clock, tmp_path, embedder="bound", max_entries=3)
    index = make()
    assert isinstance(index, PostgresIndex)
    bench = Bench(index, clock, DIM)
    await bench.add("short", 1.0, life=5.0)
    for number in range(6):
        await bench.add(str(number), 1.0, number / 100, life=100.0 + number)
    await index.settled()
    clock.advance(60)
    await bench.add("last", 0.0, 1.0)
    await index.settled()
    (name,) = [one for one in await tables(server) if await told(server, f"SELECT 1 FROM {one}")]
    assert [*(await told(server, f"SELECT count(*) FROM {name}"))[0]] == [3]
    assert sorted(await bench.names(1.0)) == ["4", "5", "last"]
    await index.clear()
    await index.close()


async def test_a_table_of_a_newer_form_is_left_alone(
    server: Postgres, clock: FakeClock, tmp_path: Path
) -> None:
    """An older AskOnce beside a newer one does without the index."""
    make = opens(f"{server.url}&prefix=newer", clock, tmp_path)
    index = make()
    await Bench(index, clock, DIM).add("a", 1.0)
    await index.close()
    await told(server, "UPDATE newer_versions SET version = 99")
    index = make()
    with pytest.raises(VectorIndexError, match="newer AskOnce"):
        await index.count()
    await index.close()


async def test_a_server_that_goes_and_comes_back(clock: FakeClock, tmp_path: Path) -> None:
    """A dead server is a VectorIndexError; what it kept is found after its return."""
    with postgres() as one:
        index = opens(one.url, clock, tmp_path)()
        bench = Bench(index, clock, DIM)
        await bench.add("a", 1.0)
        one.server.kill()
        with pytest.raises(VectorIndexError):
            await bench.names(1.0)
        one.server.start()
        assert await bench.names(1.0) == ["a"]
        await index.close()


async def test_a_wrong_url_is_refused(clock: FakeClock, tmp_path: Path) -> None:
    """A mistake in the URL is a ConfigError."""
    with pytest.raises(ConfigError, match="graph_from"):
        opens("postgresql://h/d?graph_from=0", clock, tmp_path)()
