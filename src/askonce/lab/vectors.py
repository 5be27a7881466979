"""Embeddings of many texts, kept on disk between runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from askonce.errors import TextTooLong

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.ports import Embedder, Vector

_SAVE_EVERY = 2000
_REPORT_EVERY = 200

Progress = Callable[[str], None]


class VectorCache:
    """Vectors by text for one embedder, in one file of the given folder, or in memory alone."""

    def __init__(self, embedder: Embedder, folder: Path | None, progress: Progress) -> None:
        """Read what an earlier run has saved for this embedder's id."""
        self._embedder = embedder
        self._progress = progress
        self._known: dict[str, Vector] = {}
        self._file: Path | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            name = hashlib.sha256(embedder.id.encode()).hexdigest()[:16]
            self._file = folder / f"vectors-{name}.npz"
            self._read()

    def __len__(self) -> int:
        """How many texts are known."""
        return len(self._known)

    async def embed(self, texts: Iterable[str]) -> dict[str, Vector]:
        """The vector of each text; texts longer than the embedder's window are left out."""
        wanted = dict.fromkeys(texts)
        missing = [text for text in wanted if _digest(text) not in self._known]
        for count, text in enumerate(missing, 1):
            try:
                self._known[_digest(text)] = await self._embedder.embed(text)
            except TextTooLong:
                self._known[_digest(text)] = np.zeros(0, dtype=np.float32)
            if count % _REPORT_EVERY == 0:
                self._progress(f"  embedded {count} of {len(missing)}")
            if count % _SAVE_EVERY == 0:
                self._save()
        if missing:
            self._save()
        found = {text: self._known[_digest(text)] for text in wanted}
        return {text: vector for text, vector in found.items() if vector.size}

    def _read(self) -> None:
        if self._file is None or not self._file.exists():
            return
        with np.load(self._file, allow_pickle=False) as saved:
            for digest, vector in zip(saved["digests"].tolist(), saved["vectors"], strict=True):
                self._known[digest] = vector if vector.any() else vector[:0]

    def _save(self) -> None:
        if self._file is None:
            return
        vectors = np.zeros((len(self._known), self._embedder.dim), dtype=np.float32)
        for row, vector in zip(vectors, self._known.values(), strict=True):
            row[: vector.size] = vector
        partial = self._file.with_suffix(".partial.npz")
        np.savez(partial, digests=np.array(list(self._known)), vectors=vectors)
        partial.replace(self._file)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
