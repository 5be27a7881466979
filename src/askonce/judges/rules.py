"""A judge by rules, helped by the likeness of the answers' embeddings where they are silent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from askonce.errors import EmbedderError
from askonce.trust.text.judge import Thresholds, compare, with_similarity
from askonce.units import Cosine

if TYPE_CHECKING:
    from askonce.ports import Embedder, Verdict

SHORT = 2000
"""Characters of both answers that are compared in well under a millisecond."""

OPENING = 400
"""Characters of an answer that are embedded: enough to tell that it is about something else."""

THRESHOLDS = Thresholds(same=Cosine(0.95), different=Cosine(0.2))
"""For all-MiniLM-L6-v2: answers to different questions lie below 0.2 nine times of ten."""


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
            one = await self._embedder.embed(cached[:OPENING])
            other = await self._embedder.embed(fresh[:OPENING])
        except EmbedderError:
            return verdict
        cosine = Cosine(min(max(float(one @ other), 0.0), 1.0))
        found = with_similarity(verdict, cosine, self._thresholds)
        whole = max(len(cached), len(fresh)) <= OPENING
        return found if whole or found.agreement == "different" else verdict

    async def close(self) -> None:
        """See `Judge`."""
