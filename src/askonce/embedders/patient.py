"""An embedder for what nobody waits for: one text at a time, and none before a request's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from askonce.errors import EmbedderBusy

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.ports import Embedder, Vector
    from askonce.units import Seconds

PAUSE = 0.05
"""Seconds between two looks whether requests have texts to embed."""
PATIENCE = 200
"""Looks until the text is given up."""


class PatientEmbedder:
    """An Embedder over another, which it does not close."""

    def __init__(self, embedder: Embedder, busy: Callable[[], bool]) -> None:
        """busy: whether the text of a request is being embedded."""
        self.id = embedder.id
        self.dim = embedder.dim
        self._embedder = embedder
        self._busy = busy
        self._turn = asyncio.Lock()

    def expected_time(self, text: str) -> Seconds:
        """See `Embedder`; without the wait for a pause."""
        return self._embedder.expected_time(text)

    async def embed(self, text: str) -> Vector:
        """See `Embedder`; EmbedderBusy as well where no pause comes."""
        for _ in range(PATIENCE):
            async with self._turn:
                if not self._busy():
                    return await self._embedder.embed(text)
            await asyncio.sleep(PAUSE)
        raise EmbedderBusy("requests have kept it busy")

    async def close(self) -> None:
        """Nothing is its own."""
