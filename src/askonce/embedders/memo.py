"""Texts that were embedded lately, before any embedder; and what is put before all texts."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING

from askonce.ports import ReadText, SupportsTokens
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from askonce.ports import Embedder, Vector

OVERHEAD = 400
"""Bytes that a remembered text costs besides its characters, vector and tokens."""


class MemoEmbedder:
    """An Embedder over another that knows recent texts, within a bound of bytes.

    Its vectors cannot be written to.
    """

    def __init__(self, embedder: Embedder, *, max_bytes: int, prefix: str = "") -> None:
        """prefix: put before every text, for models that were trained so; part of the id."""
        self.id = embedder.id if not prefix else f"{embedder.id}-{_named(prefix)}"
        self.dim = embedder.dim
        self._embedder = embedder
        self._prefix = prefix
        self._max_bytes = max_bytes
        self._known: OrderedDict[str, ReadText] = OrderedDict()
        self._size = 0

    def expected_time(self, text: str) -> Seconds:
        """See `Embedder`; nothing for a text that is known."""
        if text in self._known:
            return Seconds(0.0)
        return self._embedder.expected_time(self._prefix + text)

    async def embed(self, text: str) -> Vector:
        """See `Embedder`."""
        return (await self._found(text, self._embed)).vector

    async def close(self) -> None:
        """See `Embedder`."""
        self._forget(0)
        await self._embedder.close()

    async def _embed(self, text: str) -> ReadText:
        return ReadText(await self._embedder.embed(text), b"")

    async def _found(self, text: str, read: Callable[[str], Awaitable[ReadText]]) -> ReadText:
        known = self._known.get(text)
        if known is not None:
            self._known.move_to_end(text)
            return known
        found = await read(self._prefix + text)
        found.vector.flags.writeable = False
        cost = _cost(text, found)
        if text not in self._known and cost <= self._max_bytes:
            self._known[text] = found
            self._size += cost
            self._forget(self._max_bytes)
        return found

    def _forget(self, bound: int) -> None:
        while self._size > bound and self._known:
            self._size -= _cost(*self._known.popitem(last=False))


class MemoTokenEmbedder(MemoEmbedder):
    """The same over an embedder that gives its tokens' vectors."""

    def __init__(self, embedder: Embedder, *, max_bytes: int, prefix: str = "") -> None:
        """embedder: one that `SupportsTokens`."""
        super().__init__(embedder, max_bytes=max_bytes, prefix=prefix)
        assert isinstance(embedder, SupportsTokens)  # noqa: S101 - `remembering` chose by it
        self._read = embedder.read

    async def embed(self, text: str) -> Vector:
        """See `Embedder`; tokens come out of the same pass, and are known with it."""
        return (await self.read(text)).vector

    async def read(self, text: str) -> ReadText:
        """See `SupportsTokens`."""
        return await self._found(text, self._read)


def remembering(embedder: Embedder, *, max_bytes: int, prefix: str = "") -> MemoEmbedder:
    """The embedder with a memo in front, and all its abilities."""
    kind = MemoTokenEmbedder if isinstance(embedder, SupportsTokens) else MemoEmbedder
    return kind(embedder, max_bytes=max_bytes, prefix=prefix)


def _cost(text: str, found: ReadText) -> int:
    return 4 * len(text) + found.vector.nbytes + len(found.tokens) + OVERHEAD


def _named(prefix: str) -> str:
    return sha256(prefix.encode("utf-8", "surrogatepass")).hexdigest()[:8]
