"""A local index in one thread: the file, and the partitions of it that memory follows."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from askonce.errors import VectorIndexError
from askonce.ports import Neighbour
from askonce.units import Cosine
from askonce.vectors.partition import Partition
from askonce.vectors.rows import Added, Row, Rows, Unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from askonce.ports import IndexedText, Vector
    from askonce.units import UnixTime
    from askonce.vectors.partition import Graph

_SPARE = 4
"""Candidates beyond k: ranks of the graph are rough, and some may be dead."""

_ROUGHLY = 1e-4
"""What the exact score of a row may lie above its quick one."""
_MOST_WANTED = 512
_READ_AT_ONCE = 512
_REREAD_FROM = 1000
"""Removals at once from which a partition is read anew instead."""

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Limits(msgspec.Struct, frozen=True):
    """What an index may hold."""

    max_entries: int
    """In the file, over all partitions and embedders; the oldest leave first."""
    resident: int
    """Vectors in memory; beyond it the partitions longest unused are dropped."""
    graph_from: int
    """Vectors at which a partition gets a graph."""


class Follower:
    """The file opens with the first call and again after it broke; raises VectorIndexError."""

    def __init__(
        self,
        path: Path,
        new_graph: Callable[[int], Graph],
        *,
        embedder: str,
        dim: int,
        limits: Limits,
    ) -> None:
        """Remember what to open."""
        self._path = path
        self._new_graph = new_graph
        self._embedder = embedder
        self._dim = dim
        self._limits = limits
        self._rows: Rows | None = None
        self._inode: int | None = None
        self._writes = 0
        self._held: OrderedDict[bytes, Partition] = OrderedDict()
        self._unsettled: dict[bytes, None] = {}
        self._fresh: dict[bytes, Partition] = {}
        """Successors of worn partitions, on their way."""
        self.weight = 0
        """Memory held, in vectors."""

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something to do."""
        return bool(self._unsettled)

    @property
    def partitions(self) -> int:
        """How many partitions are in memory."""
        return len(self._held)

    def search(self, partition: bytes, vector: Vector, *, k: int, now: UnixTime) -> list[Neighbour]:
        """The k nearest live items, best first, by their exact scores."""
        with self._file() as rows:
            held = self._current(rows, partition)
            wanted = k + _SPARE
            while True:
                near = held.nearest(vector, wanted)
                live = _live(rows.fetch(near), now)
                for seq in set(near) - {row.seq for row in live}:
                    held.discard(seq)
                if len(live) >= k or len(live) == len(near):
                    return _ranked(live, vector, k)
                wanted = min(2 * wanted, _MOST_WANTED)

    def alike(
        self, vector: Vector, *, floor: Cosine, after: int, now: UnixTime
    ) -> tuple[list[Neighbour], int | None]:
        """Live items at or above the floor among some rows past `after`, and where to go on."""
        with self._file() as rows:
            seqs, vectors = rows.block(after, _READ_AT_ONCE)
            if not seqs:
                return [], None
            near = np.flatnonzero(vectors @ vector >= floor - _ROUGHLY)
            live = _live(rows.fetch([seqs[at] for at in near]), now)
            ranked = _ranked(live, vector, len(live))
            return [each for each in ranked if each.score >= floor], seqs[-1]

    def add(self, partition: bytes, item: IndexedText, vector: Vector, *, now: UnixTime) -> Added:
        """Insert or replace by key."""
        with self._file() as rows:
            self._writes += 1
            if partition in self._held:
                self._unsettled[partition] = None
            return rows.add(partition, item, vector, now=now, limit=self._limits.max_entries)

    def delete(self, keys: Sequence[bytes], now: UnixTime) -> int:
        """Remove by key; returns how many live ones there were."""
        with self._file() as rows:
            self._writes += 1
            return rows.delete(keys, now)

    def drop(self, partition: bytes, now: UnixTime) -> int:
        """Remove one partition; returns how many live ones there were."""
        with self._file() as rows:
            self._forget(partition)
            return rows.drop(partition, now)

    def clear(self, now: UnixTime) -> int:
        """Remove everything of this embedder; returns how many live ones there were."""
        with self._file() as rows:
            self._drop_memory()
            return rows.clear(now)

    def count(self, now: UnixTime) -> int:
        """How many live items of this embedder there are."""
        with self._file() as rows:
            return rows.count(now)

    def settle(self) -> bool:
        """A few milliseconds of the work that lookups left; returns whether there is more."""
        with self._file() as rows:
            partition = next(iter(self._unsettled), None)
            if partition is None:
                return False
            del self._unsettled[partition]
            if partition in self._held:
                self._settle(rows, partition, self._current(rows, partition))
            return self.unsettled

    def close(self) -> None:
        """Close the file and drop all memory."""
        self._drop_memory()
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def _current(self, rows: Rows, partition: bytes) -> Partition:
        """The partition in memory, level with the file."""
        stamp = (rows.version(), self._writes)
        held = self._held.get(partition)
        if held is None or (held.seen != stamp and not _catch_up(rows, partition, held)):
            self._forget(partition)
            held = self._begin(rows)
            self._read_back(rows, partition, held)
        held.seen = stamp
        self._hold(partition, held)
        return held

    def _begin(self, rows: Rows) -> Partition:
        gone, top = rows.marks()
        graph_from = self._limits.graph_from
        return Partition(self._dim, self._new_graph, top=top, gone=gone, graph_from=graph_from)

    def _read_back(self, rows: Rows, partition: bytes, held: Partition) -> None:
        seqs, vectors = rows.before(partition, held.bottom, _READ_AT_ONCE)
        held.extend(seqs, vectors)
        held.complete = len(seqs) < _READ_AT_ONCE
        held.bottom = seqs[-1] if seqs else 0

    def _settle(self, rows: Rows, partition: bytes, held: Partition) -> None:
        if not held.complete:
            self._read_back(rows, partition, held)
        elif held.unsettled:
            held.settle()
        elif held.worn:
            held = self._renew(rows, partition, held)
        self._hold(partition, held)

    def _renew(self, rows: Rows, partition: bytes, worn: Partition) -> Partition:
        """Bring the successor a slice further; returns it once it can take over."""
        fresh = self._fresh.get(partition)
        if fresh is None or not _catch_up(rows, partition, fresh):
            fresh = self._fresh[partition] = self._begin(rows)
        if fresh.unsettled:
            fresh.settle()
        elif not fresh.complete:
            self._read_back(rows, partition, fresh)
        else:
            fresh.seen, fresh.weighed = worn.seen, worn.weighed
            return self._fresh.pop(partition)
        return worn

    def _hold(self, partition: bytes, held: Partition) -> None:
        """Keep it as the last used, note what it has become, and make room for it."""
        self._held[partition] = held
        self._held.move_to_end(partition)
        self.weight += held.weight - held.weighed
        held.weighed = held.weight
        if held.unsettled or held.worn or not held.complete:
            self._unsettled[partition] = None
        else:
            self._unsettled.pop(partition, None)
        while self.weight > self._limits.resident and len(self._held) > 1:
            self._forget(next(iter(self._held)))

    def _forget(self, partition: bytes) -> None:
        held = self._held.pop(partition, None)
        self._unsettled.pop(partition, None)
        self._fresh.pop(partition, None)
        if held is not None:
            self.weight -= held.weighed

    def _drop_memory(self) -> None:
        self._held.clear()
        self._unsettled.clear()
        self._fresh.clear()
        self.weight = 0

    @contextlib.contextmanager
    def _file(self) -> Iterator[Rows]:
        try:
            yield self._connected()
        except sqlite3.Error as error:
            if _is_damage(error):
                self._set_aside()
            raise VectorIndexError(f"{self._path}: {error}") from error
        except OSError as error:
            raise VectorIndexError(f"{self._path}: {error.strerror}") from error

    def _connected(self) -> Rows:
        """The open file; opened anew when it is no longer the one at the path."""
        if self._rows is not None:
            if _inode(self._path) == self._inode:
                return self._rows
            self.close()
        try:
            self._open()
        except (sqlite3.Error, Unusable) as error:
            if isinstance(error, sqlite3.Error) and not _is_damage(error):
                raise
            self._set_aside()
            self._open()
        assert self._rows is not None  # noqa: S101 - _open sets it or raises
        return self._rows

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._inode = _inode(self._path)
        self._rows = Rows(self._path, embedder=self._embedder, dim=self._dim)
        self._inode = _inode(self._path)

    def _set_aside(self) -> None:
        """Move a damaged file out of the way, unless another process already has."""
        self.close()
        if self._inode is None or _inode(self._path) != self._inode:
            return
        with contextlib.suppress(FileNotFoundError):
            self._path.replace(self._path.with_name(f"{self._path.name}.damaged"))
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


def _catch_up(rows: Rows, partition: bytes, held: Partition) -> bool:
    """Apply what happened in the file; returns False when reading anew is better."""
    gone = rows.gone_after(partition, held.gone)
    if gone is None or len(gone) > _REREAD_FROM:
        return False
    for number, seq in gone:
        held.discard(seq)
        held.gone = number
    seqs, vectors = rows.after(partition, held.top)
    if seqs:
        held.extend(seqs, vectors)
        held.top = seqs[-1]
    return True


def _live(rows: list[Row], now: UnixTime) -> list[Row]:
    return [row for row in rows if row.item.expires_at > now]


def _ranked(rows: list[Row], vector: Vector, k: int) -> list[Neighbour]:
    """The k best by exact cosine, of equal ones the newest."""
    vectors = np.frombuffer(b"".join([row.vector for row in rows]), np.float32)
    products = np.matmul(vectors.reshape(len(rows), 1, len(vector)), vector)
    scored = list(zip(products[:, 0].tolist(), rows, strict=True))
    scored.sort(key=lambda pair: (-pair[0], -pair[1].seq))
    return [
        Neighbour(Cosine(min(1.0, max(0.0, score))), row.item, row.vector)
        for score, row in scored[:k]
    ]


def _is_damage(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGED


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
