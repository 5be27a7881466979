"""Approximate search over many vectors: usearch's HNSW, tuned for near-duplicates."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

with contextlib.suppress(ImportError):
    # usearch exports the C++ library it was linked with; ONNX Runtime crashes if it loads after.
    import onnxruntime  # noqa: F401
from usearch.index import Index

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from askonce.ports import Vector

CONNECTIVITY = 24
EXPANSION = 128
"""Both for adding and for searching; `bench/recall.py` measures what they give."""


class Graph:
    """Rows by number, kept as float16: scores are off by up to 1e-3, so they only rank.

    Rows are never taken out: usearch puts new ones in their slots, and after a graph's worth of
    that only 96 of 100 near-duplicates were found, where a fresh graph finds all.
    O(log n) to search and to add, about half a millisecond each at 100,000 rows.
    """

    def __init__(self, dim: int) -> None:
        """Start empty."""
        self._index = Index(
            ndim=dim,
            metric="ip",
            dtype="f16",
            connectivity=CONNECTIVITY,
            expansion_add=EXPANSION,
            expansion_search=EXPANSION,
        )

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._index)

    def extend(self, seqs: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add rows that are not in it yet."""
        self._index.add(seqs, vectors, threads=1)

    def nearest(self, vector: Vector, count: int) -> list[tuple[float, int]]:
        """Up to count pairs of score and row number."""
        found = self._index.search(vector, count, threads=1)
        scores = (1.0 - found.distances).tolist()
        return list(zip(scores, found.keys.tolist(), strict=True))
