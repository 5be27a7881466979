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

_MOST_PAIRS = 1_280_000
_DEEPEST = 256
"""Pairs are kept of each question with so many of its nearest, or fewer if the questions are many;
the others are measured anew."""


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
    """Measures a pair when it first comes up; some 290 bytes a pair are kept."""

    def __init__(self, texts: Sequence[Text], deepest: int = _DEEPEST) -> None:
        """Take all texts by row; memory is used as pairs come up, at most 370 MB."""
        self.direct = Direct(texts)
        self.dim = self.direct.dim
        self._vectors = np.stack([text.vector for text in texts])
        self._deepest = min(deepest, max(1, _MOST_PAIRS // len(texts)))
        pairs = len(texts) * self._deepest
        self._raw = _shared((pairs, len(features.NAMES)), np.float32)
        self._touched = _shared((pairs, differences.MOST_KEYS), np.int16)
        self._sizes = _shared((pairs,), np.uint8)
        """Of `touched`; 0 where nothing was measured, since no pair touches nothing."""

    def see(self, query: int, near: Near) -> Seen:
        """As `Direct.see`, to the last bit."""
        if near.ranks is None or not len(near.ranks) or near.ranks[-1] >= self._deepest:
            return self.direct.see(query, near)
        places = near.ranks + query * self._deepest
        if not self._sizes[places].all():
            self._measure(query, near, places)
        keys = self._touched[places]
        products = features.products(
            self._vectors[query], self._vectors[near.rows], near.cosines
        ).astype(np.float16)
        sizes = self._sizes[places].tolist()
        touched = tuple([row[:size] for row, size in zip(keys, sizes, strict=True)])
        return Seen(self._raw[places], products, touched, near.cosines)

    def _measure(self, query: int, near: Near, places: NDArray[np.int64]) -> None:
        """Those of these pairs that were not measured yet, at once."""
        missing = np.flatnonzero(self._sizes[places] == 0)
        seen = self.direct.see(query, near.only(missing))
        for place, raw, keys in zip(places[missing], seen.raw, seen.touched, strict=True):
            self._raw[place] = raw
            self._touched[place, : len(keys)] = keys
            self._sizes[place] = len(keys)


class Once:
    """Keeps what was seen of the latest question, for others that have the same beside it."""

    def __init__(self, sight: Sight) -> None:
        """sight: measures what is not kept."""
        self._sight = sight
        self.dim = sight.dim
        self._query = -1
        self._kept: dict[tuple[bytes, bytes], Seen] = {}

    def see(self, query: int, near: Near) -> Seen:
        """As the sight's own."""
        if query != self._query:
            self._query, self._kept = query, {}
        key = (near.rows.tobytes(), near.cosines.tobytes())
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._sight.see(query, near)
        return found


def _shared(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:  # type: ignore[type-arg]
    """Zeros in memory that forked children write for one another."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, size), dtype=dtype).reshape(shape)
