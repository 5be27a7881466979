"""Embeddings by sentence-transformers, from a model folder on this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askonce.embedders.model import file_digest
from askonce.embedders.queued import NICE, QueuedEmbedder
from askonce.errors import ConfigError, EmbedderError, MissingExtra, TextTooLong
from askonce.ports import ReadText
from askonce.worker import Worker

if TYPE_CHECKING:
    from askonce.config import SemanticConfig
    from askonce.ports import Clock, Sink, Vector


class SentenceEncoder:
    """A loaded model: text to vector, blocking."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        """Load it without asking any hub; raises MissingExtra, ConfigError."""
        if not folder.is_dir():
            raise ConfigError(f"semantic.model: there is no folder {folder}")
        try:
            import numpy as np
            import torch
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtra("sentence-transformers", "sentence-transformers") from error
        self._np = np
        torch.set_num_threads(threads)
        try:
            self._model: Any = SentenceTransformer(
                str(folder), device="cpu", local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ConfigError(f"{folder} is not a model of sentence-transformers") from error
        self.window = int(self._model.max_seq_length or 512)
        self.id = f"sentences-{_folder_digest(folder)[:16]}"
        self.dim = len(self._vector("How many numbers are there?"))

    @classmethod
    def load(cls, config: SemanticConfig) -> SentenceEncoder:
        """Load what the configuration names; raises as the constructor."""
        return cls(Path(config.model).expanduser(), threads=config.threads)

    def read_packed(self, text: str) -> ReadText:
        """Embed the text, without tokens; raises TextTooLong, EmbedderError."""
        count = len(self._model.tokenizer(text, truncation=False, verbose=False)["input_ids"])
        if count > self.window:
            raise TextTooLong(f"{count} tokens, the window holds {self.window}")
        vector = self._vector(text)
        vector.flags.writeable = False
        return ReadText(vector, b"")

    def _vector(self, text: str) -> Vector:
        try:
            found = self._model.encode(text, convert_to_numpy=True, show_progress_bar=False)
        except (RuntimeError, ValueError, TypeError) as error:
            raise EmbedderError(f"the model failed: {type(error).__name__}") from error
        values = self._np.asarray(found, dtype=self._np.float64)
        length = float(self._np.linalg.norm(values))
        if values.ndim != 1 or not 0.0 < length < float("inf"):
            raise EmbedderError("the model gave a vector without a direction")
        vector: Vector = (values / length).astype(self._np.float32)
        return vector


class SentenceEmbedder(QueuedEmbedder):
    """An Embedder; make it with `open`."""

    @classmethod
    async def open(cls, config: SemanticConfig, *, clock: Clock, sink: Sink) -> SentenceEmbedder:
        """Load the model off the event loop; raises ConfigError, MissingExtra, EmbedderError."""
        worker = Worker("askonce-embedder", limit=config.queue + 1, nice=NICE)
        try:
            encoder = await worker.run(lambda: SentenceEncoder.load(config))
            embedder = cls(encoder, worker, queue=config.queue, clock=clock, sink=sink)
            await embedder.warm_up()
        except BaseException:
            await worker.close()
            raise
        return embedder


def _folder_digest(folder: Path) -> str:
    """SHA-256 over the names and bytes of all files: weights, tokenizer, pooling."""
    digest = hashlib.sha256(b"askonce sentences/1")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"\n{path.relative_to(folder)}\n{file_digest(path)}".encode())
    return digest.hexdigest()
