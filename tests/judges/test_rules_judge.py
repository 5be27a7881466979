"""The judge by rules, with and without embeddings, and judges in turn."""

from __future__ import annotations

import asyncio

import pytest
from blockbuster import blockbuster_ctx

from askonce.judges.calibration import measure, shipped_pairs
from askonce.judges.cascade import CascadeJudge
from askonce.judges.rules import OPENING, RulesJudge
from askonce.ports import Verdict
from askonce.testing.embedders import HashingEmbedder
from askonce.trust.text.judge import Thresholds
from askonce.units import Cosine

pytestmark = pytest.mark.anyio

REWORDED = (
    "Open the Billing page and press Cancel plan.",
    "Press Cancel plan on the Billing page.",
)


async def test_judges_by_the_rules() -> None:
    """Without an embedder the rules' verdict stands."""
    judge = RulesJudge()
    assert await judge.judge("", "Paris", "Paris.") == Verdict("same", "equal")
    assert (await judge.judge("", *REWORDED)).agreement == "unsure"
    await judge.close()


async def test_likeness_decides_where_rules_are_silent() -> None:
    """Embeddings that are near make silent rules say `same`, far ones `different`."""
    embedder = HashingEmbedder()
    alike = RulesJudge(embedder, thresholds=Thresholds(same=Cosine(0.3), different=Cosine(0.0)))
    apart = RulesJudge(embedder, thresholds=Thresholds(same=Cosine(1.0), different=Cosine(0.99)))
    assert await alike.judge("", *REWORDED) == Verdict("same", "alike")
    assert await apart.judge("", *REWORDED) == Verdict("different", "unlike")
    assert len(embedder.embedded) == 4
    await alike.judge("", "Paris", "Lyon")
    assert len(embedder.embedded) == 4


async def test_of_long_answers_only_the_openings_are_embedded() -> None:
    """They can show that it is about something else, and never that all of it is the same."""
    embedder = HashingEmbedder()
    alike = RulesJudge(embedder, thresholds=Thresholds(same=Cosine(0.3), different=Cosine(0.0)))
    apart = RulesJudge(embedder, thresholds=Thresholds(same=Cosine(1.0), different=Cosine(0.99)))
    one, other = (" ".join([text] * 10) for text in REWORDED)
    assert (await alike.judge("", one, other)).agreement == "unsure"
    assert await apart.judge("", one, other) == Verdict("different", "unlike")
    assert max(map(len, embedder.embedded)) == OPENING


async def test_stays_unsure_without_embeddings() -> None:
    """An answer that is too long, or an embedder that is closed, leaves the rules' verdict."""
    assert (await RulesJudge(HashingEmbedder(window=5)).judge("", *REWORDED)).how == "wording"
    closed = HashingEmbedder()
    await closed.close()
    assert (await RulesJudge(closed).judge("", *REWORDED)).how == "wording"


async def test_long_answers_leave_the_loop_free() -> None:
    """Long answers are compared in a thread."""
    one, other = "several words in a row " * 200, "several words in a line " * 200
    with blockbuster_ctx():
        verdict = asyncio.create_task(RulesJudge().judge("", one, other))
        assert (await verdict).agreement == "unsure"


@pytest.mark.parametrize(("fresh", "bound"), [(False, 0.03), (True, 0.07)])
async def test_its_error_is_measured_on_shipped_pairs(*, fresh: bool, bound: float) -> None:
    """It errs nowhere on the shipped pairs, which bounds its error; fewer pairs bound it less."""
    pairs = await asyncio.to_thread(shipped_pairs, fresh=fresh)
    error = await measure(RulesJudge(), pairs)
    assert error.false_same.errors == error.false_different.errors == 0
    assert error.false_same.upper < bound
    assert error.unsure.share < 0.25


class Fixed:
    """A judge with one verdict for everything."""

    def __init__(self, verdict: Verdict) -> None:
        """Say this."""
        self.verdict = verdict
        self.asked = 0
        self.closed = False

    async def judge(self, question: str, cached: str, fresh: str) -> Verdict:
        """Count and answer."""
        self.asked += 1
        return self.verdict

    async def close(self) -> None:
        """Remember it."""
        self.closed = True


async def test_the_next_judge_is_asked_only_in_doubt() -> None:
    """The first sure verdict counts; who is never sure has the last word of doubt."""
    unsure, sure, never = (
        Fixed(Verdict("unsure", "a")),
        Fixed(Verdict("same", "b")),
        Fixed(Verdict("different", "c")),
    )
    judge = CascadeJudge(unsure, sure, never)
    assert await judge.judge("q", "a", "b") == Verdict("same", "b")
    assert (unsure.asked, sure.asked, never.asked) == (1, 1, 0)
    assert await CascadeJudge(unsure).judge("q", "a", "b") == Verdict("unsure", "a")
    assert await CascadeJudge().judge("q", "a", "b") == Verdict("unsure", "nobody")
    await judge.close()
    assert never.closed
