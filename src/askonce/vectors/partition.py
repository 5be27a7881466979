"""The vectors of one partition in memory: new ones in a flat tail, old ones in a graph."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Protocol

from askonce.vectors.flat import Flat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from askonce.ports import Vector

_MOVED_AT_ONCE = 8
_OVERHEAD = 4


class Graph(Protocol):
    """Approximate search over rows by number, which only grows."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def extend(self, seqs: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add rows that are not in it yet."""
        ...

    def nearest(self, vector: Vector, count: int) -> list[tuple[float, int]]:
        """Up to count pairs of score and row number."""
        ...


class Partition:
    """A follower of one partition's rows in the file.

    `top` and `gone` are the last row and the last removal it has seen. `bottom` is the oldest row
    it has read of those that were there when it began: rows are read from the newest back.
    """

    def __init__(
        self, dim: int, new_graph: Callable[[int], Graph], *, top: int, gone: int, graph_from: int
    ) -> None:
        """Start empty, to follow what comes after top and gone, and to read back from top.

        new_graph: makes an empty one of that dimension.
        """
        self.top = top
        self.gone = gone
        self.bottom = top + 1
        self.complete = False
        self.seen = (-1, -1)
        """Version of the file it was last compared with."""
        self.weighed = 0
        """Its weight when it was last accounted for."""
        self._dim = dim
        self._new_graph = new_graph
        self._graph_from = graph_from
        self._tail = Flat(dim)
        self._graph: Graph | None = None
        self._dead: set[int] = set()

    def __len__(self) -> int:
        """How many vectors are held, dead ones in the graph included."""
        return len(self._tail) + self.in_graph

    @property
    def in_graph(self) -> int:
        """How many vectors the graph holds."""
        return 0 if self._graph is None else len(self._graph)

    @property
    def weight(self) -> int:
        """Memory, in vectors."""
        return self._tail.capacity + self.in_graph + _OVERHEAD

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something to do."""
        return len(self._tail) > (self._graph_from if self._graph is None else 0)

    @property
    def worn(self) -> bool:
        """Whether so much of the graph is dead that a new partition should take its place."""
        return len(self._dead) > self.in_graph // 3

    def extend(self, seqs: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Add new rows."""
        self._tail.extend(seqs, vectors)

    def discard(self, seq: int) -> None:
        """Remove a row, known or not."""
        if not self._tail.discard(seq) and self._graph is not None:
            self._dead.add(seq)

    def nearest(self, vector: Vector, count: int) -> list[int]:
        """Up to count row numbers, most likely the nearest first."""
        found = self._tail.nearest(vector, count)
        if self._graph is not None:
            found += self._nearest_alive(self._graph, vector, count)
        return [seq for _, seq in heapq.nlargest(count, found)]

    def settle(self) -> None:
        """Move a few rows from the tail to the graph: some milliseconds."""
        if self._graph is None:
            self._graph = self._new_graph(self._dim)
        self._graph.extend(*self._tail.take(_MOVED_AT_ONCE))

    def _nearest_alive(self, graph: Graph, vector: Vector, count: int) -> list[tuple[float, int]]:
        """Ask for more until enough are alive: a question often renewed leaves many dead twins."""
        asked = count + min(len(self._dead), count)
        while True:
            near = graph.nearest(vector, asked)
            alive = [pair for pair in near if pair[1] not in self._dead]
            if len(alive) >= count or len(near) < asked:
                return alive
            asked *= 4
