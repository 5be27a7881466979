"""Logs of what was taken back: in memory for one process, in a SQLite file for those of a host."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from askonce.errors import StoreError
from askonce.ports import Revocation, RevocationPage
from askonce.stores.sqlite_file import Broken, Schema
from askonce.stores.sqlite_shared import SqliteShared

if TYPE_CHECKING:
    import sqlite3

    from askonce.events import Part
    from askonce.ports import Clock, Sink

MAX_BYTES = 64 * 1024 * 1024
"""Some 300,000 rules; when the oldest leave, what is as old is taken back with them."""
ROW_BYTES = 64
FOREVER = 1e18

SCHEMA = Schema(
    application_id=0x41736B72,
    version=1,
    tables=(
        """CREATE TABLE entry (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            size INTEGER NOT NULL,
            cost INTEGER NOT NULL,
            expires REAL NOT NULL,
            checksum INTEGER NOT NULL,
            value BLOB NOT NULL
        )""",
        """CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
            UPDATE held SET entries = entries + 1, size = size + new.size, cost = cost + new.cost;
        END""",
        """CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
            UPDATE held SET entries = entries - 1, size = size - old.size, cost = cost - old.cost;
        END""",
    ),
    seeds=("INSERT INTO sqlite_sequence VALUES ('entry', ?)",),
)
"""Numbers begin at the file's first epoch, so that they grow past every file before it."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Revocation).decode


class MemoryRevocations:
    """A `RevocationLog` of one process: what was stored before it began is dead to it."""

    def __init__(self, *, clock: Clock) -> None:
        """Begin past every log before this one."""
        self._birth = int(clock.now() * 1_000_000)
        self._rules: list[Revocation] = []
        self._closed = False

    async def append(self, rule: Revocation) -> int:
        """See `RevocationLog`."""
        self._check_open()
        seq = self._birth + len(self._rules) + 1
        self._rules.append(msgspec.structs.replace(rule, seq=seq))
        return seq

    async def read(self, after: int, limit: int) -> RevocationPage:
        """See `RevocationLog`."""
        self._check_open()
        first = max(after - self._birth, 0)
        rules = tuple(self._rules[first : first + limit])
        return RevocationPage(self._birth, self._birth + len(self._rules), rules)

    async def close(self) -> None:
        """See `RevocationLog`."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the revocation log is closed")


class SqliteRevocations(SqliteShared):
    """A `RevocationLog` in a file; create it inside a running event loop.

    A file that is broken is set aside and a new one takes its place; the call that found it raises
    StoreError. A locked database raises StoreError after 20 ms.
    """

    part: Part = "revocations"
    schema = SCHEMA

    async def append(self, rule: Revocation) -> int:
        """See `RevocationLog`."""
        value = _encode(rule)
        row = len(value), len(value) + ROW_BYTES, FOREVER, zlib.crc32(value), value

        def job(connection: sqlite3.Connection) -> int:
            cursor = connection.execute(
                "INSERT INTO entry (size, cost, expires, checksum, value) VALUES (?, ?, ?, ?, ?)",
                row,
            )
            seq = cursor.lastrowid or 0
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
    return RevocationPage(last if first is None else first - 1, last, tuple(map(_rule, rows)))


def _rule(row: tuple[int, int, bytes]) -> Revocation:
    seq, checksum, value = row
    if zlib.crc32(value) != checksum:
        raise Broken("a rule is not what was appended")
    try:
        return msgspec.structs.replace(_decode(value), seq=seq)
    except msgspec.MsgspecError as error:
        raise Broken("a rule is none") from error


def open_memory_revocations(
    url: str,  # noqa: ARG001 - every opener has the same face
    *,
    clock: Clock,
    sink: Sink,  # noqa: ARG001
    data_dir: Path,  # noqa: ARG001
) -> MemoryRevocations:
    """A log for one process."""
    return MemoryRevocations(clock=clock)


def open_sqlite_revocations(
    url: str, *, clock: Clock, sink: Sink, data_dir: Path
) -> SqliteRevocations:
    """A log beside the store's file, or in data_dir."""
    named = Path(unquote(urlsplit(url).path))
    beside = named.parent if named.is_absolute() else data_dir
    path = beside / "revocations.sqlite3"
    return SqliteRevocations(path, clock=clock, sink=sink, max_bytes=MAX_BYTES)
