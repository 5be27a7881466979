"""Questions as the embedder reads them, kept on disk one by one, so that a log may grow."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from typing import TYPE_CHECKING

import numpy as np

from askonce.errors import ConfigError, TextTooLong
from askonce.ports import ReadText, SupportsTokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from askonce.lab.vectors import Progress
    from askonce.ports import Embedder

    Text = Callable[[int], str]

_EVERY = 2.0
_COMMIT = 200


class KeptReadings:
    """Vectors and token vectors by text, for one embedder."""

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        """folder: keeps what was read between runs; None: a temporary file. Raises ConfigError."""
        self._embedder = embedder
        name = hashlib.sha256(embedder.id.encode()).hexdigest()[:16]
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(folder / f"log-{name}.sqlite3" if folder else "")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS readings"
                " (text BLOB PRIMARY KEY, vector BLOB, tokens BLOB) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as reason:
            raise ConfigError(f"--cache {folder} cannot be used: {reason}") from None
        self.took: list[float] = []
        """Seconds that each text embedded in this run has taken."""

    async def fill(self, numbers: Sequence[int], text: Text, progress: Progress) -> None:
        """Read the texts that are not kept yet; too long ones are noted as such."""
        missing = [one for one in numbers if not self._has(text(one))]
        begun = told = time.monotonic()
        for count, number in enumerate(missing, 1):
            await self._read(text(number))
            now = time.monotonic()
            if now - told > _EVERY:
                told = now
                left = (now - begun) / count * (len(missing) - count)
                progress(f"embedded {count} of {len(missing)} questions, about {left:.0f} s left")
            if count % _COMMIT == 0:
                self._file.commit()
        self._file.commit()

    async def measure(self, text: str) -> None:
        """Embed a text that is kept, only to see how long it takes."""
        await self._read(text)

    def get(self, text: str) -> ReadText | None:
        """What was read of a text; None for one longer than the embedder's window."""
        found = self._file.execute(
            "SELECT vector, tokens FROM readings WHERE text = ?", (_digest(text),)
        ).fetchone()
        if found is None or not found[0]:
            return None
        return ReadText(np.frombuffer(found[0], dtype=np.float32), found[1])

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _has(self, text: str) -> bool:
        asked = "SELECT 1 FROM readings WHERE text = ?"
        return self._file.execute(asked, (_digest(text),)).fetchone() is not None

    async def _read(self, text: str) -> None:
        begun = time.monotonic()
        try:
            read = await self._embed(text)
            vector, tokens = read.vector.astype(np.float32).tobytes(), read.tokens
            self.took.append(time.monotonic() - begun)
        except TextTooLong:
            vector, tokens = b"", b""
        row = (_digest(text), vector, tokens)
        self._file.execute("INSERT OR REPLACE INTO readings VALUES (?, ?, ?)", row)

    async def _embed(self, text: str) -> ReadText:
        if isinstance(self._embedder, SupportsTokens):
            return await self._embedder.read(text)
        return ReadText(await self._embedder.embed(text), b"")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
