"""A streamed answer on its way: cut into pieces for the readers, and read along for the cache."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from askonce.cache.flight import Piece
from askonce.canonical.answer import StreamReader
from askonce.canonical.sse import EventSplitter, data_of
from askonce.errors import AnswerUnusable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.canonical.answer import Answer


class Cutter:
    """Cuts a stream without loss; holds at most about `limit` bytes of whatever the engine sends.

    A stream past the limit is cut on, but read along no more.
    """

    def __init__(self, limit: int) -> None:
        """Start before the first byte."""
        self._limit = limit
        self._splitter = EventSplitter()
        self._reader = StreamReader()
        self._seen = 0
        self._held = 0

    def cut(self, chunk: bytes) -> list[Piece]:
        """The pieces that this chunk completes: events, or part of one that is past the limit."""
        self._seen += len(chunk)
        if self._seen > self._limit:
            self._reader = StreamReader()
        pieces = [self._piece(event) for event in self._splitter.feed(chunk)]
        self._held += len(chunk) - sum(len(piece.data) for piece in pieces)
        if self._held > self._limit:
            pieces += self.rest()
        return pieces

    def rest(self) -> list[Piece]:
        """What is left of an event that has not ended."""
        tail, self._splitter, self._held = self._splitter.tail, EventSplitter(), 0
        return [Piece(tail, usage_only=False)] if tail else []

    def answer(self) -> Answer:
        """The whole answer; raises AnswerUnusable when it cannot be stored or replayed."""
        return self._reader.finish()

    def _piece(self, event: bytes) -> Piece:
        data = data_of(event)
        return Piece(event, usage_only=data is not None and self._reader.feed(data))


class Uncut:
    """Stands for a Cutter where the body is none of ours to read."""

    def __init__(self, reason: str) -> None:
        """reason: why the answer cannot be stored."""
        self._reason = reason

    def cut(self, chunk: bytes) -> list[Piece]:
        """The chunk as it is."""
        return [Piece(chunk, usage_only=False)]

    def rest(self) -> list[Piece]:
        """Nothing is ever held back."""
        return []

    def answer(self) -> Answer:
        """Raises AnswerUnusable."""
        raise AnswerUnusable(self._reason)


async def read_up_to(chunks: AsyncIterator[bytes], limit: int) -> tuple[bytes, bool]:
    """A body and True, or what came of it when it passed the limit and False."""
    read: list[bytes] = []
    size = 0
    async for chunk in chunks:
        read.append(chunk)
        size += len(chunk)
        if size > limit:
            return b"".join(read), False
    return b"".join(read), True


async def close(chunks: AsyncIterator[bytes]) -> None:
    """End a generator here, and not whenever it is collected."""
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


async def chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A body whose beginning has been read."""
    yield first
    async for chunk in rest:
        yield chunk
