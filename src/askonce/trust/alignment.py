"""Token by token: how well two texts cover each other, by the vectors the embedder made anyway.

The mean of the token vectors hides a single changed word; the worst match shows it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_POOR = 0.5
_MOST = 64
"""Tokens of a text that are looked at; the rest are taken as met."""


class TokenVectors(NamedTuple):
    """One text's tokens, without the embedder's own marks."""

    ids: NDArray[np.uint16]
    """Vocabulary numbers, shape (tokens,)."""
    rows: NDArray[np.int8]
    """One direction a token, shape (tokens, dim); lengths mean nothing."""


def pack(ids: Sequence[int], vectors: Floats) -> TokenVectors:
    """Keep the tokens between the first and the last mark, one byte a dimension."""
    inner = vectors[1:-1]
    peak = np.abs(inner).max(axis=1, keepdims=True, initial=1e-9)
    rows = np.rint(inner * (127 / peak)).astype(np.int8)
    return TokenVectors(np.asarray(ids[1:-1], dtype=np.uint16), rows)


def to_bytes(tokens: TokenVectors) -> bytes:
    """The part of a text that `align` looks at, for an index to keep."""
    ids, rows = tokens.ids[:_MOST], tokens.rows[:_MOST]
    return b"".join((len(ids).to_bytes(2, "little"), ids.tobytes(), rows.tobytes()))


def from_bytes(packed: bytes, dim: int) -> TokenVectors:
    """What `to_bytes` packed; no tokens where the bytes are none of its own for this dim."""
    count = int.from_bytes(packed[:2], "little")
    if len(packed) != 2 + count * (2 + dim):
        packed, count = b"\0\0", 0
    ids = np.frombuffer(packed, dtype=np.uint16, count=count, offset=2)
    rows = np.frombuffer(packed, dtype=np.int8, offset=2 + 2 * count)
    return TokenVectors(ids, rows.reshape(count, dim))


_SIDE = ("mean", "least", "poor", "new", "new_mean", "new_least")
NAMES = (
    *(f"{name}_{side}" for side in ("asked", "cached") for name in _SIDE),
    "in_order",
)
"""What the columns of `align` hold: how the asked text is covered, how the cached one is."""


def align(asked: TokenVectors, cached: Sequence[TokenVectors]) -> Floats:
    """One row a cached text, columns as in NAMES; each is the same whoever stands beside it."""
    if not cached or not len(asked.ids):
        return np.zeros((len(cached), len(NAMES)), dtype=np.float32)
    ids = np.concatenate([each.ids[:_MOST] for each in cached])
    rows = np.concatenate([each.rows[:_MOST] for each in cached])
    there = _filled([min(len(each.ids), _MOST) for each in cached])
    alike = np.full((min(len(asked.ids), _MOST), *there.shape), -1.0, dtype=np.float32)
    equal = np.zeros(alike.shape, dtype=np.bool_)  # both of shape (asked, cached, tokens)
    alike[:, there] = _cosines(asked.rows[:_MOST], rows)
    equal[:, there] = asked.ids[:_MOST, None] == ids
    columns = [
        *_covered(np.maximum.reduce(alike, axis=2).T, np.logical_or.reduce(equal, axis=2).T, None),
        *_covered(np.maximum.reduce(alike, axis=0), np.logical_or.reduce(equal, axis=0), there),
        _in_order(alike.argmax(axis=2).T),
    ]
    return np.array(columns, dtype=np.float32).T


def _cosines(asked: NDArray[np.int8], cached: NDArray[np.int8]) -> Floats:
    """Of all asked tokens with all cached ones.

    The products are sums of whole numbers, exact up to about a thousand dimensions: equal tokens
    have equal cosines in whatever order a machine adds. They are made in parts so small that BLAS
    wakes no other threads, which would wait for a core longer than they help.
    """
    own, rows = asked.astype(np.float32), cached.astype(np.float32)
    found = np.empty((len(rows), len(own)), dtype=np.float32)
    step = max(1, _ALONE // own.size)
    for at in range(0, len(rows), step):
        np.matmul(rows[at : at + step], own.T, out=found[at : at + step])
    found /= _lengths(rows)[:, None] * _lengths(own)
    return found.T


_ALONE = 1 << 18
"""Multiplications that one thread makes sooner than several."""


def _lengths(rows: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.maximum(np.einsum("nd,nd->n", rows, rows), np.float32(1.0)))
    return lengths


def _filled(counts: list[int]) -> NDArray[np.bool_]:
    """Which places of a table, one row a text, hold a token."""
    there: NDArray[np.bool_] = np.arange(max(1, *counts)) < np.array(counts)[:, None]
    return there


def _covered(
    best: Floats, equal: NDArray[np.bool_], there: NDArray[np.bool_] | None
) -> list[NDArray[np.floating] | NDArray[np.intp]]:
    """The columns of one side; all are of shape (cached, tokens), and without `there` all are."""
    new = ~equal
    met = least = best
    count: NDArray[np.intp] | int = best.shape[1]
    poor = best < _POOR
    if there is not None:
        new &= there
        met = np.where(there, best, np.float32(0.0))
        least = np.where(there, best, np.float32(1.0))
        count = np.maximum(_count(there, axis=1), 1)
        poor &= there
    news = _count(new, axis=1)
    unmet = np.add.reduce(np.where(new, best, np.float32(0.0)), axis=1, dtype=np.float64)
    return [
        np.add.reduce(met, axis=1, dtype=np.float64) / count,
        np.minimum.reduce(least, axis=1),
        _count(poor, axis=1),
        news,
        np.where(news > 0, unmet / np.maximum(news, 1), 1),
        np.minimum.reduce(np.where(new, best, np.float32(1.0)), axis=1),
    ]


_count = partial(np.add.reduce, dtype=np.intp)
"""Of what is true."""


def _in_order(places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Share of neighbouring asked tokens whose partners stand in the same order."""
    steps = places.shape[1] - 1
    if not steps:
        return np.ones(len(places))
    share: NDArray[np.float64] = (places[:, 1:] >= places[:, :-1]).sum(axis=1) / steps
    return share
