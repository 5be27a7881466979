"""Sentence embeddings by ONNX Runtime."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

from askonce.embedders.fast import fast_model
from askonce.embedders.model import locate, tokenizer_beside
from askonce.embedders.queued import NICE, WARM_UP, QueuedEmbedder
from askonce.embedders.session import Session
from askonce.ports import ReadText
from askonce.worker import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.config import SemanticConfig
    from askonce.embedders.wordpiece import WordPiece
    from askonce.ports import Clock, Sink, Vector
    from askonce.trust.alignment import TokenVectors

MAX_TOKENS = 256
"""The window all-MiniLM-L6-v2 was trained with, [CLS] and [SEP] included."""


class Encoder:
    """Tokenizer and model together: text to vector, blocking."""

    def __init__(self, tokenizer: WordPiece, session: Session, identity: str) -> None:
        """Take the parts, and try them on one text."""
        self._tokenizer = tokenizer
        self._session = session
        self.window = tokenizer.max_tokens
        self.id = identity
        self.dim = len(self.encode(WARM_UP))

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
        from askonce.trust.alignment import pack

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


class OnnxEmbedder(QueuedEmbedder):
    """An Embedder; make it with `open`."""

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
        worker = Worker("askonce-embedder", limit=config.queue + 1, nice=NICE)
        try:
            encoder = await worker.run(lambda: Encoder.load(config, data_dir, max_tokens))
            embedder = cls(encoder, worker, queue=config.queue, clock=clock, sink=sink)
            await embedder.warm_up()
        except BaseException:
            await worker.close()
            raise
        return embedder
