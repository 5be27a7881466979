"""PostgreSQL with pgvector: one table an embedder; large partitions have a graph of their own.

A graph over all partitions would be searched first and filtered after, and lose what a small
partition holds. Here a small partition is scanned whole, and a partial index holds a large one.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from askonce.errors import MissingExtra, VectorIndexError
from askonce.ports import IndexedText
from askonce.units import UnixTime
from askonce.vectors.binding import check_names, check_vector
from askonce.vectors.postgres_schema import Table, halves, speak_vectors
from askonce.vectors.postgres_upkeep import GRAPH_FROM, Upkeep
from askonce.vectors.ranking import ROUGHLY, SPARE, Row, above, packed, ranked, unpacked
from askonce.vectors.tally import Tally
from askonce.vectors.urls import Options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from askonce.ports import Clock, Neighbour, Sink, Vector
    from askonce.units import Cosine
    from askonce.vectors.binding import Binding

CONNECTIONS = 8
_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
"""Only bounds how long a dead connection is held: callers set shorter deadlines."""
_CLOSE_SECONDS = 2.0

_SETTINGS = {
    "application_name": "askonce",
    "hnsw.ef_search": "64",
    "hnsw.iterative_scan": "relaxed_order",
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",  # a partial index needs the partition in the plan
}


def open_postgres(url: str, *, binding: Binding, clock: Clock, sink: Sink) -> PostgresIndex:
    """`postgresql://user:password@host/database`, or `postgres://…`.

    `?connections=` bounds the pool; a partition gets a graph at `?graph_from=` vectors.
    """
    options = Options(url, ("connections", "graph_from"))
    return PostgresIndex(
        options.url,
        prefix=options.prefix,
        connections=options.number("connections", CONNECTIONS),
        graph_from=options.number("graph_from", GRAPH_FROM),
        binding=binding,
        clock=clock,
        sink=sink,
    )


class PostgresIndex:
    """A VectorIndex. Past the bound, the items whose life ends first leave."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        connections: int,
        graph_from: int,
        binding: Binding,
        clock: Clock,
        sink: Sink,
    ) -> None:
        """Connect to nothing yet; raises MissingExtra."""
        try:
            import asyncpg
        except ImportError as error:
            raise MissingExtra("asyncpg", "pgvector") from error
        self._driver: Any = asyncpg
        self._faults = (asyncpg.PostgresError, asyncpg.InterfaceError)
        self._gone = (
            asyncpg.UndefinedTableError,
            asyncpg.UndefinedColumnError,
            asyncpg.UndefinedObjectError,
            asyncpg.UndefinedFunctionError,
            asyncpg.DataError,  # a connection knows another type than the table has,
            asyncpg.InternalServerError,  # or looks for one that is gone
        )
        self._url = url
        self._connections = connections
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._binding = binding
        self._clock = clock
        name = binding.name(prefix)
        self._table = Table(name, prefix, dim=binding.dim, embedder=binding.embedder)
        self._sql = _Statements(name, binding.dim)
        self._tally = Tally(sink, binding.dim)
        self._upkeep = Upkeep(
            name,
            dim=binding.dim,
            most=binding.max_entries,
            graph_from=graph_from,
            clock=clock,
            tally=self._tally,
        )

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Insert or replace by item.key."""
        check_vector(vector, self._binding.dim)
        check_names(partition, item.key)
        text = packed(item.text)
        values = (item.key, partition, item.expires_at, text, item.tokens, vector.tobytes())
        await self._ask("execute", self._sql.add, *values)
        if self._pool is not None:
            self._upkeep.after_add(self._pool)

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """The k nearest live items by exact cosine."""
        check_vector(vector, self._binding.dim)
        self._tally.searches += 1
        values = (partition, self._clock.now(), vector.tobytes(), k + SPARE)
        return ranked(_rows(await self._ask("fetch", self._sql.search, *values)), vector, k)

    async def search_all(self, vector: Vector, *, floor: Cosine, limit: int) -> list[Neighbour]:
        """See `SupportsSearchAll`; compares every row."""
        check_vector(vector, self._binding.dim)
        values = (self._clock.now(), vector.tobytes(), -(floor - ROUGHLY), limit + SPARE)
        found = await self._ask("fetch", self._sql.search_all, *values)
        return above(_rows(found), vector, floor, limit)

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remove items by entry key in any partition; returns how many live ones there were."""
        return await self._removed(self._sql.delete, list(keys))

    async def drop_partition(self, partition: bytes) -> int:
        """Remove a partition's items; returns how many live ones there were."""
        return await self._removed(self._sql.drop, partition)

    async def clear(self) -> int:
        """Remove everything of this embedder; returns how many live items there were."""
        return await self._removed(self._sql.clear)

    async def count(self) -> int:
        """How many live items there are, over all partitions."""
        entries: int = await self._ask("fetchval", self._sql.count, self._clock.now())
        return entries

    async def settled(self) -> None:
        """Wait until the background has nothing to do."""
        await self._upkeep.settled()

    def statistics(self) -> dict[str, float]:
        """What this process has seen."""
        return self._tally.statistics()

    async def close(self) -> None:
        """Stop the background and drop all connections; idempotent."""
        self._closed = True
        await self._upkeep.close()
        async with self._opening:
            pool, self._pool = self._pool, None
            await self._part_with(pool)

    async def _removed(self, statement: str, *values: object) -> int:
        removed = await self._ask("fetchval", statement, self._clock.now(), *values)
        return self._tally.gone("cleared", removed)

    async def _ask(self, method: str, statement: str, *values: object) -> Any:  # noqa: ANN401
        """One statement; makes the table anew where it has gone."""
        with self._mapped():
            pool = self._pool or await self._open(None)
            with contextlib.suppress(*self._gone):
                return await self._once(pool, method, statement, *values)
            return await self._once(await self._open(pool), method, statement, *values)

    async def _once(self, pool: Any, method: str, statement: str, *values: object) -> Any:  # noqa: ANN401
        async with pool.acquire(timeout=_ANSWER_SECONDS) as connection:
            try:
                return await getattr(connection, method)(statement, *values)
            except asyncio.CancelledError:
                connection.terminate()  # else giving it back waits for the server to agree
                raise

    async def _open(self, worn: Any) -> Any:  # noqa: ANN401
        """A pool over a whole table, in place of one whose connections know another."""
        async with self._opening:
            if self._closed:
                raise VectorIndexError("the index is closed")
            if self._pool is worn:
                await self._create()
                self._pool = await self._driver.create_pool(
                    self._url,
                    min_size=0,
                    max_size=self._connections,
                    timeout=_CONNECT_SECONDS,
                    command_timeout=_ANSWER_SECONDS,
                    server_settings=_SETTINGS,
                    init=speak_vectors,
                    reset=_left_as_it_is,
                )
                await self._part_with(worn)
            return self._pool

    async def _part_with(self, pool: Any) -> None:  # noqa: ANN401
        if pool is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pool.close(), _CLOSE_SECONDS)
            pool.terminate()

    async def _create(self) -> None:
        connection = await self._driver.connect(
            self._url, timeout=_CONNECT_SECONDS, command_timeout=_ANSWER_SECONDS
        )
        try:
            await self._table.create(connection)
            await connection.close(timeout=_CLOSE_SECONDS)
        finally:
            connection.terminate()

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        if self._closed:
            raise VectorIndexError("the index is closed")
        try:
            yield
        except (
            self._driver.PostgresError,
            self._driver.InterfaceError,
            OSError,
            ValueError,
        ) as error:
            raise VectorIndexError(f"{type(error).__name__}: {error}") from error


async def _left_as_it_is(_connection: Any) -> None:  # noqa: ANN401
    """Between two calls nothing is to be reset: that would be another round trip."""


class _Statements:
    """All SQL of one table; its name is our own, so nothing is injected."""

    def __init__(self, table: str, dim: int) -> None:
        """Write them once."""
        near = f"{halves(dim)} <#> $3::vector::halfvec({dim})"
        columns = "key, partition, expires_at, text, tokens, vector"
        self.add = (
            f"INSERT INTO {table} ({columns}) VALUES ($1, $2, $3, $4, $5, $6)"  # noqa: S608
            " ON CONFLICT (key) DO UPDATE SET partition = excluded.partition,"
            " expires_at = excluded.expires_at, text = excluded.text,"
            " tokens = excluded.tokens, vector = excluded.vector"
        )
        self.search = (
            f"SELECT key, text, expires_at, tokens, vector FROM {table}"  # noqa: S608
            f" WHERE partition = $1 AND expires_at > $2 ORDER BY {near} LIMIT $4"
        )
        self.search_all = (
            f"SELECT key, text, expires_at, tokens, vector FROM {table}"  # noqa: S608
            " WHERE expires_at > $1 AND vector <#> $2 <= $3 ORDER BY vector <#> $2 LIMIT $4"
        )
        self.count = f"SELECT count(vector) FROM {table} WHERE expires_at > $1"  # noqa: S608
        self.delete = _counted(f"DELETE FROM {table} WHERE key = ANY($2::bytea[])")  # noqa: S608
        self.drop = _counted(f"DELETE FROM {table} WHERE partition = $2")  # noqa: S608
        self.clear = _counted(f"DELETE FROM {table}")  # noqa: S608


def _counted(statement: str) -> str:
    """A removal that tells how many were still alive at $1."""
    return (
        f"WITH gone AS ({statement} RETURNING expires_at)"  # noqa: S608
        " SELECT count(*) FROM gone WHERE expires_at > $1"
    )


def _rows(records: Sequence[Any]) -> Iterator[Row]:
    """Those whose text can be read."""
    for key, text, expires_at, tokens, vector in records:
        with contextlib.suppress(UnicodeDecodeError):
            yield Row(IndexedText(key, unpacked(text), UnixTime(expires_at), tokens), vector)
