"""Token by token: how well two texts cover each other, by the vectors the embedder made anyway.

The mean of the token vectors hides a single changed word; the worst match shows it.
"""

from __future__ import annotations

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
    """One row a cached text, columns as in NAMES; one matrix product for all of them."""
    if not cached or not len(asked.ids):
        return np.zeros((len(cached), len(NAMES)), dtype=np.float32)
    ids, rows, there = _padded(cached)
    own_ids, own = asked.ids[:_MOST], _unit(asked.rows[:_MOST])
    alike = (own @ rows.reshape(-1, rows.shape[-1]).T).reshape(len(own), *ids.shape)
    alike = np.where(there, alike, np.float32(-1.0))  # (asked, cached, tokens)
    equal = (own_ids[:, None, None] == ids) & there
    best = alike.max(axis=2).T
    back = alike.max(axis=0)
    forth = _covered(best, equal.any(axis=2).T, np.ones_like(best, dtype=np.bool_))
    return np.column_stack(
        [*forth, *_covered(back, equal.any(axis=0), there), _in_order(alike.argmax(axis=2).T)]
    ).astype(np.float32)


def _padded(
    cached: Sequence[TokenVectors],
) -> tuple[NDArray[np.uint16], Floats, NDArray[np.bool_]]:
    longest = max(1, min(_MOST, max(len(each.ids) for each in cached)))
    dim = cached[0].rows.shape[1]
    ids = np.zeros((len(cached), longest), dtype=np.uint16)
    rows = np.zeros((len(cached), longest, dim), dtype=np.float32)
    there = np.zeros((len(cached), longest), dtype=np.bool_)
    for place, each in enumerate(cached):
        size = min(len(each.ids), longest)
        ids[place, :size] = each.ids[:size]
        rows[place, :size] = each.rows[:size]
        there[place, :size] = True
    return ids, _unit(rows), there


def _unit(rows: NDArray[np.int8] | Floats) -> Floats:
    values = rows.astype(np.float32, copy=False)
    lengths = np.sqrt(np.einsum("...d,...d->...", values, values))
    unit: Floats = values / np.maximum(lengths, np.float32(1e-9))[..., None]
    return unit


def _covered(
    best: Floats, equal: NDArray[np.bool_], there: NDArray[np.bool_]
) -> list[NDArray[np.float32]]:
    """The columns of one side; all three are of shape (cached, tokens)."""
    met = np.where(there, best, np.float32(0.0))
    new = there & ~equal
    unmet = np.where(new, best, np.float32(0.0))
    count, news = there.sum(axis=1), new.sum(axis=1)
    return [
        met.sum(axis=1) / np.maximum(count, 1),
        np.where(there, best, np.float32(1.0)).min(axis=1),
        (there & (best < _POOR)).sum(axis=1),
        news,
        np.where(news > 0, unmet.sum(axis=1) / np.maximum(news, 1), 1),
        np.where(new, best, np.float32(1.0)).min(axis=1),
    ]


def _in_order(places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Share of neighbouring asked tokens whose partners stand in the same order."""
    if places.shape[1] < 2:
        return np.ones(len(places))
    share: NDArray[np.float64] = (np.diff(places, axis=1) >= 0).mean(axis=1)
    return share
