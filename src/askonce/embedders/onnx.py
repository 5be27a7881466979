"""Sentence embeddings by ONNX Runtime, one text at a time on a thread of low priority.

Batching gains next to nothing on a CPU, so texts wait in a short queue and are shed past it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

from askonce.embedders.fast import fast_model
from askonce.embedders.model import locate, tokenizer_beside
from askonce.embedders.session import Session
from askonce.errors import EmbedderBusy, EmbedderError
from askonce.events import Embedded
from askonce.ports import ReadText
from askonce.units import Seconds
from askonce.worker import Worker, WorkerBusy, WorkerClosed

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.config import SemanticConfig
    from askonce.embedders.wordpiece import WordPiece
    from askonce.ports import Clock, Sink, Vector
    from askonce.trust.alignment import TokenVectors

MAX_TOKENS = 256
"""The window all-MiniLM-L6-v2 was trained with, [CLS] and [SEP] included."""

_NICE = 10
_MEMO = 256
_WARM_UP = "How long does a warm-up of ten words take?"
_WEIGHT = 0.2
"""Of the newest time in the moving average."""

_CHARACTERS_PER_TOKEN = 4
_FIXED_TOKENS = 12
"""What a text costs beyond its tokens, in tokens: measured, 1.8 ms at 0.155 ms a token."""


class Encoder:
    """Tokenizer and model together: text to vector, blocking."""

    def __init__(self, tokenizer: WordPiece, session: Session, identity: str) -> None:
        """Take the parts, and try them on one text."""
        self._tokenizer = tokenizer
        self._session = session
        self.window = tokenizer.max_tokens
        self.id = identity
        self.dim = len(self.encode(_WARM_UP))

    @classmethod
    def load(cls, config: SemanticConfig, data_dir: Path, max_tokens: int) -> Encoder:
        """Find, check and load what the configuration names; raises ConfigError."""
        found = locate(config.model, config.hub, data_dir)
        if config.mode == "fast":
            found = fast_model(found, data_dir)
        tokenizer = tokenizer_beside(config.model, max_tokens)
        session = Session(found.path, threads=config.threads)
        return cls(tokenizer, session, _identity(found.digest, tokenizer.digest, config.mode))

    def encode(self, text: str) -> Vector:
        """Embed the text; raises TextTooLong, EmbedderError."""
        return self._session.run(self._tokenizer.encode(text))

    def read(self, text: str) -> tuple[Vector, TokenVectors]:
        """Embed the text, and keep its tokens' directions too; raises as `encode`."""
        from askonce.trust.alignment import pack  # needs numpy, which the extra brings

        ids = self._tokenizer.encode(text)
        tokens = self._session.tokens(ids)
        return self._session.pool(tokens), pack(ids, tokens)

    def read_packed(self, text: str) -> ReadText:
        """The same in the form that an index keeps; the vector cannot be written to."""
        from askonce.trust.alignment import to_bytes

        vector, tokens = self.read(text)
        vector.flags.writeable = False
        return ReadText(vector, to_bytes(tokens))


def _identity(model: str, vocabulary: str, mode: Literal["accurate", "fast"]) -> str:
    named = f"askonce-embedder/1\n{model}\n{vocabulary}\n{mode}\nmean,l2"
    return f"onnx-{mode}-{hashlib.sha256(named.encode()).hexdigest()[:16]}"


class OnnxEmbedder:
    """An Embedder; make it with `open`."""

    def __init__(
        self, encoder: Encoder, worker: Worker, *, queue: int, clock: Clock, sink: Sink
    ) -> None:
        """Take a loaded encoder and the thread it runs in."""
        self.id = encoder.id
        self.dim = encoder.dim
        self._encoder = encoder
        self._worker = worker
        self._queue = queue
        self._clock = clock
        self._sink = sink
        self._turn = asyncio.Lock()
        self._in_line = 0
        self._rate = 0.0
        self._tokens_ahead = 0.0
        self._embedded = 0
        self._shed = 0
        self._memo: OrderedDict[str, ReadText] = OrderedDict()

    @classmethod
    async def open(
        cls,
        config: SemanticConfig,
        *,
        data_dir: Path,
        clock: Clock,
        sink: Sink,
        max_tokens: int = MAX_TOKENS,
    ) -> OnnxEmbedder:
        """Load the model off the event loop; raises ConfigError, MissingExtra.

        It may download (only when `config.hub` is set) and may make the fast model, once.
        """
        worker = Worker("askonce-embedder", limit=config.queue + 1, nice=_NICE)
        try:
            encoder = await worker.run(lambda: Encoder.load(config, data_dir, max_tokens))
            embedder = cls(encoder, worker, queue=config.queue, clock=clock, sink=sink)
            _, took = await worker.run(lambda: embedder._timed(_WARM_UP))
            embedder._rate = took / embedder._cost(_WARM_UP)
        except BaseException:
            await worker.close()
            raise
        return embedder

    @property
    def expected_wait(self) -> Seconds:
        """How long a text that came now would wait before its turn, by the recent speed."""
        return Seconds(self._tokens_ahead * self._rate)

    def expected_time(self, text: str) -> Seconds:
        """How long `embed` would take now, by the length of this text and of those in line."""
        if text in self._memo:
            return Seconds(0.0)
        return Seconds((self._tokens_ahead + self._cost(text)) * self._rate)

    async def embed(self, text: str) -> Vector:
        """Embed one text; raises TextTooLong, EmbedderBusy, EmbedderError."""
        return (await self.read(text)).vector

    async def read(self, text: str) -> ReadText:
        """Embed one text with its tokens; raises as `embed`."""
        known = self._memo.get(text)
        if known is not None:
            self._memo.move_to_end(text)
            return known
        if self._waiting >= self._queue:
            self._shed += 1
            raise EmbedderBusy(f"{self._waiting} texts wait")
        cost = self._cost(text)
        self._tokens_ahead += cost
        try:
            found, took = await self._in_turn(text)
        finally:
            self._tokens_ahead -= cost
        self._note(took, cost)
        self._remember(text, found)
        return found

    def statistics(self) -> dict[str, float]:
        """Figures since the start, and the state of the queue."""
        return {
            "embedded": self._embedded,
            "shed": self._shed,
            "waiting": self._waiting,
            "seconds_per_token": self._rate,
            "expected_wait_seconds": self.expected_wait,
        }

    async def close(self) -> None:
        """Finish the text in work and end the thread; idempotent."""
        await self._worker.close()

    @property
    def _waiting(self) -> int:
        """Texts in line and in work, given up ones that still compute included."""
        return self._in_line + self._worker.waiting

    async def _in_turn(self, text: str) -> tuple[ReadText, float]:
        """One job at a time goes to the worker: it would hand a batch back only as a whole."""
        self._in_line += 1
        try:
            await self._turn.acquire()
        finally:
            self._in_line -= 1
        try:
            return await self._worker.run(lambda: self._timed(text))
        except WorkerBusy as error:
            raise EmbedderBusy("its queue is full") from error
        except WorkerClosed as error:
            raise EmbedderError("the embedder is closed") from error
        finally:
            self._turn.release()

    def _timed(self, text: str) -> tuple[ReadText, float]:
        start = self._clock.monotonic()
        return self._encoder.read_packed(text), self._clock.monotonic() - start

    def _cost(self, text: str) -> float:
        """About how many tokens of work the text is."""
        return _FIXED_TOKENS + min(len(text) / _CHARACTERS_PER_TOKEN, self._encoder.window)

    def _note(self, took: float, cost: float) -> None:
        self._embedded += 1
        self._rate += _WEIGHT * (took / cost - self._rate)
        self._sink.emit(Embedded(took=Seconds(took)))

    def _remember(self, text: str, found: ReadText) -> None:
        self._memo[text] = found
        if len(self._memo) > _MEMO:
            self._memo.popitem(last=False)
