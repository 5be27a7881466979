"""The file behind a SQLite store: opened, checked, and set aside when it cannot be used.

Several processes share it. Opening and setting aside happen under a lock file, and every thread
looks before each use whether the path still leads to the file it has open: after another process
has set a broken file aside, all move on to the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
import time
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import StoreError
from askonce.stores.sqlite.keys import Identity, path_beside, retire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from askonce.ports import Clock

_log = logging.getLogger(__name__)

APPLICATION_ID = 0x41736B31
SCHEMA_VERSION = 2
PAGE_BYTES = 8192
"""An answer of 2 kB wastes half of a 4 KiB page; 16 KiB cost more per write than they save."""

SLACK_BYTES = 16 * 1024 * 1024
"""Least room between where eviction begins and where the file ends."""

CHECKPOINT_BYTES = 4 * 1024 * 1024
BUSY_MS = 20
LEAST_PAGES = 64
OPEN_BUSY_SECONDS = 2.0

ADDED = """CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
    UPDATE held SET entries = entries + 1, size = size + new.size, cost = cost + new.cost;
END"""
"""Keeps `held` true as rows come."""

ENTRY_TABLES = (
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        size INTEGER NOT NULL,
        cost INTEGER NOT NULL,
        expires REAL NOT NULL,
        checksum INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        namespace TEXT NOT NULL,
        value BLOB NOT NULL
    )""",
    "CREATE INDEX entry_expires ON entry (expires)",
    "CREATE TABLE tag (tag BLOB, entry INTEGER, PRIMARY KEY (tag, entry)) WITHOUT ROWID",
    "CREATE INDEX tag_entry ON tag (entry)",
    "CREATE INDEX entry_tenant ON entry (tenant) WHERE tenant <> ''",
    """CREATE TABLE owner (
        tenant TEXT, namespace TEXT, entries INTEGER NOT NULL, size INTEGER NOT NULL,
        PRIMARY KEY (tenant, namespace)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER entry_owned AFTER INSERT ON entry WHEN new.tenant <> '' BEGIN
        INSERT INTO owner VALUES (new.tenant, new.namespace, 1, new.size)
        ON CONFLICT DO UPDATE SET entries = entries + 1, size = size + excluded.size;
    END""",
    """CREATE TRIGGER entry_disowned AFTER DELETE ON entry WHEN old.tenant <> '' BEGIN
        UPDATE owner SET entries = entries - 1, size = size - old.size
        WHERE tenant = old.tenant AND namespace = old.namespace;
        DELETE FROM owner WHERE tenant = old.tenant AND namespace = old.namespace AND entries = 0;
    END""",
    ADDED,
    """CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
        UPDATE held SET entries = entries - 1, size = size - old.size, cost = cost - old.cost;
        DELETE FROM tag WHERE entry = old.id;
    END""",
)
"""Ids grow with age, so the oldest entries lie together at the front of the table."""

HELD_TABLE = """CREATE TABLE held (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    entries INTEGER NOT NULL,
    size INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    epoch INTEGER NOT NULL
)"""


class Schema(msgspec.Struct, frozen=True):
    """What a file of one kind holds, besides `held`."""

    application_id: int
    version: int
    tables: tuple[str, ...]
    """Among them `entry`."""
    seeds: tuple[str, ...] = ()
    """Run once in a new file, each with its first epoch, which is past all earlier files'."""


ENTRIES = Schema(APPLICATION_ID, SCHEMA_VERSION, ENTRY_TABLES)

_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL})


class Broken(Exception):
    """The file is not, or no longer, a usable database."""


class Unusable(Exception):
    """The file is sound but of another schema version."""


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 0 when the driver itself complained."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


class StoreFile:
    """A path and what may stand there; holds no connection itself, and any thread may use it."""

    def __init__(
        self, path: Path, *, clock: Clock, file_bytes: int, schema: Schema = ENTRIES
    ) -> None:
        """file_bytes: where eviction keeps the file; SLACK_BYTES more fail as a full disk does."""
        self.path = path
        self.pages = max(file_bytes // PAGE_BYTES, LEAST_PAGES)
        """Pages in use at which eviction begins."""
        self.set_aside = 0
        """How many files this process has set aside."""
        self._clock = clock
        self._schema = schema
        self._max_pages = (file_bytes + SLACK_BYTES) // PAGE_BYTES
        self._last_epoch = 0

    def identity(self) -> Identity | None:
        """Which file the path leads to now."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def open(self) -> tuple[sqlite3.Connection, Identity]:
        """Open the file, made anew where it is missing, broken or of another version."""
        try:
            with self._alone():
                return self._open_or_replace()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open {self.path}: {error}") from error

    def retire(self, identity: Identity | None) -> None:
        """Set the broken file aside, unless another process already has."""
        try:
            with self._alone():
                if identity is not None and self.identity() == identity:
                    self._move_aside("corrupt")
        except OSError as error:
            raise StoreError(f"cannot set {self.path} aside: {error}") from error

    def drop(self, identity: Identity | None) -> None:
        """Delete the file, unless another process already has put one in its place."""
        try:
            with self._alone():
                if identity is not None and self.identity() == identity:
                    retire(path_beside(self.path))
                    self.path.unlink(missing_ok=True)
                    self._drop_logs()
                    _log.warning("%s had no room for too long: deleted", self.path)
        except OSError as error:
            raise StoreError(f"cannot delete {self.path}: {error}") from error

    def saw_epoch(self, epoch: int) -> None:
        """Remember an epoch, so that a file made anew starts past it."""
        self._last_epoch = max(self._last_epoch, epoch)

    def _open_or_replace(self) -> tuple[sqlite3.Connection, Identity]:
        try:
            return self._connect()
        except Broken:
            self._move_aside("corrupt")
        except Unusable:
            self._move_aside("version")
        return self._connect()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{self.path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            _lock_within(lock, OPEN_BUSY_SECONDS)
            yield
        finally:
            os.close(lock)

    def _connect(self) -> tuple[sqlite3.Connection, Identity]:
        # Only ever created here by O_EXCL: closing any other descriptor of a database file would
        # drop the POSIX locks that this process's connections hold on it.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._unlock_logs()
        identity = self.identity()
        connection = sqlite3.connect(
            self.path, timeout=OPEN_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except sqlite3.Error as error:
            connection.close()
            if primary_code(error) in _BROKEN or primary_code(error) == sqlite3.SQLITE_ERROR:
                raise Broken from error  # ours by its mark, but a table is missing
            raise
        except BaseException:
            connection.close()
            raise
        if identity is None:
            connection.close()
            raise OSError("the file vanished while it was opened")
        return connection, identity

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if _pragma(connection, "application_id") != self._schema.application_id:
            self._create(connection)
        if _pragma(connection, "user_version") != self._schema.version:
            raise Unusable
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_BYTES // PAGE_BYTES}")
        connection.execute(f"PRAGMA journal_size_limit = {SLACK_BYTES}").fetchone()
        connection.execute(f"PRAGMA max_page_count = {self._max_pages}").fetchone()
        row = connection.execute("SELECT epoch FROM held").fetchone()
        if row is None:
            raise Broken
        self.saw_epoch(row[0])
        connection.execute("SELECT id FROM entry LIMIT 1").fetchone()
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}").fetchone()

    def _create(self, connection: sqlite3.Connection) -> None:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(f"{self.path} is another program's database; it is left alone")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        epoch = max(int(self._clock.now() * 1_000_000), self._last_epoch + 1)
        connection.execute("BEGIN IMMEDIATE")
        for statement in (HELD_TABLE, *self._schema.tables):
            connection.execute(statement)
        for seed in ("INSERT INTO held VALUES (0, 0, 0, 0, ?)", *self._schema.seeds):
            connection.execute(seed, (epoch,))
        connection.execute(f"PRAGMA user_version = {self._schema.version}")
        connection.execute(f"PRAGMA application_id = {self._schema.application_id}")
        connection.execute("COMMIT")

    def _move_aside(self, why: str) -> None:
        """Rename the database to `<name>.<why>-N` and drop the one set aside before it.

        Its write-ahead log goes: it belongs to that file alone. Processes that still have the old
        file open do no harm, since SQLite touches no log by name once its database has moved.
        """
        earlier = sorted(self.path.parent.glob(f"{self.path.name}.{why}-*"))
        number = max((_number_of(path) for path in earlier), default=0) + 1
        retire(path_beside(self.path))
        aside = self.path.with_name(f"{self.path.name}.{why}-{number}")
        self.path.rename(aside)
        _log.warning("%s cannot be used: set aside as %s", self.path, aside.name)
        self._drop_logs()
        for path in earlier:
            path.unlink(missing_ok=True)
        self.set_aside += 1

    def _unlock_logs(self) -> None:
        """Make logs writable that were left from a time when the database was not."""
        if os.access(self.path, os.W_OK):
            for suffix in ("-wal", "-shm"):
                log = self.path.with_name(self.path.name + suffix)
                if log.exists() and not os.access(log, os.W_OK):
                    log.chmod(0o600)

    def _drop_logs(self) -> None:
        for suffix in ("-wal", "-shm", "-journal"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


class Session:
    """One thread's connection: opened when first used, and again when the file was replaced."""

    def __init__(self, file: StoreFile) -> None:
        """Open nothing yet."""
        self._file = file
        self._connection: sqlite3.Connection | None = None
        self.identity: Identity | None = None
        """The file that was opened last."""

    def connection(self) -> sqlite3.Connection:
        """The connection to the file that the path leads to now; raises StoreError."""
        if self._connection is not None and self._file.identity() == self.identity:
            return self._connection
        self.close()
        self._connection, self.identity = self._file.open()
        return self._connection

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def start_anew(self) -> None:
        """Give the file up, and with it the room that it takes."""
        self.close()
        self._file.drop(self.identity)

    def fault(self, error: sqlite3.Error | Broken) -> StoreError:
        """Do what the error asks for (wait, reopen, start anew) and give what to raise for it."""
        code = sqlite3.SQLITE_CORRUPT if isinstance(error, Broken) else primary_code(error)
        if code in _BROKEN:
            self.close()
            self._file.retire(self.identity)
        elif code not in _PASSING:
            self.close()
        return StoreError(f"{self._file.path}: {error}")


def _lock_within(descriptor: int, seconds: float) -> None:
    _within(seconds, lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))


def _within(seconds: float, attempt: Callable[[], None]) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(0.005)


def _number_of(path: Path) -> int:
    tail = path.name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else 0


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
