"""What the tests of the SQLite store share."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from askonce.stores.sqlite.store import SqliteStore
from askonce.testing import FakeClock, RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from askonce.stores.sqlite.shared import SqliteShared

HOUR = Seconds(3600.0)
MIB = 1024 * 1024

BOUND = 2 * MIB
"""Of stores that several processes write."""
FOLDER_BOUND = BOUND + BOUND // 2 + 24 * MIB
"""The file within its half more, and a write-ahead log of at most a few checkpoints."""


@contextlib.asynccontextmanager
async def opened(
    path: Path,
    *,
    clock: FakeClock | None = None,
    sink: RecordingSink | None = None,
    max_bytes: int = 64 * MIB,
) -> AsyncIterator[SqliteStore]:
    """An open store."""
    store = SqliteStore(
        path, clock=clock or FakeClock(), sink=sink or RecordingSink(), max_bytes=max_bytes
    )
    try:
        yield store
    finally:
        await store.close()


def key(number: int) -> bytes:
    """A key as long as real ones."""
    return number.to_bytes(32, "big")


async def limit_file(store: SqliteShared, pages: int) -> None:
    """Let the file have no more pages, as a full disk would."""
    await store._writer.run(
        lambda: store._writing.connection().execute(f"PRAGMA max_page_count = {pages}").fetchone()
    )


def held_rightly(path: Path) -> bool:
    """Whether the running totals in the file are what the entries add up to."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN")
        held = connection.execute("SELECT entries, size, cost FROM held").fetchone()
        counted = connection.execute(
            "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(cost), 0) FROM entry"
        ).fetchone()
        orphans = connection.execute(
            "SELECT count(*) FROM tag WHERE entry NOT IN (SELECT id FROM entry)"
        ).fetchone()[0]
    return bool(held == counted and orphans == 0)


def set_aside(path: Path) -> list[str]:
    """Names of the files that were set aside."""
    return sorted(
        found.name.removeprefix(path.name)
        for found in path.parent.iterdir()
        if ".corrupt-" in found.name or ".version-" in found.name
    )


def size_of(path: Path) -> int:
    """Bytes of a file."""
    return path.stat().st_size


def content_of(path: Path) -> bytearray:
    """A file's bytes, to be changed."""
    return bytearray(path.read_bytes())


def overwrite(path: Path, content: bytes | bytearray) -> None:
    """Put other bytes in a file, in a folder that may not be there yet."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def folder_size(path: Path) -> int:
    """Bytes of all files of the store."""
    return sum(found.stat().st_size for found in path.parent.iterdir())
