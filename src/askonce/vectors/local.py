"""A vector index in this process over one SQLite file that all processes share."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from askonce.errors import ConfigError, MissingExtra, VectorIndexError
from askonce.events import Evicted, HeldBytes
from askonce.vectors.binding import check_vector
from askonce.worker import Worker, WorkerBusy, WorkerClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from askonce.ports import Clock, IndexedText, Neighbour, Sink, Vector
    from askonce.units import Cosine
    from askonce.vectors.binding import Binding
    from askonce.vectors.partition import Graph
    from askonce.vectors.rows import Added

T = TypeVar("T")

GRAPH_FROM = 8_000
"""Vectors at which a graph begins to beat a scan of all of them."""

_QUEUE = 128
_PAUSE = 0.001
"""Between two slices of background work, so that lookups and the event loop come first."""
_LONG_PAUSE = 0.01
"""The same while lookups wait."""


def open_local(url: str, *, binding: Binding, clock: Clock, sink: Sink) -> LocalIndex:
    """`local` in the data directory, or `local:///path`."""
    return LocalIndex(
        place(url, binding),
        embedder=binding.embedder,
        dim=binding.dim,
        max_entries=binding.max_entries,
        clock=clock,
        sink=sink,
    )


def place(url: str, binding: Binding) -> Path:
    """The file that a URL names; raises ConfigError."""
    scheme, _, path = url.partition("://")
    if path.startswith("/") and len(path) > 1:
        return Path(path)
    if path or ":" in scheme:
        raise ConfigError(f"{url}: write {scheme.partition(':')[0]} or an absolute path after ://")
    return binding.data_dir / "vectors.sqlite3"


class LocalIndex:
    """A VectorIndex; make it inside a running event loop.

    A lookup costs one read of the file for its candidates, so that what other processes removed is
    never returned. Graphs are built in slices after the answers.
    """

    _extra = "semantic"

    def __init__(
        self,
        path: Path,
        *,
        embedder: str,
        dim: int,
        max_entries: int,
        clock: Clock,
        sink: Sink,
        resident: int | None = None,
        graph_from: int = GRAPH_FROM,
    ) -> None:
        """Bind to one embedder's id; the file itself opens with the first call, and heals.

        resident: vectors in memory, by default half of max_entries; one partition may exceed it.
        graph_from: vectors at which a partition gets a graph.
        """
        try:
            from askonce.vectors.follower import Follower, Limits

            new_graph = self._graph_kind()
        except ImportError as error:
            raise MissingExtra(error.name or "numpy", self._extra) from error
        limits = Limits(
            max_entries=max_entries,
            resident=max_entries // 2 if resident is None else resident,
            graph_from=graph_from,
        )
        self._follower = Follower(path, new_graph, embedder=embedder, dim=dim, limits=limits)
        self._worker = Worker("askonce-index", limit=_QUEUE)
        self._dim = dim
        self._clock = clock
        self._sink = sink
        self._settling: asyncio.Task[None] | None = None
        self._searches = 0
        self._entries = 0

    @staticmethod
    def _graph_kind() -> Callable[[int], Graph]:
        """What makes an empty graph of a dimension; raises ImportError."""
        from askonce.vectors.graph import Graph

        return Graph

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Insert or replace by item.key; the oldest of all partitions leave past the bound."""
        check_vector(vector, self._dim)
        now = self._clock.now()
        added = await self._run(lambda: self._follower.add(partition, item, vector, now=now))
        self._tell(added)
        self._settle_later()

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """The k nearest live items, best first; an unknown partition gives an empty list."""
        check_vector(vector, self._dim)
        now = self._clock.now()
        found = await self._run(lambda: self._follower.search(partition, vector, k=k, now=now))
        self._searches += 1
        self._settle_later()
        return found

    async def search_all(self, vector: Vector, *, floor: Cosine, limit: int) -> list[Neighbour]:
        """See `SupportsSearchAll`; reads the whole file in slices, so that lookups get through."""
        check_vector(vector, self._dim)
        now, after = self._clock.now(), 0
        best: list[Neighbour] = []
        while True:
            found, onwards = await self._run(
                partial(self._follower.alike, vector, floor=floor, after=after, now=now)
            )
            best = heapq.nlargest(limit, [*best, *found], key=attrgetter("score"))
            if onwards is None:
                return best
            after = onwards

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remove items by entry key in any partition; returns how many live ones there were."""
        wanted = list(dict.fromkeys(keys))
        now = self._clock.now()
        removed = await self._run(lambda: self._follower.delete(wanted, now))
        self._evicted("cleared", removed)
        return removed

    async def drop_partition(self, partition: bytes) -> int:
        """Remove a partition's items; returns how many live ones there were."""
        now = self._clock.now()
        removed = await self._run(lambda: self._follower.drop(partition, now))
        self._evicted("cleared", removed)
        return removed

    async def clear(self) -> int:
        """Remove everything of this embedder; returns how many live items there were."""
        now = self._clock.now()
        removed = await self._run(lambda: self._follower.clear(now))
        self._evicted("cleared", removed)
        return removed

    async def count(self) -> int:
        """How many live items of this embedder there are, over all partitions."""
        now = self._clock.now()
        return await self._run(lambda: self._follower.count(now))

    async def settled(self) -> None:
        """Wait until the background has nothing to do."""
        while self._settling is not None and not self._settling.done():
            await asyncio.wait([self._settling])

    def statistics(self) -> dict[str, float]:
        """What memory holds, and the queue."""
        return {
            "entries": self._entries,
            "searches": self._searches,
            "waiting": self._worker.waiting,
            "resident_partitions": self._follower.partitions,
            "resident_vectors": self._follower.weight,
        }

    async def close(self) -> None:
        """Finish what waits and close the file; idempotent."""
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.wait([self._settling])
        await self._worker.close()
        await asyncio.to_thread(self._follower.close)

    async def _run(self, job: Callable[[], T]) -> T:
        try:
            return await self._worker.run(job)
        except WorkerBusy as error:
            raise VectorIndexError("too many calls wait for the index") from error
        except WorkerClosed as error:
            raise VectorIndexError("the index is closed") from error

    def _tell(self, added: Added) -> None:
        self._entries = added.entries
        self._evicted("expired", added.expired)
        self._evicted("capacity", added.evicted)
        self._sink.emit(HeldBytes(part="index", size=added.size, entries=added.entries))

    def _evicted(self, cause: Literal["capacity", "expired", "cleared"], entries: int) -> None:
        if entries:
            self._sink.emit(Evicted(part="index", cause=cause, entries=entries))

    def _settle_later(self) -> None:
        idle = self._settling is None or self._settling.done()
        if idle and self._follower.unsettled:
            self._settling = asyncio.create_task(self._settle())

    async def _settle(self) -> None:
        """Work off what is left in slices; a fault ends it, and the next call begins again."""
        more = True
        with contextlib.suppress(VectorIndexError, WorkerClosed):
            while more:
                with contextlib.suppress(WorkerBusy):  # lookups come first
                    more = await self._worker.run(self._follower.settle)
                await asyncio.sleep(_PAUSE if not self._worker.waiting else _LONG_PAUSE)
