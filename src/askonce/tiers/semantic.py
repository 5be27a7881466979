"""Tier 3: the answer to the same question in other words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from askonce.errors import EmbedderBusy
from askonce.events import GuardVetoed
from askonce.trust.guards import veto

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Embedder, IndexedText, Neighbour, Sink, Vector, VectorIndex
    from askonce.units import Cosine, Seconds


class Finding(NamedTuple):
    """What a search brought."""

    vector: Vector
    """The question's own vector, to be stored with a fresh answer."""
    passed: tuple[Neighbour, ...]
    """Candidates that passed floor and guards, best first."""
    detail: str
    """Why the best candidate was refused, or empty."""


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
        passed, detail = self._prove(text, near)
        return Finding(vector, passed, detail)

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

    def _prove(self, text: str, near: Sequence[Neighbour]) -> tuple[tuple[Neighbour, ...], str]:
        passed: list[Neighbour] = []
        detail = ""
        for neighbour in near:
            if not neighbour.score >= self._floor:  # also when it is no number
                break
            guard = veto(text, neighbour.item.text)
            if guard is None:
                passed.append(neighbour)
                continue
            self._sink.emit(GuardVetoed(guard))
            detail = detail or f"veto_{guard}"
        return tuple(passed), detail
