"""Tier 3: the answer to the same question in other words."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from askonce.errors import EmbedderBusy
from askonce.events import GuardVetoed
from askonce.trust.guards import veto

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from askonce.ports import Embedder, IndexedText, Neighbour, Sink, Vector, VectorIndex
    from askonce.units import Cosine, Seconds


class Finding:
    """What a search brought; candidates are proven one by one, as far as somebody asks."""

    def __init__(self, vector: Vector, text: str, near: Sequence[Neighbour], sink: Sink) -> None:
        """near: candidates above the floor, best first."""
        self.vector = vector
        """The question's own vector, to be stored with a fresh answer."""
        self.detail = ""
        """Why the best candidate was refused, as far as `passed` was read; else empty."""
        self._text = text
        self._near = near
        self._sink = sink

    def passed(self) -> Iterator[Neighbour]:
        """Candidates against which no guard holds evidence, best first."""
        for neighbour in self._near:
            guard = veto(self._text, neighbour.item.text)
            if guard is None:
                yield neighbour
                continue
            self._sink.emit(GuardVetoed(guard))
            self.detail = self.detail or f"veto_{guard}"


class SemanticTier:
    """Questions by meaning, inside one hard partition."""

    def __init__(
        self,
        embedder: Embedder,
        index: VectorIndex,
        *,
        sink: Sink,
        floor: Cosine,
        neighbours: int,
        budget: Seconds,
    ) -> None:
        """Build over an embedder and an index bound to it.

        budget: a text that would take longer than this is not embedded on the request path.
        """
        self._embedder = embedder
        self._index = index
        self._sink = sink
        self._floor = floor
        self._neighbours = neighbours
        self._budget = budget

    async def find(self, partition: bytes, text: str) -> Finding:
        """Candidates for this question; raises EmbedderError, VectorIndexError."""
        self._check_time(text)
        vector = await self._embedder.embed(text)
        near = await self._index.search(partition, vector, k=self._neighbours)
        above = list(takewhile(lambda neighbour: neighbour.score >= self._floor, near))
        return Finding(vector, text, above, self._sink)

    async def keep(self, partition: bytes, item: IndexedText, vector: Vector | None) -> None:
        """Index a question that the engine has answered; raises EmbedderError, VectorIndexError."""
        if vector is None:
            self._check_time(item.text)
            vector = await self._embedder.embed(item.text)
        await self._index.add(partition, item, vector)

    async def forget(self, keys: Sequence[bytes]) -> None:
        """Remove questions whose entries are gone; raises VectorIndexError."""
        await self._index.delete(keys)

    def _check_time(self, text: str) -> None:
        if self._embedder.expected_time(text) > self._budget:
            raise EmbedderBusy("the embedder would take longer than the deadline")
