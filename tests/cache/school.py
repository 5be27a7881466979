"""A stage that learns, and streams of questions to teach it."""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.cache.stage import Stage

from askonce.cache.learning import Learning
from askonce.cache.means import Effort, Parts
from askonce.judges.rules import RulesJudge
from askonce.testing.answers import Asked, Chat
from askonce.testing.embedders import TokenEmbedder
from askonce.testing.evidence import MemoryEvidenceLog
from askonce.trust.account.budget import Budget, Caution
from askonce.trust.account.ledger import Policy
from askonce.trust.account.purse import Price, Purse
from askonce.trust.account.thrift import Thrift
from askonce.trust.desk import TrustDesk
from askonce.trust.names import Namespaces, Rules
from askonce.trust.prior import shipped
from askonce.trust.sight import Manners
from askonce.units import Cosine, Seconds
from askonce.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.cache.steps import Steps
    from askonce.ports import Embedder, EvidenceLog, Judge, Verifier
    from askonce.tiers.semantic import SemanticTier
    from askonce.trust.names import Mode

DIM = 128
PLENTY = Thrift(of_hits=float("inf"), of_requests=float("inf"))
"""Audits cost nothing."""
PRICES = (Price("scripted", "fake", 1e6, 1e6),)
"""One USD a token, which makes accounts plain."""
_PROCESSES = count()
_OPENERS = (
    "please tell me",
    "hello,",
    "quick question:",
    "can you say",
    "I would like to know",
    "hi there,",
    "could you help,",
    "one more thing:",
    "excuse me,",
    "my friend asks",
)
_CLOSERS = (
    "thanks",
    "if you can",
    "today",
    "for me",
    "please",
    "when you have time",
    "soon",
    "kindly",
)
_SUBJECTS = (
    "how to reset the password",
    "where my parcel is",
    "what the opening hours are",
    "how to cancel an order",
    "which cards you accept",
    "how to return shoes",
    "why the invoice is late",
    "how to change my address",
    "what shipping costs",
    "how to reach the support line",
    "where the nearest store is",
    "how gift vouchers work",
)
CITIES = ("Bern", "Basel", "Geneva", "Lugano", "Zurich", "Chur", "Sion", "Thun", "Olten", "Davos")


class School(Stage):
    """A stage whose semantic tier decides by evidence."""

    def __init__(
        self,
        *,
        mode: Mode = "on",
        budget: float = 0.03,
        audits: float = 1e6,
        log: EvidenceLog | None = None,
        judge: Judge | None = None,
        embedder: Embedder | None = None,
        forced: float = 0.02,
        audit: float = 0.05,
        cold_audit: float = 0.3,
        thrift: Thrift = PLENTY,
        usd: float = float("inf"),
        second: Verifier | None = None,
        **kit: Any,
    ) -> None:
        embedder = embedder or TokenEmbedder(dim=DIM)
        self.log: EvidenceLog | None = log
        self.desk = TrustDesk(
            shipped(),
            DIM,
            policy=Policy(budget=Budget(budget), caution=Caution(audit=audit, forced=forced)),
            manners=Manners(floor=Cosine(0.97), cold_audit=cold_audit, thrift=thrift),
            seed=b"seed",
        )

        def learning(stage: Stage, tier: SemanticTier, steps: Steps) -> Learning:
            self.log = log or MemoryEvidenceLog(clock=stage.clock)
            parts = Parts(
                process=f"process-{next(_PROCESSES)}",
                embedder=embedder.id,
                desk=self.desk,
                log=self.log,
                judge=judge or RulesJudge(),
                worker=Worker("school", limit=64),
                names=Namespaces(Rules(mode=mode, budget=Budget(budget)), {}),
                exact=stage.exact,
                semantic=tier,
                steps=steps,
                clock=stage.clock,
                sink=stage.sink,
                purse=Purse(usd, PRICES, clock=stage.clock, sink=stage.sink),
                second=second,
            )
            effort = Effort(
                audits_per_hour=audits,
                audits_at_once=1,
                max_answer_bytes=100_000,
                second_deadline=Seconds(10.0),
            )
            return Learning(parts, effort)

        super().__init__(floor=0.97, embedder=embedder, learning=learning, **kit)

    @property
    def learns(self) -> Learning:
        assert self.learning is not None
        return self.learning

    async def go(self, text: str, **wishes: Any) -> str:
        """Ask, and let what is learned be learned; returns how it was answered."""
        self.clock.advance(0.01)
        got = await self.get(text, **wishes)
        await self.settled()
        return got.how


def faq(count: int, seed: int, subjects: int = len(_SUBJECTS)) -> list[str]:
    """Questions that come again in other words; no text twice."""
    drawn = random.Random(seed)
    every = [
        f"{opener} {subject} {closer} {extra}".strip()
        for opener in _OPENERS
        for subject in _SUBJECTS[:subjects]
        for closer in _CLOSERS
        for extra in ("", "now", "again", "asap", "ok")
    ]
    drawn.shuffle(every)
    return every[:count]


def flights(count: int, seed: int) -> list[str]:
    """Questions that look alike and want another answer each."""
    drawn = random.Random(seed)
    every = [
        f"{opener} which train leaves from {a} to {b} {closer}"
        for opener in _OPENERS
        for a in CITIES
        for b in CITIES
        if a != b
        for closer in _CLOSERS
    ]
    drawn.shuffle(every)
    return every[:count]


def clerk(version: str = "2024") -> Callable[[Asked], Any]:
    """An engine that answers by subject, and by both cities in their order."""

    def answer(asked: Asked) -> Any:
        text = asked.json["messages"][-1]["content"]
        return Chat(text=said(text, version))(asked)

    return answer


def said(text: str, version: str = "2024") -> str:
    """The right answer to a question of a stream."""
    for number, subject in enumerate(_SUBJECTS):
        if subject in text:
            return f"See page {number} of guide {version}."
    cities = [word for word in text.split() if word in CITIES]
    return f"Train {CITIES.index(cities[0])}{CITIES.index(cities[1])} of plan {version}."
