"""What learns how far answers by meaning may go."""

from __future__ import annotations

import asyncio
import logging
from fnmatch import fnmatchcase
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING

from askonce.cache.learning import Learning
from askonce.cache.means import Effort
from askonce.cache.means import Parts as LearningParts
from askonce.embedders.patient import PatientEmbedder
from askonce.errors import ConfigError
from askonce.judges.cascade import CascadeJudge
from askonce.judges.llm import LlmJudge, LlmLimits
from askonce.judges.rules import RulesJudge
from askonce.trust.account.bound import JudgeError
from askonce.trust.account.budget import PRESETS, Budget, Caution
from askonce.trust.account.ledger import Policy
from askonce.trust.account.purse import Price, Purse
from askonce.trust.account.thrift import Thrift
from askonce.trust.names import Namespaces, Rules
from askonce.trust.sight import Manners
from askonce.units import Cosine, Seconds
from askonce.worker import Worker

if TYPE_CHECKING:
    from askonce.cache.steps import Steps
    from askonce.config import Config
    from askonce.ports import (
        Clock,
        Judge,
        Sink,
    )
    from askonce.tiers.exact import ExactTier
    from askonce.tiers.semantic import SemanticTier
    from askonce.trust.desk import TrustDesk
    from askonce.wiring.parts import Parts

log = logging.getLogger(__name__)

LESSONS = 64
"""Looks that may wait to be learned from; one more teaches nothing."""


RULES_ERROR = JudgeError(miss=0.034)
"""At most so many wrong answers pass the rules on the shipped pairs, at 95 %; no false alarm is
assumed, which errs on the safe side."""


async def learning_of(
    config: Config,
    parts: Parts,
    aids: tuple[ExactTier, SemanticTier, Judge, Purse],
    steps: Steps,
    secret: bytes,
    *,
    clock: Clock,
    sink: Sink,
) -> Learning | None:
    """Without it the semantic tier works as it does without evidence; raises ConfigError."""
    if parts.evidence is None or parts.embedder is None:
        return None
    names = namespaces(config)
    try:
        desk = await asyncio.to_thread(_desk, config, parts.embedder.dim, names, secret)
    except (OSError, ValueError) as reason:
        log.warning("evidence is left aside: %s", reason)
        return None
    exact, semantic, judge, purse = aids
    return Learning(
        LearningParts(
            process=token_hex(8),
            embedder=parts.embedder.id,
            desk=desk,
            log=parts.evidence,
            judge=judge,
            worker=Worker("askonce-trust", limit=LESSONS, nice=10),
            names=names,
            exact=exact,
            semantic=semantic,
            steps=steps,
            clock=clock,
            sink=sink,
            purse=purse,
            second=parts.second,
        ),
        Effort(
            audits_per_hour=config.trust.audits_per_hour,
            audits_at_once=config.trust.audits_at_once,
            max_answer_bytes=config.exact.max_entry_bytes,
            second_deadline=Seconds(config.semantic.deadline / 2),
        ),
    )


def _desk(config: Config, dim: int, names: Namespaces, secret: bytes) -> TrustDesk:
    """Reads a file and imports much, so not on the event loop."""
    from askonce.trust.desk import TrustDesk
    from askonce.trust.kept import mark
    from askonce.trust.prior import shipped

    mark()
    return TrustDesk(
        shipped(),
        dim,
        policy=Policy(
            budget=names.rules("").budget,
            budgets=names,
            caution=Caution(audit=config.trust.audit, forced=config.trust.forced),
            judge=RULES_ERROR,
        ),
        manners=manners(config),
        seed=blake2b(secret, digest_size=32, person=b"askonce trust").digest(),
    )


def manners(config: Config) -> Manners:
    """How the desk decides beside its policy."""
    trust = config.trust
    return Manners(
        floor=Cosine(config.semantic.floor),
        thrift=Thrift(of_hits=trust.audit_cost, of_requests=trust.cold_audit),
    )


def purse_of(config: Config, parts: Parts, *, clock: Clock, sink: Sink) -> Purse:
    prices = [
        Price(upstream.name, models, price.prompt, price.completion)
        for known, (_, upstream) in zip(config.upstream, parts.upstreams, strict=False)
        for models, price in known.prices.items()
    ]
    per_hour = config.trust.usd_per_hour
    if per_hour and not prices:
        raise ConfigError("trust.usd_per_hour is set, but no upstream has prices")
    return Purse(per_hour or float("inf"), prices, clock=clock, sink=sink)


def judge_of(
    config: Config, parts: Parts, clock: Clock, purse: Purse, semantic: SemanticTier | None
) -> Judge:
    rules = RulesJudge()
    if semantic is not None and parts.embedder is not None:
        rules = RulesJudge(PatientEmbedder(parts.embedder, lambda: semantic.reading > 0))
    model = config.trust.judge_model
    if not model:
        return rules
    upstream = next(
        (one for patterns, one in parts.upstreams if any(fnmatchcase(model, p) for p in patterns)),
        None,
    )
    if upstream is None:
        raise ConfigError(f"trust.judge_model is {model!r}, which no upstream serves")
    limits = LlmLimits(calls_per_minute=config.trust.judge_calls_per_minute)
    llm = LlmJudge(upstream, model=model, clock=clock, limits=limits, purse=purse)
    return CascadeJudge(rules, llm)


def namespaces(config: Config) -> Namespaces:
    """Names and rules of all namespaces."""
    trust = config.trust
    share = trust.budget or PRESETS[trust.preset].share
    rules = {
        name: Rules(
            mode=one.mode or trust.mode,
            budget=Budget(one.budget or (PRESETS[one.preset].share if one.preset else share)),
        )
        for name, one in trust.namespaces.items()
    }
    return Namespaces(Rules(mode=trust.mode, budget=Budget(share)), rules)
