"""What a verifier sees of a question beside its neighbours, each pair measured once.

Nothing of it depends on the order or the budget, so orders and processes share it. The arrays are
anonymous shared memory: what a forked child has measured its siblings find. Two may measure the
same pair at the same time; they write the same bytes.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Protocol

import numpy as np

from askonce.trust import differences, features
from askonce.trust.verifier import Seen, Text, see

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from askonce.lab.stream import Near

_DEEPEST = 128
"""Pairs are kept of each question with so many of its nearest; the others are measured anew."""


class Sight(Protocol):
    """Measures a question beside its neighbours."""

    dim: int
    """Of the vectors."""

    def see(self, query: int, near: Near) -> Seen:
        """As `trust.verifier.see`, by row."""
        ...


class Direct:
    """Measures every time."""

    def __init__(self, texts: Sequence[Text]) -> None:
        """Texts by row."""
        self._texts = texts
        self.dim = len(texts[0].vector)

    def see(self, query: int, near: Near) -> Seen:
        """As `trust.verifier.see`."""
        cached = [self._texts[row] for row in near.rows.tolist()]
        return see(self._texts[query], cached, near.cosines)


class Measured:
    """Measures a pair when it first comes up; some 280 bytes a pair are kept."""

    def __init__(self, texts: Sequence[Text], deepest: int = _DEEPEST) -> None:
        """Take all texts by row; memory is used as pairs come up."""
        self.direct = Direct(texts)
        self.dim = self.direct.dim
        self._vectors = np.stack([text.vector for text in texts])
        self._deepest = deepest
        pairs = len(texts) * deepest
        self._raw = _shared((pairs, len(features.NAMES)), np.float32)
        self._touched = _shared((pairs, differences.MOST_KEYS), np.int16)
        self._sizes = _shared((pairs,), np.uint8)
        """Of `touched`; 0 where nothing was measured, since no pair touches nothing."""

    def see(self, query: int, near: Near) -> Seen:
        """As `Direct.see`, to the last bit."""
        if near.ranks is None or not len(near.ranks) or near.ranks[-1] >= self._deepest:
            return self.direct.see(query, near)
        places = near.ranks + query * self._deepest
        sizes = self._sizes[places].tolist()
        if 0 in sizes:
            self._measure(query, near, places)
            sizes = self._sizes[places].tolist()
        touched = self._touched[places]
        products = features.products(
            self._vectors[query], self._vectors[near.rows], near.cosines
        ).astype(np.float16)
        keys = tuple(row[:size] for row, size in zip(touched, sizes, strict=True))
        return Seen(self._raw[places], products, keys, near.cosines)

    def _measure(self, query: int, near: Near, places: NDArray[np.int64]) -> None:
        seen = self.direct.see(query, near)
        self._raw[places] = seen.raw
        for place, keys in zip(places.tolist(), seen.touched, strict=True):
            self._touched[place, : len(keys)] = keys
        self._sizes[places] = [len(keys) for keys in seen.touched]


def _shared(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:  # type: ignore[type-arg]
    """Zeros in memory that forked children write for one another."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, size), dtype=dtype).reshape(shape)
