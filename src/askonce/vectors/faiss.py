"""The local index with graphs by FAISS: the same file and the same promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.vectors.local import LocalIndex, place

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.ports import Clock, Sink
    from askonce.vectors.binding import Binding
    from askonce.vectors.partition import Graph


def open_faiss(url: str, *, binding: Binding, clock: Clock, sink: Sink) -> FaissIndex:
    """`faiss` in the data directory, or `faiss:///path`."""
    return FaissIndex(
        place(url, binding),
        embedder=binding.embedder,
        dim=binding.dim,
        max_entries=binding.max_entries,
        clock=clock,
        sink=sink,
    )


class FaissIndex(LocalIndex):
    """A VectorIndex; make it inside a running event loop."""

    _extra = "faiss"

    @staticmethod
    def _graph_kind() -> Callable[[int], Graph]:
        from askonce.vectors.faiss_graph import FaissGraph

        return FaissGraph
