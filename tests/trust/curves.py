"""Made traffic: scores, and how often each is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp
from typing import NamedTuple

from askonce.trust.account.asked import Place
from askonce.trust.account.bound import JudgeError
from askonce.trust.account.evidence import Label, Source
from askonce.trust.account.ledger import Ledger, Policy

HERE = Place(b"support", b"prompt")

Curve = Callable[[float], float]


def honest(score: float) -> float:
    """Wrong as often as the score says, and once in 200 whatever it says."""
    return 0.005 + 0.995 / (1 + exp(score))


def hopeless(score: float) -> float:
    """Always wrong: a set of questions that all want different answers."""
    return 1.0


def flat(score: float) -> float:
    """Wrong in one of twelve however high the score."""
    return max(1 / 12, honest(score))


class Run(NamedTuple):
    """What happened to made traffic."""

    hits: int
    wrong: int
    audited: int
    served: list[bool]


def run(
    ledger: Ledger,
    curve: Curve,
    requests: int,
    *,
    seed: int = 0,
    errs: float = 0.0,
    place: Place = HERE,
) -> Run:
    """Send requests with normal scores; labels come from misses and audits alone."""
    rng = random.Random(f"{seed} {place}")
    hits = wrongs = audited = 0
    served = []
    for number in range(requests):
        score = rng.gauss(2.5, 2.5)
        wrong = rng.random() < curve(score)
        decision = ledger.decide(place, score, b"%d %d" % (seed, number))
        served.append(decision.serve)
        hits += decision.serve
        wrongs += decision.serve and wrong
        audited += decision.audit
        if decision.audit or not decision.serve:
            judged = wrong != (rng.random() < errs)
            source: Source = "audit" if decision.audit else "miss"
            ledger.learn(place, Label(score, judged, source, decision.chance))
    return Run(hits, wrongs, audited, served)


def fresh(seed: bytes = b"seed", judge: JudgeError | None = None, **policy: object) -> Ledger:
    """A ledger without evidence."""
    return Ledger(Policy(judge=judge or JudgeError(), **policy), seed)  # type: ignore[arg-type]
