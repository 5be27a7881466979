"""What every vector index is bound to, and what it asks of a vector."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import VectorIndexError

if TYPE_CHECKING:
    from askonce.ports import Vector

KEY_BYTES = 32
"""Length of a key and of a partition."""

_LENGTH_OFF = 1e-2


class Binding(msgspec.Struct, frozen=True):
    """One embedder's vectors, and what an index of them may take."""

    embedder: str
    """Its id: vectors of two ids never meet."""
    dim: int
    max_entries: int
    """Items over all partitions; past it the first to die leave."""
    data_dir: Path
    """Where files go when a URL names no place."""

    def name(self, prefix: str) -> str:
        """Of the table, index, collection or keys: another embedder or dimension is another."""
        digest = blake2b(self.embedder.encode(), digest_size=8).hexdigest()
        return f"{prefix}_{digest}_{self.dim}"


def check_vector(vector: Vector, dim: int) -> None:
    """Refuse what is not a unit vector of that dimension; raises VectorIndexError."""
    if vector.shape != (dim,) or vector.dtype != "float32":
        raise VectorIndexError(f"not a float32 vector of {dim}: {vector.shape}")
    if not abs(float(vector @ vector) - 1.0) < _LENGTH_OFF:
        raise VectorIndexError("the vector is not of unit length")


def check_names(*names: bytes) -> None:
    """Refuse keys and partitions of another length; raises VectorIndexError."""
    if any(len(name) != KEY_BYTES for name in names):
        raise VectorIndexError(f"keys and partitions have {KEY_BYTES} bytes")
