"""What an index on a server has found, scored by ourselves: scores mean the same everywhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from askonce.ports import IndexedText, Neighbour
from askonce.units import Cosine, UnixTime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from askonce.ports import Vector

SPARE = 4
"""Candidates beyond k: a server's ranks are rough, and some may be dead."""

ROUGHLY = 1e-4
"""What an exact score may lie above a server's."""

MOST = 512
"""Candidates at most in one search: further dead ones may hide what lives."""


class Row(msgspec.Struct, frozen=True):
    """One item as it lies in a server."""

    item: IndexedText
    vector: bytes
    """float32, in the machine's order."""


async def nearest_live(
    fetch: Callable[[int], Awaitable[Sequence[Row | None]]],
    vector: Vector,
    *,
    k: int,
    now: UnixTime,
    spare: int = SPARE,
) -> list[Neighbour]:
    """Ask for more until k live rows are there, or no more come.

    fetch: up to so many candidates; None for one that cannot be read or is of another partition.
    """
    wanted = k + spare
    while True:
        rows = await fetch(wanted)
        live = [row for row in rows if row is not None and row.item.expires_at > now]
        if len(live) >= k or len(rows) < wanted or wanted >= MOST:
            return ranked(live, vector, k)
        wanted = min(4 * wanted, MOST)


def ranked(rows: Iterable[Row], vector: Vector, k: int) -> list[Neighbour]:
    """The k best by exact cosine, those of a wrong length or without a number left out."""
    scored = []
    for row in rows:
        if len(row.vector) == vector.nbytes:
            score = float(np.frombuffer(row.vector, np.float32) @ vector)
            if math.isfinite(score):
                scored.append((score, row))
    scored.sort(key=lambda pair: (-pair[0], -pair[1].item.expires_at))
    return [
        Neighbour(Cosine(min(1.0, max(0.0, score))), row.item, row.vector)
        for score, row in scored[:k]
    ]


def above(rows: Iterable[Row], vector: Vector, floor: Cosine, limit: int) -> list[Neighbour]:
    """The best by exact cosine, as many as the limit, none below the floor."""
    return [near for near in ranked(rows, vector, limit) if near.score >= floor]


def packed(text: str) -> bytes:
    """A text as bytes, lone surrogates as well."""
    return text.encode("utf-8", "surrogatepass")


def unpacked(text: bytes) -> str:
    """The text again; raises ValueError."""
    return text.decode("utf-8", "surrogatepass")
