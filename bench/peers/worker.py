"""A library that finds answers by meaning: `python -m bench.peers.worker KIND FOLDER URL`.

Reads a JSON request a line and prints a JSON reply a line. Runs under the peer's own interpreter,
so it imports nothing of this package's but what needs only NumPy, msgspec and ONNX Runtime.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Vector = NDArray[np.float32]


class Library(Protocol):
    """A cache under measurement."""

    def put(self, pairs: Iterable[tuple[str, str]]) -> list[float]:
        """Store questions and answers; seconds that each took."""
        ...

    def get(self, texts: Iterable[str]) -> tuple[list[float], list[str | None]]:
        """Look up one after the other; seconds that each took, and the answers."""
        ...


class Texts:
    """Vectors of texts: some at hand, all others by the model that AskOnce ships with."""

    def __init__(self, folder: Path) -> None:
        """Load the model."""
        from askonce.config import SemanticConfig
        from askonce.embedders.onnx import MAX_TOKENS, Encoder

        self._encoder = Encoder.load(SemanticConfig(), folder, MAX_TOKENS)
        self._known: dict[str, Vector] = {}

    def know(self, texts: list[str], file: str) -> None:
        """Have their vectors at hand from now on."""
        self._known.update(zip(texts, np.load(file), strict=True))

    def vector(self, text: str) -> Vector:
        """One text's, of unit length."""
        known = self._known.get(text)
        return self._encoder.encode(text) if known is None else known


class Called:
    """A library with blocking calls."""

    def __init__(self, put: Callable[[str, str], object], get: Callable[[str], Any]) -> None:
        """put: of a question and its answer; get: the answer or nothing."""
        self._put, self._get = put, get

    def put(self, pairs: Iterable[tuple[str, str]]) -> list[float]:
        """Store one after the other."""
        spans = []
        for question, answer in pairs:
            began = time.perf_counter()
            self._put(question, answer)
            spans.append(time.perf_counter() - began)
        return spans

    def get(self, texts: Iterable[str]) -> tuple[list[float], list[str | None]]:
        """Look up one after the other."""
        spans, answers = [], []
        for text in texts:
            began = time.perf_counter()
            answers.append(self._get(text))
            spans.append(time.perf_counter() - began)
        return spans, answers


def redisvl(texts: Texts, folder: Path, url: str) -> Called:
    """Its SemanticCache, with its defaults but for the vectors."""
    del folder
    from redisvl.extensions.cache.llm import SemanticCache
    from redisvl.utils.vectorize import CustomTextVectorizer

    embed = CustomTextVectorizer(embed=lambda text: texts.vector(text).tolist())
    cache = SemanticCache(vectorizer=embed, redis_url=url)

    def get(text: str) -> str | None:
        found = cache.check(prompt=text)
        return str(found[0]["response"]) if found else None

    return Called(lambda question, answer: cache.store(prompt=question, response=answer), get)


def gptcache(texts: Texts, folder: Path, url: str) -> Called:
    """Its similar cache, with its defaults but for the vectors; url `quiet`: without a report."""
    from gptcache import Cache, Config
    from gptcache.adapter import api
    from gptcache.embedding.base import BaseEmbedding

    class Embedding(BaseEmbedding):
        @property
        def dimension(self) -> int:
            return len(texts.vector("warm"))

        def to_embeddings(self, data: str, **_: object) -> Vector:
            return texts.vector(data)

    cache = Cache()
    config = Config(disable_report=url == "quiet")
    place = str(folder / "gptcache")
    api.init_similar_cache(data_dir=place, cache_obj=cache, embedding=Embedding(), config=config)
    return Called(
        lambda question, answer: api.put(question, answer, cache_obj=cache),
        lambda text: api.get(text, cache_obj=cache),
    )


class Own:
    """AskOnce's third tier whole: search, guards, verifier, decision and the stored answer."""

    def __init__(self, folder: Path) -> None:
        """Open all as the gateway does."""
        from askonce.clock import SystemClock

        self._loop = asyncio.new_event_loop()
        self._clock = SystemClock()
        self._loop.run_until_complete(self._open(folder))

    async def _open(self, folder: Path) -> None:
        from askonce.config import SemanticConfig
        from askonce.embedders.onnx import OnnxEmbedder
        from askonce.stores.sqlite.store import SqliteStore
        from askonce.tiers.semantic import SemanticTier
        from askonce.trust.account.asked import Place
        from askonce.trust.account.ledger import Policy
        from askonce.trust.desk import TrustDesk
        from askonce.trust.prior import shipped
        from askonce.trust.sight import Manners
        from askonce.units import Cosine
        from askonce.vectors.local import LocalIndex
        from bench.lookup import Silent

        config = SemanticConfig()
        shared: dict[str, Any] = {"clock": self._clock, "sink": Silent()}
        inner = await OnnxEmbedder.open(config, data_dir=folder, **shared)
        self._embedder = AtHand(inner)
        path = folder / "vectors.sqlite3"
        most = config.max_entries
        index = LocalIndex(path, embedder=inner.id, dim=inner.dim, max_entries=most, **shared)
        self._store = SqliteStore(folder / "answers.sqlite3", max_bytes=2**28, **shared)
        self._tier = SemanticTier(
            self._embedder,
            index,
            sink=Silent(),
            floor=Cosine(config.floor),
            neighbours=config.neighbours,
            budget=Seconds(60),
            tokens=True,
        )
        manners = Manners(floor=Cosine(config.floor))
        self._desk = TrustDesk(shipped(), inner.dim, policy=Policy(), manners=manners, seed=b"b")
        self._partition = bytes(32)
        self._place = Place(b"bench", self._partition)
        self._index = index

    def embed(self, texts: list[str], file: str) -> None:
        """Have these at hand, and write their vectors for the others."""
        self._loop.run_until_complete(self._embedder.know(texts))
        np.save(file, np.stack([self._embedder.known[text].vector for text in texts]))

    def put(self, pairs: Iterable[tuple[str, str]]) -> list[float]:
        """Store one after the other."""
        return self._loop.run_until_complete(self._put_all(pairs))

    def get(self, texts: Iterable[str]) -> tuple[list[float], list[str | None]]:
        """Look up one after the other."""
        return self._loop.run_until_complete(self._get_all(texts))

    async def _put_all(self, pairs: Iterable[tuple[str, str]]) -> list[float]:
        from hashlib import sha256

        from askonce.ports import IndexedText
        from askonce.units import UnixTime

        spans = []
        for question, answer in pairs:
            began = time.perf_counter()
            key = sha256(question.encode()).digest()
            await self._store.put(key, answer.encode(), ttl=Seconds(3600))
            item = IndexedText(key, question, UnixTime(time.time() + 86400))
            await self._tier.keep(self._partition, item, None)
            spans.append(time.perf_counter() - began)
        await self._index.search(self._partition, np.ones(384, np.float32) / 384**0.5, k=1)
        await self._index.settled()
        return spans

    async def _get_all(self, texts: Iterable[str]) -> tuple[list[float], list[str | None]]:
        spans, answers = [], []
        for text in texts:
            began = time.perf_counter()
            answers.append(await self._find(text))
            spans.append(time.perf_counter() - began)
        return spans, answers

    async def _find(self, text: str) -> str | None:
        found = await self._tier.find(self._partition, text)
        found.near = self._desk.current(self._place, found.near)
        verdict = self._desk.judge(self._place, text, found.read, found.near, os.urandom(8).hex())
        found.weighed(verdict)
        served = next(found.passed(), None)
        if served is None:
            return None
        value = await self._store.get(served.item.key)
        return None if value is None else value.decode()


class AtHand:
    """An embedder that remembers what it was told to."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - an embedder that gives tokens too
        """inner: embeds all others."""
        self._inner = inner
        self.id, self.dim = inner.id, inner.dim
        self.known: dict[str, Any] = {}

    async def know(self, texts: list[str]) -> None:
        """Embed them now."""
        for text in texts:
            self.known[text] = await self._inner.read(text)

    def expected_time(self, text: str) -> Seconds:
        """Not known, so none."""
        del text
        return Seconds(0)

    async def embed(self, text: str) -> Vector:
        """Only the vector."""
        vector: Vector = (await self.read(text)).vector
        return vector

    async def read(self, text: str) -> Any:  # noqa: ANN401 - a ReadText
        """With its tokens."""
        known = self.known.get(text)
        return await self._inner.read(text) if known is None else known

    async def close(self) -> None:
        """Release the model."""
        await self._inner.close()


def main() -> None:
    """Serve until the input ends."""
    kind, place, url = sys.argv[1:]
    folder, out = Path(place), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no reply
    texts: Texts | None = None
    if kind == "askonce":
        library: Library = Own(folder)
    else:
        texts = Texts(folder)
        library = {"redisvl": redisvl, "gptcache": gptcache}[kind](texts, folder, url)
    print(json.dumps("ready"), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(_reply(library, texts, json.loads(line))), file=out, flush=True)


def _reply(library: Library, texts: Texts | None, job: dict[str, Any]) -> object:
    match job:
        case {"embed": asked, "file": file}:
            if isinstance(library, Own):
                library.embed(asked, file)
            elif texts is not None:
                texts.know(asked, file)
            return len(asked)
        case {"put": asked}:
            return library.put(asked)
        case {"get": asked}:
            before = time.process_time()
            spans, answers = library.get(asked)
            return spans, answers, (time.process_time() - before) / len(asked)
    raise ValueError(job)


if __name__ == "__main__":
    main()
