"""The log of what was taken back: one SQLite file, shared by the processes of a host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from askonce.ports import Revocation, RevocationPage
from askonce.stores.sqlite.log import insert, log_schema, record_of, row_of
from askonce.stores.sqlite.shared import SqliteShared

if TYPE_CHECKING:
    import sqlite3

    from askonce.events import Part
    from askonce.ports import Clock, Sink

MAX_BYTES = 64 * 1024 * 1024
"""Some 300,000 rules; when the oldest leave, what is as old is taken back with them."""
ROW_BYTES = 64
SCHEMA = log_schema(0x41736B72)

_decoder = msgspec.msgpack.Decoder(Revocation)


class SqliteRevocations(SqliteShared):
    """A `RevocationLog` in a file; create it inside a running event loop.

    A file that is broken is set aside and a new one takes its place; the call that found it raises
    StoreError. A locked database raises StoreError after 20 ms.
    """

    part: Part = "revocations"
    schema = SCHEMA

    async def append(self, rule: Revocation) -> int:
        """See `RevocationLog`."""
        row = row_of(rule, ROW_BYTES)

        def job(connection: sqlite3.Connection) -> int:
            seq = insert(connection, row)
            self._file.saw_epoch(seq)
            return seq

        return await self._write(job)

    async def read(self, after: int, limit: int) -> RevocationPage:
        """See `RevocationLog`."""

        def job(connection: sqlite3.Connection) -> RevocationPage:
            connection.execute("BEGIN")
            try:
                return _page(connection, after, limit)
            finally:
                connection.execute("COMMIT")

        page = await self._read(job)
        self._file.saw_epoch(page.last)
        return page


def _page(connection: sqlite3.Connection, after: int, limit: int) -> RevocationPage:
    (last,) = connection.execute("SELECT seq FROM sqlite_sequence").fetchone()
    (first,) = connection.execute("SELECT min(id) FROM entry").fetchone()
    rows = connection.execute(
        "SELECT id, checksum, value FROM entry WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
    )
    rules = tuple(record_of(_decoder, row) for row in rows)
    return RevocationPage(last if first is None else first - 1, last, rules)


def open_sqlite_revocations(
    url: str, *, clock: Clock, sink: Sink, data_dir: Path
) -> SqliteRevocations:
    """A log beside the store's file, or in data_dir."""
    named = Path(unquote(urlsplit(url).path))
    beside = named.parent if named.is_absolute() else data_dir
    path = beside / "revocations.sqlite3"
    return SqliteRevocations(path, clock=clock, sink=sink, max_bytes=MAX_BYTES)
