"""The file of a local index: SQLite, shared by processes, the truth that memory follows.

Sequence numbers and removals only grow and are committed in order, so a reader that remembers the
last of each misses nothing.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from askonce.ports import IndexedText
from askonce.units import Bytes, UnixTime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from askonce.ports import Vector

_VERSION = 0x4153_0002
"""Ours, of the second form: with tokens."""
_BUSY_SECONDS = 0.2
_GONE_KEPT = 50_000
_PURGED_AT_ONCE = 64
_KEYS_AT_ONCE = 500

_SCHEMA = """
CREATE TABLE embedders (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE items (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  embedder INTEGER NOT NULL,
  partition BLOB NOT NULL,
  key BLOB NOT NULL,
  text BLOB NOT NULL,
  vector BLOB NOT NULL,
  tokens BLOB NOT NULL,
  seal INTEGER NOT NULL,
  expires_at REAL NOT NULL
);
CREATE UNIQUE INDEX items_key ON items (key, embedder);
CREATE INDEX items_partition ON items (partition, embedder, seq);
CREATE INDEX items_expiry ON items (expires_at);
CREATE TABLE gone (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  embedder INTEGER NOT NULL,
  partition BLOB NOT NULL,
  seq INTEGER NOT NULL
);
CREATE INDEX gone_partition ON gone (partition, embedder, id);
CREATE TABLE totals (items INTEGER NOT NULL, forgotten INTEGER NOT NULL);
INSERT INTO totals VALUES (0, 0);
CREATE TRIGGER item_added AFTER INSERT ON items BEGIN
  UPDATE totals SET items = items + 1;
END;
CREATE TRIGGER item_removed AFTER DELETE ON items BEGIN
  UPDATE totals SET items = items - 1;
  INSERT INTO gone (embedder, partition, seq) VALUES (old.embedder, old.partition, old.seq);
END;
"""


class Unusable(Exception):
    """The file is not one of ours, or of another version."""


class Row(msgspec.Struct, frozen=True):
    """One item as found in the file."""

    seq: int
    item: IndexedText
    vector: bytes
    """float32, in the machine's order."""


class Added(msgspec.Struct, frozen=True):
    """What one insert did to the file."""

    expired: int
    evicted: int
    entries: int
    size: Bytes


class Rows:
    """One connection, bound to one embedder id; every method blocks and raises sqlite3.Error.

    One thread at a time.
    """

    def __init__(self, path: Path, *, embedder: str, dim: int) -> None:
        """Open or create the file; raises Unusable."""
        self._dim = dim
        _make_private(path)
        self._db = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare()
            self._embedder = self._embedder_number(embedder)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def version(self) -> int:
        """A number that moves when another connection has committed."""
        return self._number("PRAGMA data_version")

    def marks(self) -> tuple[int, int]:
        """The last removal and the last row so far, in an order that is safe to follow from."""
        gone = self._number("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'gone'")
        top = self._number("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'items'")
        return gone, top

    def gone_after(self, partition: bytes, mark: int) -> list[tuple[int, int]] | None:
        """Removals since the mark, as id and row; None when they are no longer known."""
        gone = self._db.execute(
            "SELECT id, seq FROM gone WHERE partition = ? AND embedder = ? AND id > ? ORDER BY id",
            (partition, self._embedder, mark),
        ).fetchall()
        forgotten = self._number("SELECT forgotten FROM totals")
        return None if forgotten > mark else gone

    def after(self, partition: bytes, top: int) -> tuple[list[int], NDArray[np.float32]]:
        """Rows past top, oldest first: numbers and vectors."""
        values = (partition, self._embedder, 4 * self._dim, top)
        return self._vectors("seq > ? ORDER BY seq", values)

    def before(
        self, partition: bytes, bottom: int, limit: int
    ) -> tuple[list[int], NDArray[np.float32]]:
        """Rows before bottom, newest first: numbers and vectors."""
        values = (partition, self._embedder, 4 * self._dim, bottom, limit)
        return self._vectors("seq < ? ORDER BY seq DESC LIMIT ?", values)

    def block(self, after: int, limit: int) -> tuple[list[int], NDArray[np.float32]]:
        """Rows of any partition past a number, oldest first: numbers and vectors."""
        found = self._db.execute(
            "SELECT seq, vector FROM items"
            " WHERE seq > ? AND embedder = ? AND length(vector) = ? ORDER BY seq LIMIT ?",
            (after, self._embedder, 4 * self._dim, limit),
        ).fetchall()
        return self._stacked(found)

    def fetch(self, seqs: Sequence[int]) -> list[Row]:
        """The rows that are there and whole, in no order."""
        marks = ",".join("?" * len(seqs))
        found = self._db.execute(
            "SELECT seq, CAST(partition AS BLOB), CAST(key AS BLOB), CAST(text AS BLOB),"  # noqa: S608 - only marks
            " CAST(vector AS BLOB), CAST(tokens AS BLOB), seal, CAST(expires_at AS REAL)"
            f" FROM items WHERE seq IN ({marks})",
            seqs,
        )
        return [
            Row(seq, _item(key, text, tokens, expires_at), vector)
            for seq, partition, key, text, vector, tokens, seal, expires_at in found
            if len(vector) == 4 * self._dim
            and seal == _seal(partition, key, text, vector, tokens, expires_at)
        ]

    def add(
        self, partition: bytes, item: IndexedText, vector: Vector, *, now: UnixTime, limit: int
    ) -> Added:
        """Insert or replace by key, drop some expired rows and the oldest past the limit."""
        text = item.text.encode("utf-8", "surrogatepass")
        blob = vector.tobytes()
        seal = _seal(partition, item.key, text, blob, item.tokens, item.expires_at)
        row = (
            self._embedder, partition, item.key, text, blob, item.tokens, seal, item.expires_at
        )  # fmt: skip
        with self._transaction():
            self._db.execute(
                "DELETE FROM items WHERE key = ? AND embedder = ?", (item.key, self._embedder)
            )
            self._db.execute(
                "INSERT INTO items"
                " (embedder, partition, key, text, vector, tokens, seal, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            expired = self._purge(now)
            evicted = self._evict(limit)
            self._forget()
        entries = self._number("SELECT items FROM totals")
        return Added(expired=expired, evicted=evicted, entries=entries, size=self._size())

    def delete(self, keys: Sequence[bytes], now: UnixTime) -> int:
        """Remove by key; returns how many live ones there were."""
        live = 0
        with self._transaction():
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                some = keys[start : start + _KEYS_AT_ONCE]
                where = f"embedder = ? AND key IN ({','.join('?' * len(some))})"
                live += self._remove(where, (self._embedder, *some), now)
        return live

    def clear(self, now: UnixTime) -> int:
        """Remove all rows of this embedder; returns how many were live."""
        with self._transaction():
            return self._remove("embedder = ?", (self._embedder,), now)

    def drop(self, partition: bytes, now: UnixTime) -> int:
        """Remove all rows of one partition; returns how many were live."""
        with self._transaction():
            where = "partition = ? AND embedder = ?"
            return self._remove(where, (partition, self._embedder), now)

    def count(self, now: UnixTime) -> int:
        """How many live rows of this embedder there are."""
        return self._number(
            "SELECT count(*) FROM items WHERE embedder = ? AND expires_at > ?", self._embedder, now
        )

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA journal_size_limit = 67108864")
        with self._transaction():
            version = self._number("PRAGMA user_version")
            if version == 0 and not self._number("SELECT count(*) FROM sqlite_schema"):
                self._create()
            elif version != _VERSION:
                raise Unusable(f"version {version}")

    def _create(self) -> None:
        statement = ""
        for line in _SCHEMA.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self._db.execute(statement)
                statement = ""
        self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def _embedder_number(self, name: str) -> int:
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO embedders (name) VALUES (?)", (name,))
        return self._number("SELECT id FROM embedders WHERE name = ?", name)

    def _vectors(
        self, rest: str, values: tuple[object, ...]
    ) -> tuple[list[int], NDArray[np.float32]]:
        found = self._db.execute(
            "SELECT seq, vector FROM items"  # noqa: S608 - constants
            f" WHERE partition = ? AND embedder = ? AND length(vector) = ? AND {rest}",
            values,
        ).fetchall()
        return self._stacked(found)

    def _stacked(self, found: list[tuple[int, bytes]]) -> tuple[list[int], NDArray[np.float32]]:
        joined = b"".join(blob for _, blob in found)
        vectors = np.frombuffer(joined, dtype=np.float32).reshape(len(found), self._dim)
        return [seq for seq, _ in found], vectors

    def _purge(self, now: UnixTime) -> int:
        return self._db.execute(
            "DELETE FROM items WHERE seq IN"
            " (SELECT seq FROM items WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
            (now, _PURGED_AT_ONCE),
        ).rowcount

    def _evict(self, limit: int) -> int:
        over = self._number("SELECT items FROM totals") - limit
        if over <= 0:
            return 0
        return self._db.execute(
            "DELETE FROM items WHERE seq IN (SELECT seq FROM items ORDER BY seq LIMIT ?)", (over,)
        ).rowcount

    def _forget(self) -> None:
        """Keep the log of removals short: who has not read that far reads its partition anew."""
        last, first = self._db.execute(
            "SELECT coalesce((SELECT max(id) FROM gone), 0),"
            " coalesce((SELECT min(id) FROM gone), 0)"
        ).fetchone()
        if last - first >= 2 * _GONE_KEPT:
            self._db.execute("DELETE FROM gone WHERE id <= ?", (last - _GONE_KEPT,))
            self._db.execute("UPDATE totals SET forgotten = ?", (last - _GONE_KEPT,))

    def _remove(self, where: str, values: tuple[object, ...], now: UnixTime) -> int:
        live = self._number(
            f"SELECT count(*) FROM items WHERE {where} AND expires_at > ?",  # noqa: S608 - only marks
            *values,
            now,
        )
        self._db.execute(f"DELETE FROM items WHERE {where}", values)  # noqa: S608 - only marks
        return live

    def _size(self) -> Bytes:
        pages = self._number("PRAGMA page_count") - self._number("PRAGMA freelist_count")
        return Bytes(pages * self._number("PRAGMA page_size"))

    def _number(self, sql: str, *values: object) -> int:
        (number,) = self._db.execute(sql, values).fetchone()
        return int(number)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def _make_private(path: Path) -> None:
    """Make the file for its owner alone; its logs take the same mode from it."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _item(key: bytes, text: bytes, tokens: bytes, expires_at: float) -> IndexedText:
    return IndexedText(key, text.decode("utf-8", "surrogatepass"), UnixTime(expires_at), tokens)


def _seal(*parts: bytes | float) -> int:
    """A checksum of the row, so that a damaged one is skipped."""
    packed = [part if isinstance(part, bytes) else struct.pack("<d", part) for part in parts]
    return zlib.crc32(b"".join(packed))
