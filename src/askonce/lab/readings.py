"""Texts as the verifier reads them, kept on disk between runs: one file a set."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

import numpy as np

from askonce.errors import TextTooLong
from askonce.ports import ReadText, SupportsTokens
from askonce.trust.alignment import from_bytes
from askonce.trust.text.reading import analyse
from askonce.trust.verifier import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from askonce.lab.vectors import Progress
    from askonce.ports import Embedder

_REPORT_EVERY = 500
_NO_TOKENS = b"\0\0"


class Readings:
    """Vectors and token vectors by text for one embedder."""

    def __init__(self, embedder: Embedder, folder: Path | None, progress: Progress) -> None:
        """folder: keeps what was read; None keeps nothing."""
        self._embedder = embedder
        self._folder = folder
        self._progress = progress
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    async def read(self, name: str, texts: Iterable[str]) -> dict[str, Text]:
        """Each text ready to compare; those longer than the embedder's window are left out."""
        wanted = list(dict.fromkeys(texts))
        file = self._file(name, wanted)
        if file is not None and file.exists():
            found = _load(file)
        else:
            found = await self._read(name, wanted)
            if file is not None:
                _save(file, found)
        dim = self._embedder.dim
        return {
            text: Text(analyse(text), from_bytes(each.tokens, dim), each.vector)
            for text, each in zip(wanted, found, strict=True)
            if each.vector.any()
        }

    def _file(self, name: str, texts: Sequence[str]) -> Path | None:
        if self._folder is None:
            return None
        told = hashlib.sha256(self._embedder.id.encode())
        for text in texts:
            told.update(text.encode("utf-8", "surrogatepass") + b"\0")
        return self._folder / f"readings-{name}-{told.hexdigest()[:16]}.npz"

    async def _read(self, name: str, texts: Sequence[str]) -> list[ReadText]:
        found = []
        begun = time.monotonic()
        for count, text in enumerate(texts, 1):
            found.append(await self._one(text))
            if count % _REPORT_EVERY == 0:
                left = (time.monotonic() - begun) / count * (len(texts) - count)
                self._progress(f"{name}: embedded {count} of {len(texts)}, {left:.0f} s left")
        return found

    async def _one(self, text: str) -> ReadText:
        try:
            if isinstance(self._embedder, SupportsTokens):
                return await self._embedder.read(text)
            return ReadText(await self._embedder.embed(text), _NO_TOKENS)
        except TextTooLong:
            return ReadText(np.zeros(self._embedder.dim, dtype=np.float32), _NO_TOKENS)


def _save(file: Path, found: Sequence[ReadText]) -> None:
    partial = file.with_suffix(".partial.npz")
    np.savez(
        partial,
        vectors=np.array([each.vector for each in found], dtype=np.float32),
        sizes=np.array([len(each.tokens) for each in found], dtype=np.int64),
        tokens=np.frombuffer(b"".join(each.tokens for each in found), dtype=np.uint8),
    )
    partial.replace(file)


def _load(file: Path) -> list[ReadText]:
    with np.load(file, allow_pickle=False) as saved:
        vectors, ends = saved["vectors"], np.cumsum(saved["sizes"]).tolist()
        tokens = saved["tokens"].tobytes()
    starts = [0, *ends[:-1]]
    packed = [tokens[start:end] for start, end in zip(starts, ends, strict=True)]
    return [ReadText(vector, each) for vector, each in zip(vectors, packed, strict=True)]
