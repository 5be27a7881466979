"""A judge by rules, helped by the likeness of the answers' embeddings where they are silent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from askonce.errors import EmbedderError
from askonce.trust.judge import Thresholds, compare, with_similarity
from askonce.units import Cosine

if TYPE_CHECKING:
    from askonce.ports import Embedder, Verdict

SHORT = 2000
"""Characters of both answers that are compared in well under a millisecond."""

THRESHOLDS = Thresholds(same=Cosine(0.97), different=Cosine(0.1))
"""For all-MiniLM-L6-v2."""


class RulesJudge:
    """A `Judge` without a model, or with the embedder alone."""

    def __init__(
        self, embedder: Embedder | None = None, *, thresholds: Thresholds = THRESHOLDS
    ) -> None:
        """embedder: used for answers that the rules cannot tell apart; it is not closed here."""
        self._embedder = embedder
        self._thresholds = thresholds

    async def judge(self, question: str, cached: str, fresh: str) -> Verdict:
        """See `Judge`."""
        if len(cached) + len(fresh) <= SHORT:
            verdict = compare(cached, fresh, question)
        else:
            verdict = await asyncio.to_thread(compare, cached, fresh, question)
        if verdict.agreement != "unsure" or self._embedder is None:
            return verdict
        try:
            one = await self._embedder.embed(cached)
            other = await self._embedder.embed(fresh)
        except EmbedderError:
            return verdict
        cosine = Cosine(min(max(float(one @ other), 0.0), 1.0))
        return with_similarity(verdict, cosine, self._thresholds)

    async def close(self) -> None:
        """See `Judge`."""
