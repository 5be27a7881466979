"""Which keys a store file surely lacks, told without reading it.

A map of bytes beside the database, shared by all processes: each key has two cells, and whoever
writes an entry sets its cells first, inside the same transaction. So an empty cell proves that no
entry was committed, whatever other processes do and whenever one dies. Setting a byte needs no
lock, and cells are never cleared: entries that left only make the map say "perhaps" more often,
until it is made anew.

The map is one database's alone. One that belongs to another, is damaged, or may have lost cells
because the machine stopped, is replaced while the database's write lock is held. Until all keys
have been read into the new map it proves nothing.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3

Identity = tuple[int, int]
"""Of a file: device and inode."""
SUFFIX = "-keys"
BYTES_PER_CELL = 128
"""Of the store's bound; an entry of usual size then has about 16 cells for its two."""
LEAST_CELLS = 1 << 16
MOST_CELLS = 1 << 23
SLICE = 1000
"""Keys read into a new map by one transaction."""

_COMPLETE = int.from_bytes(b"AOKEYS\x01C")
_FILLING = int.from_bytes(b"AOKEYS\x01F")
_RETIRED = 0
_HEAD = struct.Struct("@8Q")
"""State, device, inode, boot, number of cells, keys added, keys at which to start anew, unused."""
_STATE, _ADDED, _WORN = 0, 5, 6
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")


class _Map(NamedTuple):
    """A map as one process sees it."""

    words: memoryview
    cells: memoryview
    inode: int

    def fits(self, database: Identity | None) -> bool:
        """Whether it may be used for this database, on this boot of the machine."""
        state, device, inode, boot, count, *_ = self.words
        return (
            state in {_COMPLETE, _FILLING}
            and (device, inode) == database
            and boot == _boot()
            and count == len(self.cells)
        )

    def has(self, key: bytes) -> bool:
        """Whether both cells of a key are set."""
        one, two = _places(key, len(self.cells) - 1)
        return bool(self.cells[one] and self.cells[two])

    def add(self, key: bytes) -> None:
        """Set both cells."""
        one, two = _places(key, len(self.cells) - 1)
        if not (self.cells[one] and self.cells[two]):
            self.cells[one] = self.cells[two] = 1
            self.words[_ADDED] += 1


class KnownKeys:
    """What the map says to readers; `lacks` is for any thread, the rest for one."""

    def __init__(self, database: Path) -> None:
        """Map nothing yet."""
        self._path = path_beside(database)
        self._map: _Map | None = None

    def lacks(self, key: bytes) -> bool:
        """Whether surely no entry of this key is there; no I/O."""
        known = self._map
        return known is not None and known.words[_STATE] == _COMPLETE and not known.has(key)

    def look(self, database: Identity | None) -> None:
        """Take up the map at the path, or none when there is none of this database."""
        try:
            self._map = _current(self._path, self._map, database)
        except OSError:
            self._map = None

    def close(self) -> None:
        """Prove nothing any more."""
        self._map = None


class KeyRecord:
    """Sets the cells; all calls are made in a transaction that holds the write lock."""

    def __init__(self, database: Path, *, max_bytes: int) -> None:
        """max_bytes: the store's bound."""
        self._path = path_beside(database)
        wanted = max(min(max_bytes // BYTES_PER_CELL, MOST_CELLS), LEAST_CELLS)
        self._count = 1 << (wanted - 1).bit_length()
        self._map: _Map | None = None
        self._read_to = b""
        self._gave_up = False

    def begin(self, connection: sqlite3.Connection, database: Identity | None) -> None:
        """Have a map of this database, and read a slice of its keys if it is new.

        Raises OSError when there is one that cannot be written to: others may trust it.
        """
        known = _current(self._path, self._map, database)
        if known is None or known.words[_ADDED] > known.words[_WORN]:
            known = self._renewed(connection, database) or known
        if known is not self._map:
            self._map, self._read_to = known, b""
        if known is not None and known.words[_STATE] == _FILLING:
            self._fill(connection, known)

    def add(self, key: bytes) -> None:
        """An entry of this key is about to be committed."""
        if self._map is not None:
            self._map.add(key)

    def _renewed(self, connection: sqlite3.Connection, database: Identity | None) -> _Map | None:
        if self._gave_up or database is None:
            return None
        (entries,) = connection.execute("SELECT entries FROM held").fetchone()
        worn_at = max(self._count // 4, 2 * entries)
        head = _HEAD.pack(_FILLING, *database, _boot(), self._count, 0, worn_at, 0)
        draft = self._path.with_name(self._path.name + ".new")
        try:
            made = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with os.fdopen(made, "wb") as file:
                # Whole, since a hole that the disk has no room for would kill who writes to it.
                file.write(head + bytes(self._count))
            retire(self._path)
            draft.replace(self._path)
        except OSError:
            self._gave_up = True
            with contextlib.suppress(OSError):
                draft.unlink()
            return None
        return _current(self._path, None, database)

    def _fill(self, connection: sqlite3.Connection, known: _Map) -> None:
        rows = connection.execute(
            "SELECT key FROM entry WHERE key > ? ORDER BY key LIMIT ?", (self._read_to, SLICE)
        ).fetchall()
        for (key,) in rows:
            known.add(key)
        if len(rows) == SLICE:
            self._read_to = rows[-1][0]
        else:
            known.words[_STATE] = _COMPLETE


def path_beside(database: Path) -> Path:
    """Where a database has its map."""
    return database.with_name(database.name + SUFFIX)


def _current(path: Path, known: _Map | None, database: Identity | None) -> _Map | None:
    """The map at the path, the known one if it still is, None if it is not this database's."""
    try:
        if known is not None and path.stat().st_ino == known.inode and known.fits(database):
            return known
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, IsADirectoryError):
        return None
    try:
        found = os.fstat(descriptor)
        if found.st_size < _HEAD.size + LEAST_CELLS:
            return None
        whole = memoryview(mmap.mmap(descriptor, found.st_size))
    finally:
        os.close(descriptor)
    taken = _Map(whole[: _HEAD.size].cast("Q"), whole[_HEAD.size :], found.st_ino)
    return taken if taken.fits(database) else None


def retire(path: Path) -> None:
    """Have no process trust this map any more, and remove it; missing is fine."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, _RETIRED.to_bytes(8), 0)
        finally:
            os.close(descriptor)
        path.unlink(missing_ok=True)


def _places(key: bytes, mask: int) -> tuple[int, int]:
    digest = int.from_bytes(blake2b(key, digest_size=8).digest())
    return digest & mask, (digest >> 32) & mask


@cache
def _boot() -> int:
    """Names the time since the machine started; where that is unknown, this process alone."""
    try:
        told = _BOOT_FILE.read_bytes()
    except OSError:
        told = str(os.getpid()).encode()
    return int.from_bytes(blake2b(told, digest_size=8).digest())
