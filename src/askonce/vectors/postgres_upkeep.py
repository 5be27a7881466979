"""What a table in PostgreSQL needs now and then: dead and surplus rows out, graphs for crowds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from askonce.units import Seconds
from askonce.vectors.postgres_schema import halves, lock_of

if TYPE_CHECKING:
    from askonce.ports import Clock
    from askonce.vectors.tally import Tally

log = logging.getLogger(__name__)

GRAPH_FROM = 2_000
"""Vectors at which a partition's graph begins to beat a scan of it."""

EVERY_ADDS = 256
EVERY_SECONDS = Seconds(30.0)
_BUILD_SECONDS = 3600.0

_CROWDS = """SELECT partition FROM {table} GROUP BY partition HAVING count(*) >= $1"""
_GRAPHS = """SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass($1) AND relname LIKE $2"""


class Upkeep:
    """At most one round at a time, over all replicas: an advisory lock sees to it."""

    def __init__(
        self, table: str, *, dim: int, most: int, graph_from: int, clock: Clock, tally: Tally
    ) -> None:
        """Nothing runs before an add."""
        self._table = table
        self._dim = dim
        self._most = most
        self._graph_from = graph_from
        self._clock = clock
        self._tally = tally
        self._task: asyncio.Task[None] | None = None
        self._adds = 0
        self._last: Seconds | None = None

    def after_add(self, pool: Any) -> None:  # noqa: ANN401
        """Begin a round in the background when it is time."""
        self._adds += 1
        now = self._clock.monotonic()
        due = self._last is None or self._adds >= EVERY_ADDS or now - self._last >= EVERY_SECONDS
        if due and (self._task is None or self._task.done()):
            self._adds, self._last = 0, now
            self._task = asyncio.create_task(self._round(pool))

    async def settled(self) -> None:
        """Wait for the round under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Break off."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _round(self, pool: Any) -> None:  # noqa: ANN401
        """A fault ends it; a later add begins anew."""
        import asyncpg

        lock = lock_of(self._table)
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            async with pool.acquire(timeout=_BUILD_SECONDS) as connection:
                if await connection.fetchval(f"SELECT pg_try_advisory_lock({lock})"):
                    try:
                        await self._sweep(connection)
                        await self._graphs(connection)
                        # Without fresh figures the planner sorts a crowd and leaves its graph.
                        await connection.execute(f"ANALYZE {self._table} (partition, expires_at)")
                    except asyncio.CancelledError:
                        connection.terminate()
                        raise
                    finally:
                        if not connection.is_closed():
                            await connection.execute(f"SELECT pg_advisory_unlock({lock})")

    async def _sweep(self, connection: Any) -> None:  # noqa: ANN401
        dead = f"DELETE FROM {self._table} WHERE expires_at <= $1"  # noqa: S608
        self._tally.gone("expired", _affected(await connection.execute(dead, self._clock.now())))
        held = await connection.fetchval(f"SELECT count(*) FROM {self._table}")  # noqa: S608
        if held > self._most:
            surplus = (
                f"DELETE FROM {self._table} WHERE key IN"  # noqa: S608
                f" (SELECT key FROM {self._table} ORDER BY expires_at LIMIT $1)"
            )
            held -= self._tally.gone(
                "capacity", _affected(await connection.execute(surplus, held - self._most))
            )
        self._tally.held(held)

    async def _graphs(self, connection: Any) -> None:  # noqa: ANN401
        """Build what crowds lack, drop what has no crowd any more or was left half built."""
        crowds = await self._partitions(connection, self._graph_from)
        keep = await self._partitions(connection, self._graph_from // 4)
        there = await connection.fetch(_GRAPHS, self._table, f"{self._table}\\_g\\_%")
        whole = {name for name, valid in there if valid and name in keep}
        for name, _ in there:
            if name not in whole:
                await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        for name in crowds.keys() - whole:
            await connection.execute(
                f"CREATE INDEX CONCURRENTLY {name} ON {self._table}"
                f" USING hnsw ({halves(self._dim)} halfvec_ip_ops)"
                " WITH (m = 16, ef_construction = 128)"
                rf" WHERE partition = '\x{crowds[name].hex()}'::bytea",
                timeout=_BUILD_SECONDS,
            )
            log.info("built a graph for a partition of %s", self._table)

    async def _partitions(self, connection: Any, least: int) -> dict[str, bytes]:  # noqa: ANN401
        """Index name and partition of those that hold at least so many."""
        found = await connection.fetch(_CROWDS.format(table=self._table), max(least, 1))
        return {f"{self._table}_g_{one.hex()[:16]}": one for (one,) in found}


def _affected(status: str) -> int:
    """Rows of a command, from its tag: `DELETE 5`."""
    return int(status.rpartition(" ")[2])
