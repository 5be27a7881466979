"""Tier 3: the answer to the same question in other words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from askonce.errors import EmbedderBusy
from askonce.events import GuardVetoed
from askonce.ports import ReadText, SupportsTokens
from askonce.trust.kept import kept
from askonce.trust.text.context import Side, estranged
from askonce.trust.text.guards import veto

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from askonce.canonical.entry import Entry
    from askonce.canonical.request import Question
    from askonce.ports import Embedder, IndexedText, Neighbour, Sink, VectorIndex
    from askonce.trust.sight import Verdict
    from askonce.units import Cosine, Seconds


def one_question(asked: Question, cached: Entry) -> bool:
    """Whether questions that pass for one by their texts are one after what was said before."""
    if not asked.open:
        return True
    one, other = Side(asked.text, asked.turns), Side(cached.question, cached.turns)
    return estranged(one, other) is None


class Finding:
    """What a search brought; candidates are proven one by one, as far as somebody asks."""

    def __init__(
        self, text: str, read: ReadText, near: Sequence[Neighbour], *, floor: Cosine, sink: Sink
    ) -> None:
        """near: best first; floor: what the guards alone are trusted with."""
        self.text = text
        self.read = read
        """The question's own vectors, to be stored with a fresh answer."""
        self.near = near
        self.verdict: Verdict | None = None
        self.detail = ""
        """Why the best candidate was refused, as far as `passed` was read; else empty."""
        self._floor = floor
        self._sink = sink

    def weighed(self, verdict: Verdict) -> None:
        """Take the verdict that decides instead of the floor and the guards."""
        self.verdict = verdict
        for guard in verdict.vetoes:
            self._vetoed(guard)

    def passed(self) -> Iterator[Neighbour]:
        """Candidates that may be served, best first."""
        if self.verdict is not None:
            yield from (self.near[place] for place in self.verdict.order)
            return
        for neighbour in self.near:
            if not neighbour.score >= self._floor:  # not even one that is no number
                return
            guard = veto(self.text, neighbour.item.text)
            if guard is None:
                yield neighbour
            else:
                self._vetoed(guard)

    def estranged(self) -> None:
        """Tell that a candidate's question means another one after what was said before it."""
        self._vetoed("context")

    def _vetoed(self, guard: str) -> None:
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
        tokens: bool = False,
    ) -> None:
        """Build over an embedder and an index bound to it.

        budget: a text that would take longer than this is not embedded on the request path.
        tokens: keep token vectors, 384 bytes each, and readings, 1 KiB each, with the questions; a
        verifier needs them.
        """
        self._embedder = embedder
        self._index = index
        self._sink = sink
        self._floor = floor
        self._neighbours = neighbours
        self._budget = budget
        self._tokens = tokens
        self._reading = 0

    async def find(self, partition: bytes, text: str) -> Finding:
        """Candidates for this question; raises EmbedderError, VectorIndexError."""
        read = await self._read(text)
        near = await self._index.search(partition, read.vector, k=self._neighbours)
        return Finding(text, read, near, floor=self._floor, sink=self._sink)

    async def keep(self, partition: bytes, item: IndexedText, read: ReadText | None) -> None:
        """Index a question that the engine has answered; raises EmbedderError, VectorIndexError."""
        if read is None:
            read = await self._read(item.text)
        known = msgspec.structs.replace(item, tokens=kept(read.tokens, item.text))
        await self._index.add(partition, known, read.vector)

    async def keep_late(self, partition: bytes, item: IndexedText) -> None:
        """Index a question however long it takes; raises as `keep`."""
        read = await self._embed(item.text)
        await self.keep(partition, item, read)

    @property
    def reading(self) -> int:
        """Texts that are being embedded now, or wait for it."""
        return self._reading

    async def forget(self, keys: Sequence[bytes]) -> None:
        """Remove questions whose entries are gone; raises VectorIndexError."""
        await self._index.delete(keys)

    async def _read(self, text: str) -> ReadText:
        if self._embedder.expected_time(text) > self._budget:
            raise EmbedderBusy("the embedder would take longer than the deadline")
        return await self._embed(text)

    async def _embed(self, text: str) -> ReadText:
        self._reading += 1
        try:
            if self._tokens and isinstance(self._embedder, SupportsTokens):
                return await self._embedder.read(text)
            return ReadText(await self._embedder.embed(text), b"")
        finally:
            self._reading -= 1
