"""What the tests of all shared indexes have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.testing import RecordingSink
from askonce.vectors.binding import Binding
from askonce.vectors.urls import open_index

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from askonce.ports import Clock, VectorIndex

DIM = 8


def opens(
    url: str, clock: Clock, folder: Path, *, embedder: str = "e", max_entries: int = 10_000
) -> Callable[[], VectorIndex]:
    """Makes indexes at one URL for one embedder."""
    binding = Binding(embedder, DIM, max_entries, folder)
    return lambda: open_index(url, binding=binding, clock=clock, sink=RecordingSink())
