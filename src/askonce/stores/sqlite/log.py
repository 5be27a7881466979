"""What logs in a SQLite file share: numbered rows of one kind, checked when they are read."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, TypeVar

import msgspec

from askonce.ports import Evidence, Revocation
from askonce.stores.sqlite.file import ADDED, Broken, Schema

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

R = TypeVar("R", Evidence, Revocation)

FOREVER = 1e18
"""When rows of a log end: their bound is one of bytes."""

_REMOVED = """CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
    UPDATE held SET entries = entries - 1, size = size - old.size, cost = cost - old.cost;
END"""
_NUMBERED = "INSERT INTO sqlite_sequence VALUES ('entry', ?)"

_encode = msgspec.msgpack.Encoder().encode


def log_schema(application_id: int, *, columns: str = "", indexes: Sequence[str] = ()) -> Schema:
    """Of a log with further columns; numbers begin at the file's epoch, past every file before."""
    table = f"""CREATE TABLE entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        {columns}
        size INTEGER NOT NULL,
        cost INTEGER NOT NULL,
        expires REAL NOT NULL,
        checksum INTEGER NOT NULL,
        value BLOB NOT NULL
    )"""
    tables = (table, *indexes, ADDED, _REMOVED)
    return Schema(application_id, version=1, tables=tables, seeds=(_NUMBERED,))


def row_of(record: Evidence | Revocation, row_bytes: int, **columns: object) -> dict[str, object]:
    """A record's row; row_bytes: what it costs in the file besides its value."""
    value = _encode(record)
    size = len(value)
    row = {"size": size, "cost": size + row_bytes, "expires": FOREVER}
    return {**row, **columns, "checksum": zlib.crc32(value), "value": value}


def insert(connection: sqlite3.Connection, row: dict[str, object]) -> int:
    """Append a row; returns its number."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    into = f"INSERT INTO entry ({names}) VALUES ({places})"  # noqa: S608 - columns of ours
    return connection.execute(into, tuple(row.values())).lastrowid or 0


def record_of(decoder: msgspec.msgpack.Decoder[R], row: tuple[int, int, bytes]) -> R:
    """Number, checksum and value as what was appended; raises Broken."""
    seq, checksum, value = row
    if zlib.crc32(value) != checksum:
        raise Broken("a record is not what was appended")
    try:
        return msgspec.structs.replace(decoder.decode(value), seq=seq)
    except msgspec.MsgspecError as error:
        raise Broken("a record is none") from error
