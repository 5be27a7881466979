"""What a SQLite store's writing thread does: many jobs in one transaction, and room for them.

`Writes` keeps any `entry` table within bounds that has the columns id, size, cost and expires.
All jobs of a batch succeed together or fail together, and none is answered before the commit.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from typing import TYPE_CHECKING, TypeVar

import msgspec

from askonce.errors import StoreError
from askonce.events import Evicted, HeldBytes
from askonce.ports import Owned, Owner
from askonce.stores.sqlite.file import ENTRY_TABLES, PAGE_BYTES, Broken, primary_code
from askonce.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from askonce.events import Event, Part
    from askonce.ports import Clock, Put
    from askonce.stores.sqlite.file import Session
    from askonce.stores.sqlite.keys import KeyRecord

T = TypeVar("T")

NOBODY = Owner("")
"""Who is not counted."""

ROW_BYTES = 160
"""What a row costs in the file besides its value: key, two index slots, half-filled pages."""

STEP_ROWS = 64
"""Entries that one eviction step looks at."""

LEAST_SHRINK = 1024 * 1024
"""Bytes over the bound that one transaction takes away, if it put less itself."""

STUCK_SECONDS = 60.0
"""How long no write may find room before the file is given up: where the log has no room either,
not even an eviction can be written, and nothing else would ever heal it."""

SLACK_PAGES = 512
"""Free pages that the file keeps for coming entries before it shrinks."""


_INSERT = (
    "INSERT INTO entry (key, size, cost, expires, checksum, tenant, namespace, value)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def checksum(key: bytes, value: bytes) -> int:
    """Binds a value to its key: SQLite does not notice bytes that rot inside a page."""
    return zlib.crc32(value, zlib.crc32(key))


def put(connection: sqlite3.Connection, entry: Put, expires: float, tags: Sequence[bytes]) -> None:
    """Replace the entry; only one that is in the way is looked for, since that is rare."""
    value, owner = entry.value, entry.owner or NOBODY
    measured = len(value), cost_of(value, tags), expires, checksum(entry.key, value)
    row = (entry.key, *measured, owner.tenant, owner.namespace, value)
    try:
        cursor = connection.execute(_INSERT, row)
    except sqlite3.IntegrityError:
        forget(connection, entry.key)
        cursor = connection.execute(_INSERT, row)
    for tag in tags:
        connection.execute("INSERT OR IGNORE INTO tag VALUES (?, ?)", (tag, cursor.lastrowid))


def forget(connection: sqlite3.Connection, key: bytes) -> None:
    """Remove what a put replaces; unlike `delete` it does not move the epoch."""
    connection.execute("DELETE FROM entry WHERE key = ?", (key,))


def keep_share(connection: sqlite3.Connection, tenant: str, share: int) -> int:
    """Let the tenant's oldest entries leave while it has more than its share; returns how many."""
    query = "SELECT coalesce(sum(size), 0) FROM owner WHERE tenant = ?"
    excess = _count(connection, query, tenant) - share
    if excess <= 0:
        return 0
    rows = connection.execute(
        "SELECT id, size FROM entry WHERE tenant = ? AND tenant <> '' ORDER BY id", (tenant,)
    )
    leaving: list[tuple[int]] = []
    for number, size in rows:
        if excess <= 0:
            break
        leaving.append((number,))
        excess -= size
    rows.close()
    connection.executemany("DELETE FROM entry WHERE id = ?", leaving)
    return len(leaving)


def owned(connection: sqlite3.Connection, limit: int) -> list[Owned]:
    """Owners with most bytes first, what expired and was not yet removed included."""
    rows = connection.execute(
        "SELECT tenant, namespace, entries, size FROM owner ORDER BY size DESC LIMIT ?", (limit,)
    )
    return [Owned(Owner(row[0], row[1]), row[2], Bytes(row[3])) for row in rows]


def cost_of(value: bytes, tags: Sequence[bytes]) -> int:
    """Bytes that an entry takes in the file, about."""
    return len(value) + ROW_BYTES + sum(2 * len(tag) + 32 for tag in tags)


def delete(connection: sqlite3.Connection, key: bytes, now: float) -> int:
    """Remove one entry; returns how many live ones there were."""
    live = _count(connection, "SELECT count(*) FROM entry WHERE key = ? AND expires > ?", key, now)
    forget(connection, key)
    _move_epoch(connection)
    return live


def delete_tag(connection: sqlite3.Connection, tag: bytes, now: float) -> int:
    """Remove the entries of a tag; returns how many were live."""
    live = _count(
        connection,
        "SELECT count(*) FROM tag JOIN entry ON entry.id = tag.entry WHERE tag = ? AND expires > ?",
        tag,
        now,
    )
    connection.execute(
        "DELETE FROM entry WHERE id IN (SELECT entry FROM tag WHERE tag = ?)", (tag,)
    )
    _move_epoch(connection)
    return live


def clear(connection: sqlite3.Connection, now: float) -> int:
    """Remove everything by making the tables anew; returns how many entries were live."""
    live = _count(connection, "SELECT count(*) FROM entry WHERE expires > ?", now)
    connection.execute("DROP TABLE entry")
    connection.execute("DROP TABLE tag")
    connection.execute("DROP TABLE owner")
    for statement in ENTRY_TABLES:
        connection.execute(statement)
    connection.execute("UPDATE held SET entries = 0, size = 0, cost = 0")
    _move_epoch(connection)
    return live


class Bounds(msgspec.Struct, frozen=True):
    """Past either, the oldest entries leave."""

    entries: int
    """Bytes that entries cost."""
    pages: int
    """Pages of the file that are in use; reached first by sizes that fill pages badly."""
    patience: float = STUCK_SECONDS
    """Seconds without room after which the file is deleted."""

    def excess(self, connection: sqlite3.Connection) -> int:
        """Bytes to take away, at most; 0 or less is none."""
        pages = _count(connection, "PRAGMA page_count") - self.pages
        if pages > 0:
            pages -= _count(connection, "PRAGMA freelist_count")
        return max(_held(connection)[2] - self.entries, pages * PAGE_BYTES)


class Writes:
    """The transactions of one thread; `batch` goes around `run`s."""

    def __init__(
        self,
        session: Session,
        *,
        clock: Clock,
        bounds: Bounds,
        keys: KeyRecord | None = None,
        report: Callable[[Sequence[Event]], None],
        part: Part = "store",
    ) -> None:
        """report: called in this thread after a commit, with what happened in it."""
        self._part = part
        self._session = session
        self._keys = keys
        self._clock = clock
        self._bounds = bounds
        self._report = report
        self._begun: sqlite3.Connection | None = None
        self._cost_before = 0
        self._failure: str | None = None
        self._full_since: float | None = None

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Keep all that is run inside, or nothing: then StoreError is raised at the end."""
        self._failure = None
        yield
        connection, self._begun = self._begun, None
        if connection is not None:
            self._keep(connection)
        self._raise_failure()

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do one job in the batch's transaction, which the first job begins."""
        self._raise_failure()
        try:
            return work(self._begun or self._begin())
        except (sqlite3.Error, Broken) as error:
            raise self._fail(error) from error
        except StoreError as error:
            self._failure = str(error)
            raise

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise StoreError(self._failure)

    def _begin(self) -> sqlite3.Connection:
        connection = self._session.connection()
        connection.execute("BEGIN IMMEDIATE")
        self._cost_before = _held(connection)[2]
        self._begun = connection
        try:
            if self._keys is not None:
                self._keys.begin(connection, self._session.identity)
        except OSError as error:
            raise StoreError(f"the map of keys: {error}") from error
        return connection

    def _keep(self, connection: sqlite3.Connection) -> None:
        try:
            events = self._tidy(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._begun = connection
            self._fail(error)
        else:
            self._full_since = None
            self._report(events)

    def _fail(self, error: sqlite3.Error | Broken) -> StoreError:
        connection, self._begun = self._begun, None
        if connection is not None:
            _roll_back(connection)
            if isinstance(error, sqlite3.Error) and primary_code(error) == sqlite3.SQLITE_FULL:
                self._make_room(connection)
        fault = self._session.fault(error)
        self._failure = str(fault)
        return fault

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Give up a share of the entries for the next put, or the file if that never helps."""
        now = self._clock.monotonic()
        if self._full_since is None:
            self._full_since = now
        if now - self._full_since < self._bounds.patience:
            self._relieve(connection)
        else:
            self._full_since = None
            self._session.start_anew()

    def _relieve(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            connection.execute("BEGIN IMMEDIATE")
            share = max(_held(connection)[2] // 16, LEAST_SHRINK)
            evicted = _drop_oldest(connection, share)
            connection.execute("COMMIT")
        except sqlite3.Error:
            _roll_back(connection)
        else:
            self._report([Evicted(part=self._part, cause="capacity", entries=evicted)])

    def _tidy(self, connection: sqlite3.Connection) -> list[Event]:
        expired = _drop_expired(connection, self._clock.now())
        excess = self._bounds.excess(connection)
        added = _held(connection)[2] - self._cost_before
        evicted = _drop_oldest(connection, min(excess, max(2 * added, LEAST_SHRINK)))
        _shrink_file(connection)
        entries, size, _ = _held(connection)
        events: list[Event] = [HeldBytes(part=self._part, size=Bytes(size), entries=entries)]
        if expired:
            events.append(Evicted(part=self._part, cause="expired", entries=expired))
        if evicted:
            events.append(Evicted(part=self._part, cause="capacity", entries=evicted))
        return events


def _drop_expired(connection: sqlite3.Connection, now: float) -> int:
    return connection.execute(
        "DELETE FROM entry WHERE id IN"
        " (SELECT id FROM entry WHERE expires <= ? ORDER BY expires LIMIT ?)",
        (now, STEP_ROWS),
    ).rowcount


def _drop_oldest(connection: sqlite3.Connection, excess: int) -> int:
    dropped = 0
    while excess > 0:
        rows = connection.execute(
            "SELECT id, cost FROM entry ORDER BY id LIMIT ?", (STEP_ROWS,)
        ).fetchall()
        if not rows:
            break
        leaving = 0
        while leaving < len(rows) and excess > 0:
            excess -= rows[leaving][1]
            leaving += 1
        last = rows[leaving - 1][0]
        dropped += connection.execute("DELETE FROM entry WHERE id <= ?", (last,)).rowcount
    return dropped


def _shrink_file(connection: sqlite3.Connection) -> None:
    """Give a step of free pages back to the file system, past a reserve for coming entries."""
    spare = _count(connection, "PRAGMA freelist_count") - SLACK_PAGES
    for _ in range(min(spare, LEAST_SHRINK // PAGE_BYTES)):
        connection.execute("PRAGMA incremental_vacuum(1)")  # the driver steps it once, whatever N


def _move_epoch(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE held SET epoch = epoch + 1")


def _held(connection: sqlite3.Connection) -> tuple[int, int, int]:
    entries, size, cost = connection.execute("SELECT entries, size, cost FROM held").fetchone()
    return entries, size, cost


def _count(connection: sqlite3.Connection, query: str, *values: object) -> int:
    return int(connection.execute(query, values).fetchone()[0])


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
