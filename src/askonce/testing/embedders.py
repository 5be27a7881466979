"""What every embedder must do, as a suite that any author can run, and a fake that does it.

await check_embedder(lambda: MyEmbedder(), window=256)

It raises AssertionError with the broken promise in plain words.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import zlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import numpy as np

from askonce.errors import EmbedderError, TextTooLong
from askonce.ports import Embedder, ReadText
from askonce.trust.alignment import pack, to_bytes
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.ports import Vector

MakeEmbedder = Callable[[], Embedder | Awaitable[Embedder]]
"""Makes a new embedder, open; each is made in the same way."""

_TEXTS = (
    "What is the capital of France?",
    "what is the capital of Germany?",
    "Convert 100 USD to EUR",
    "Convert 100 EUR to USD",
    "x",
    "é\u2028😀 日本語",
    " \t\n",
    "",
)


class HashingEmbedder:
    """A fake `Embedder`: a hashed bag of character trigrams, the same on every machine.

    Texts that share most of their letters are near; it knows nothing of meaning.
    """

    def __init__(self, *, dim: int = 64, window: int = 512) -> None:
        """dim: of its vectors. window: characters it reads at most."""
        self.id = f"hashing-{dim}-{window}"
        self.dim = dim
        self.window = window
        self.embedded: list[str] = []
        """Every text so far, in order."""
        self._closed = False

    def expected_time(self, text: str) -> Seconds:
        """A microsecond a character."""
        return Seconds(1e-6 * len(text))

    async def embed(self, text: str) -> Vector:
        """Embed one text; raises TextTooLong, and EmbedderError after close."""
        if self._closed:
            raise EmbedderError("the embedder is closed")
        if len(text) > self.window:
            raise TextTooLong(f"{len(text)} characters, the window holds {self.window}")
        self.embedded.append(text)
        return self._vector(f"\x02{text.lower()}\x03")

    async def close(self) -> None:
        """Refuse later calls; idempotent."""
        self._closed = True

    def _vector(self, padded: str) -> Vector:
        counts = np.zeros(self.dim, dtype=np.float32)
        for start in range(max(1, len(padded) - 2)):
            gram = padded[start : start + 3].encode("utf-8", "surrogatepass")
            digest = int.from_bytes(hashlib.blake2b(gram, digest_size=8).digest(), "big")
            counts[digest % self.dim] += 1.0 if digest >> 63 else -1.0
        if not counts.any():
            counts[0] = 1.0
        vector: Vector = (counts / np.linalg.norm(counts)).astype(np.float32)
        return vector


class TokenEmbedder(HashingEmbedder):
    """A `HashingEmbedder` that also gives a vector for each word, by the word's own letters."""

    def __init__(self, *, dim: int = 64, window: int = 512) -> None:
        """As of `HashingEmbedder`, with an id of its own."""
        super().__init__(dim=dim, window=window)
        self.id = f"tokens-{dim}-{window}"

    async def read(self, text: str) -> ReadText:
        """Embed one text with its words; raises as `embed`."""
        vector = await self.embed(text)
        words = text.lower().split()
        ids = [zlib.crc32(word.encode("utf-8", "surrogatepass")) % 30_000 for word in words]
        rows = [self._vector(f"\x02{word}\x03") for word in ("", *words, "")]
        return ReadText(vector, to_bytes(pack([0, *ids, 0], np.stack(rows))))


async def check_embedder(make_embedder: MakeEmbedder, *, window: int) -> None:
    """Hold an embedder against every sentence of `Embedder`.

    window: a text of as many words is surely too long; four texts must fit its queue.
    """
    for check in _CHECKS:
        embedder = await _made(make_embedder)
        try:
            await check(embedder)
        finally:
            await embedder.close()
    await _check_identity(await _made(make_embedder), await _made(make_embedder))
    await _check_window(await _made(make_embedder), window)
    await _check_close(await _made(make_embedder))


async def _made(make_embedder: MakeEmbedder) -> Embedder:
    made = make_embedder()
    return await made if inspect.isawaitable(made) else made


def _expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not kept:
        raise AssertionError(promise)


async def _vectors_are_unit(embedder: Embedder) -> None:
    for text in _TEXTS:
        vector = await embedder.embed(text)
        _expect(vector.dtype == np.float32, "a vector is float32")
        _expect(vector.shape == (embedder.dim,), "a vector has the shape (dim,)")
        _expect(abs(float(np.linalg.norm(vector)) - 1.0) < 1e-4, "a vector has unit length")


async def _same_text_same_vector(embedder: Embedder) -> None:
    first = [(await embedder.embed(text)).copy() for text in _TEXTS]
    for text, before in zip(reversed(_TEXTS), reversed(first), strict=True):
        again = await embedder.embed(text)
        _expect(float(before @ again) > 1 - 1e-5, "the same text gives the same vector")


async def _texts_differ(embedder: Embedder) -> None:
    one, other = await embedder.embed(_TEXTS[0]), await embedder.embed(_TEXTS[2])
    _expect(float(one @ other) < 0.9, "texts without likeness are apart")


async def _calls_may_overlap(embedder: Embedder) -> None:
    alone = await embedder.embed(_TEXTS[0])
    together = await asyncio.gather(*(embedder.embed(text) for text in _TEXTS[:4]))
    _expect(float(together[0] @ alone) > 1 - 1e-5, "calls that run at once each get theirs")
    _expect(float(together[0] @ together[2]) < 0.9, "calls that run at once each get theirs")


async def _time_is_foretold(embedder: Embedder) -> None:
    _expect(embedder.expected_time(_TEXTS[0]) >= 0.0, "expected_time is no less than 0")
    await asyncio.gather(*(embedder.embed(text) for text in _TEXTS[:4]))
    short, long = embedder.expected_time("short"), embedder.expected_time("words " * 20)
    _expect(0.0 <= short <= long, "a longer text is not expected to take less time")


async def _check_identity(one: Embedder, other: Embedder) -> None:
    try:
        _expect(
            bool(one.id) and one.id == other.id, "an embedder made the same way has the same id"
        )
        _expect(one.dim > 0 and one.dim == other.dim, "dim is the same for the same id")
        vectors = await one.embed(_TEXTS[0]), await other.embed(_TEXTS[0])
        _expect(float(vectors[0] @ vectors[1]) > 1 - 1e-5, "one id means one space of vectors")
    finally:
        await one.close()
        await other.close()


async def _check_window(embedder: Embedder, window: int) -> None:
    try:
        await embedder.embed("word " * window)
    except TextTooLong:
        return
    finally:
        await embedder.close()
    raise AssertionError("a text longer than the window raises TextTooLong and is not cut")


async def _check_close(embedder: Embedder) -> None:
    await embedder.close()
    await embedder.close()
    try:
        await embedder.embed(_TEXTS[0])
    except EmbedderError:
        return
    raise AssertionError("a call after close raises EmbedderError")


_CHECKS = (
    _vectors_are_unit,
    _same_text_same_vector,
    _texts_differ,
    _calls_may_overlap,
    _time_is_foretold,
)
