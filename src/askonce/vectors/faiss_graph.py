"""Approximate search over many vectors: the HNSW of FAISS, behind the same face as `Graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from askonce.ports import Vector

CONNECTIVITY = 24
EXPANSION = 128
"""Both for adding and for searching."""


class FaissGraph:
    """Rows by number, kept as float16: scores are off by up to 1e-3, so they only rank.

    FAISS cannot take rows out of a graph; whoever holds it passes over the dead and renews it.
    """

    def __init__(self, dim: int) -> None:
        """Start empty; one thread, since lookups of many callers run beside each other."""
        faiss.omp_set_num_threads(1)
        graph: Any = faiss.index_factory(
            dim, f"HNSW{CONNECTIVITY}_SQfp16", faiss.METRIC_INNER_PRODUCT
        )
        graph.hnsw.efConstruction = graph.hnsw.efSearch = EXPANSION
        graph.train(np.zeros((1, dim), dtype=np.float32))
        self._rows = faiss.IndexIDMap2(graph)

    def __len__(self) -> int:
        """How many rows there are."""
        size: int = self._rows.ntotal
        return size

    def extend(self, seqs: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add rows that are not in it yet."""
        self._rows.add_with_ids(vectors, seqs)

    def nearest(self, vector: Vector, count: int) -> list[tuple[float, int]]:
        """Up to count pairs of score and row number."""
        scores, seqs = self._rows.search(vector[None, :], min(count, len(self)))
        found = zip(scores[0].tolist(), seqs[0].tolist(), strict=True)
        return [pair for pair in found if pair[1] >= 0]
