"""Texts as vectors, and the nearest of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from askonce.units import Cosine, Seconds, UnixTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    """Shape (dim,), unit length."""


class Embedder(Protocol):
    """Text to unit vector."""

    id: str
    """Names model file, tokenizer and mode by digest: vectors of two ids never meet."""
    dim: int

    def expected_time(self, text: str) -> Seconds:
        """How long `embed` would take now, waiting included; an estimate, 0 while unknown."""
        ...

    async def embed(self, text: str) -> Vector:
        """Embed one text; raises TextTooLong, EmbedderBusy (queue full: shed), EmbedderError."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent."""
        ...


class ReadText(msgspec.Struct, frozen=True):
    """One text as an embedder has read it."""

    vector: Vector
    tokens: bytes
    """Its tokens' ids and directions, packed by `trust.alignment`."""


@runtime_checkable
class SupportsTokens(Protocol):
    """An embedder that also gives its tokens' vectors, out of the same pass."""

    async def read(self, text: str) -> ReadText:
        """Embed one text with its tokens; raises as `embed`."""
        ...


class IndexedText(msgspec.Struct, frozen=True):
    """One question in an index, and the key of the entry that answers it."""

    key: bytes
    """Exact key of the entry (32 bytes); unique in the index: a second add replaces the first."""
    text: str
    expires_at: UnixTime
    tokens: bytes = b""
    """As in `ReadText`; empty where the embedder gives none."""


class Neighbour(msgspec.Struct, frozen=True):
    """One search result."""

    score: Cosine
    item: IndexedText
    vector: bytes = b""
    """The item's own, as float32 in the machine's order; empty where an index keeps none."""


class VectorIndex(Protocol):
    """Nearest neighbours inside one hard partition; a partition never sees another's vectors.

    A partition is 32 bytes. The index is bound to one embedder id.
    """

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Insert or replace by item.key; visible to this process's next search at once."""
        ...

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """The k nearest live items, best first; an unknown partition gives an empty list."""
        ...

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remove items by entry key in any partition; returns how many were there."""
        ...

    async def clear(self) -> int:
        """Remove everything; returns how many items there were."""
        ...

    async def count(self) -> int:
        """How many live items there are, over all partitions."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent; later calls raise VectorIndexError."""
        ...


@runtime_checkable
class SupportsPartitionDrop(Protocol):
    """A vector index that can remove one partition at once."""

    async def drop_partition(self, partition: bytes) -> int:
        """Remove all its items; returns how many live ones there were."""
        ...


@runtime_checkable
class SupportsSearchAll(Protocol):
    """An index that can search all partitions at once, for an operator."""

    async def search_all(self, vector: Vector, *, floor: Cosine, limit: int) -> list[Neighbour]:
        """Live items of any partition at or above the floor, best first; may take seconds."""
        ...
