"""Exact search over a small set of vectors: one matrix, one product."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from askonce.ports import Vector


class Flat:
    """Rows by number, in no order; O(n) to search, O(1) to append."""

    def __init__(self, dim: int) -> None:
        """Start empty."""
        self._rows = np.empty((0, dim), dtype=np.float32)
        self._seqs = np.empty(0, dtype=np.int64)
        self._size = 0

    def __len__(self) -> int:
        """How many rows there are."""
        return self._size

    @property
    def capacity(self) -> int:
        """How many rows there is memory for."""
        return len(self._seqs)

    def extend(self, seqs: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Append rows; vectors has the shape (len(seqs), dim)."""
        self._reserve(self._size + len(seqs))
        end = self._size + len(seqs)
        self._rows[self._size : end] = vectors
        self._seqs[self._size : end] = seqs
        self._size = end

    def discard(self, seq: int) -> bool:
        """Remove a row; returns whether it was there."""
        (found,) = np.nonzero(self._seqs[: self._size] == seq)
        if not len(found):
            return False
        self._size -= 1
        self._seqs[found[0]] = self._seqs[self._size]
        self._rows[found[0]] = self._rows[self._size]
        return True

    def take(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Remove the last rows and return them; gives memory back when most of it is unused."""
        start = max(0, self._size - count)
        taken = self._seqs[start : self._size].copy(), self._rows[start : self._size].copy()
        self._size = start
        if self._size < len(self._seqs) // 4:
            self._resize(2 * self._size)
        return taken

    def nearest(self, vector: Vector, count: int) -> list[tuple[float, int]]:
        """Up to count pairs of score and row number, in no order.

        One small product a row, since one large one runs on all cores at once, and then waits for
        the busiest: 0.5 ms become 16 on a loaded machine.
        """
        scores = np.matmul(self._rows[: self._size, None, :], vector)[:, 0]
        if count < self._size:
            best = np.argpartition(scores, self._size - count)[self._size - count :]
        else:
            best = np.arange(self._size)
        return list(zip(scores[best].tolist(), self._seqs[best].tolist(), strict=True))

    def _reserve(self, size: int) -> None:
        if size > len(self._seqs):
            self._resize(max(size, len(self._seqs) * 3 // 2))

    def _resize(self, capacity: int) -> None:
        rows = np.empty((capacity, self._rows.shape[1]), dtype=np.float32)
        seqs = np.empty(capacity, dtype=np.int64)
        rows[: self._size] = self._rows[: self._size]
        seqs[: self._size] = self._seqs[: self._size]
        self._rows, self._seqs = rows, seqs
