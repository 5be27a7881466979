"""The table of one embedder in PostgreSQL: made, brought to the present form, and mended."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from askonce.errors import VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Sequence

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """CREATE TABLE {table} (
          key bytea PRIMARY KEY,
          partition bytea NOT NULL,
          expires_at double precision NOT NULL,
          text bytea NOT NULL,
          tokens bytea NOT NULL,
          vector {schema}.vector({dim}) NOT NULL
        )""",
        # Beside a long text a vector would be moved out of its row, and each search would fetch it.
        "ALTER TABLE {table} ALTER COLUMN vector SET STORAGE PLAIN",
        "CREATE INDEX {table}_partition ON {table} (partition)",
        "CREATE INDEX {table}_expires_at ON {table} (expires_at)",
    ),
)
"""Statements that lead from each version to the next; only ever appended to."""

_LEDGER = """CREATE TABLE IF NOT EXISTS {ledger} (
  name text PRIMARY KEY, version integer NOT NULL, embedder text NOT NULL
)"""
_WHOLE = """SELECT EXISTS (
  SELECT FROM pg_attribute
  WHERE attrelid = to_regclass($1) AND attname = 'vector' AND NOT attisdropped
)"""
_SCHEMA = """SELECT nspname FROM pg_extension
JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'"""


def lock_of(name: str) -> str:
    """SQL for the number of the advisory lock of that name."""
    return f"hashtextextended('{name}', 0)"


def halves(dim: int) -> str:
    """SQL for a row's vector in half precision: quicker to rank by, in half the memory."""
    return f"(vector::halfvec({dim}))"


class Table:
    """Names, and what makes them true."""

    def __init__(self, name: str, prefix: str, *, dim: int, embedder: str) -> None:
        """Touch nothing yet."""
        self.name = name
        self._ledger = f"{prefix}_versions"
        self._dim = dim
        self._embedder = embedder

    async def create(self, connection: Any) -> None:  # noqa: ANN401 - the driver ships no types
        """Bring the table into its present form, one client at a time; raises VectorIndexError."""
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({lock_of(self._ledger)})")
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            await connection.execute(_LEDGER.format(ledger=self._ledger))
            await self._migrate(connection, await self._version(connection))

    async def _version(self, connection: Any) -> int:  # noqa: ANN401
        """Of the table; 0 where there is none, or what is left has lost its vectors."""
        if not await connection.fetchval(_WHOLE, self.name):
            await connection.execute(f"DROP TABLE IF EXISTS {self.name}")
            return 0
        known = f"SELECT version FROM {self._ledger} WHERE name = $1"  # noqa: S608
        return await connection.fetchval(known, self.name) or 0

    async def _migrate(self, connection: Any, version: int) -> None:  # noqa: ANN401
        if version > len(MIGRATIONS):
            raise VectorIndexError(f"{self.name} was made by a newer AskOnce (form {version})")
        schema = await connection.fetchval(_SCHEMA)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                await connection.execute(
                    statement.format(table=self.name, dim=self._dim, schema=f'"{schema}"')
                )
        await connection.execute(
            f"INSERT INTO {self._ledger} VALUES ($1, $2, $3)"  # noqa: S608 - our own names
            " ON CONFLICT (name) DO UPDATE SET version = excluded.version",
            self.name,
            len(MIGRATIONS),
            self._embedder,
        )


async def speak_vectors(connection: Any) -> None:  # noqa: ANN401
    """Teach a connection the binary form of vectors."""
    schema = await connection.fetchval(_SCHEMA)
    if schema is not None:
        await connection.set_type_codec(
            "vector", schema=schema, encoder=_encoded, decoder=_decoded, format="binary"
        )


def _encoded(vector: bytes) -> bytes:
    rows = np.frombuffer(vector, np.float32)
    return struct.pack(">HH", len(rows), 0) + rows.astype(">f4").tobytes()


def _decoded(wire: bytes) -> bytes:
    return np.frombuffer(wire, ">f4", offset=4).astype(np.float32).tobytes()
