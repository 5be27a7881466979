"""Configuration to objects: the only module that knows core and adapters."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from askonce.cache.ask import Limits
from askonce.cache.confirm import Confirmations, Wanted
from askonce.cache.driver import Cache
from askonce.cache.fleet import Fleet
from askonce.cache.late import LateIndex
from askonce.cache.learning import Effort, Learning
from askonce.cache.learning import Parts as LearningParts
from askonce.cache.parts import Parts as CacheParts
from askonce.cache.steps import Steps
from askonce.cache.write_back import WriteBack
from askonce.embedders.kinds import open_embedder
from askonce.errors import CacheFault, ConfigError
from askonce.invalidation.desk import InvalidationDesk
from askonce.invalidation.files import FileWatch
from askonce.invalidation.watch import Watch
from askonce.judges.cascade import CascadeJudge
from askonce.judges.llm import LlmJudge, LlmLimits
from askonce.judges.rules import RulesJudge
from askonce.policy.doorkeeper import Doorkeeper
from askonce.ports import Selector, SupportsFlights
from askonce.stores.envelope import Envelope, KeyRing, SealedStore, read_keys
from askonce.stores.evidence import open_evidence
from askonce.stores.hot import HotEntries
from askonce.stores.urls import LOCAL, namespace_of, open_revocations, open_store
from askonce.tiers.exact import ExactTier
from askonce.tiers.semantic import SemanticTier
from askonce.trust.bound import JudgeError
from askonce.trust.budget import PRESETS, Budget, Caution
from askonce.trust.ledger import Policy
from askonce.trust.names import Namespaces, Rules
from askonce.trust.purse import Price, Purse
from askonce.units import Cosine, Seconds
from askonce.upstreams.http import HttpUpstream
from askonce.vectors.binding import Binding
from askonce.vectors.urls import open_index
from askonce.worker import Worker

if TYPE_CHECKING:
    from askonce.canonical.entry import Entry
    from askonce.config import Config, InvalidationConfig, UpstreamConfig
    from askonce.ports import (
        Clock,
        Embedder,
        EvidenceLog,
        Judge,
        RevocationLog,
        Sink,
        Store,
        Upstream,
        VectorIndex,
        Verifier,
    )
    from askonce.trust.desk import TrustDesk

log = logging.getLogger(__name__)

WRITE_DEADLINE = Seconds(2.0)
"""Writes happen behind the answer; this only bounds how long a stuck one is held."""

LESSONS = 64
"""Looks that may wait to be learned from; one more teaches nothing."""

RULES_ERROR = JudgeError(miss=0.034)
"""At most so many wrong answers pass the rules on the shipped pairs, at 95 %; no false alarm is
assumed, which errs on the safe side."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The adapters that a configuration names."""

    store: Store
    embedder: Embedder | None
    index: VectorIndex | None
    upstreams: tuple[tuple[tuple[str, ...], Upstream], ...]
    """Model name patterns and the upstream that serves them, in order of preference."""
    semantic_off: str
    """Why the semantic tier is off though it is configured, in plain words; else empty."""
    evidence: EvidenceLog | None = None
    revocations: RevocationLog | None = None
    second: Verifier | None = None

    async def close(self) -> None:
        """Release everything."""
        for _, upstream in self.upstreams:
            await upstream.close()
        inner = (self.embedder, self.index, self.evidence, self.second)
        for part in (*inner, self.revocations, self.store):
            if part is not None:
                await part.close()


async def open_parts(config: Config, *, clock: Clock, sink: Sink) -> Parts:
    """Open every adapter, inside a running event loop; raises ConfigError.

    A semantic tier that cannot be opened is left off: the rest works without it.
    """
    upstreams = tuple((one.models, open_upstream(one)) for one in config.upstream)
    store = open_exact_store(config, clock=clock, sink=sink)
    embedder, index, semantic_off = None, None, ""
    if config.semantic.enabled:
        try:
            embedder, index = await _open_semantic(config, clock=clock, sink=sink)
        except (ConfigError, CacheFault) as reason:
            semantic_off = str(reason)
            log.warning("the semantic tier is off: %s", reason)
    evidence = open_log(config, clock=clock, sink=sink) if index is not None else None
    second = await _open_second(config, clock=clock) if evidence is not None else None
    revocations = open_revocations(
        config.invalidation.log or config.exact.store,
        clock=clock,
        sink=sink,
        data_dir=Path(config.server.data_dir),
    )
    return Parts(store, embedder, index, upstreams, semantic_off, evidence, revocations, second)


async def _open_second(config: Config, *, clock: Clock) -> Verifier | None:
    """A cross-encoder that cannot be opened is left off: the learned score decides alone."""
    if not config.trust.cross_encoder:
        return None
    from askonce.verifiers.onnx import OnnxVerifier

    try:
        return await OnnxVerifier.open(config.trust.cross_encoder, clock=clock)
    except ConfigError as reason:
        log.warning("there is no second opinion: %s", reason)
        return None


def open_exact_store(config: Config, *, clock: Clock, sink: Sink) -> Store:
    """The store of tier 2, inside a running event loop; raises ConfigError.

    Values that leave this machine are in envelopes, and with sealing keys all are.
    """
    exact = config.exact
    keys = read_keys(exact.seal_keys, exact.seal_key_file)
    ring = KeyRing(keys) if keys else None
    store = open_store(
        exact.store,
        clock=clock,
        sink=sink,
        max_bytes=exact.disk_bytes,
        data_dir=Path(config.server.data_dir),
    )
    if ring is None and exact.store.partition(":")[0] in LOCAL:
        return store
    envelope = Envelope(
        f"exact {namespace_of(exact.store)}",
        compress_over=exact.compress_over,
        keys=ring,
    )
    return SealedStore(store, envelope, sink=sink)


def open_log(config: Config, *, clock: Clock, sink: Sink) -> EvidenceLog | None:
    """The evidence log, if there is to be one; the file opens with the first call."""
    if not config.trust.enabled:
        return None
    path = Path(config.server.data_dir) / "evidence.sqlite3"
    return open_evidence(path, clock=clock, sink=sink, max_bytes=config.trust.evidence_bytes)


def open_upstream(config: UpstreamConfig) -> Upstream:
    """One upstream; connects to nothing yet."""
    return HttpUpstream(config)


async def _open_semantic(
    config: Config, *, clock: Clock, sink: Sink
) -> tuple[Embedder, VectorIndex]:
    data_dir = Path(config.server.data_dir)
    embedder = await open_embedder(config.semantic, data_dir=data_dir, clock=clock, sink=sink)
    try:
        binding = Binding(embedder.id, embedder.dim, config.semantic.max_entries, data_dir)
        index = open_index(config.semantic.index, binding=binding, clock=clock, sink=sink)
    except BaseException:
        await embedder.close()
        raise
    return embedder, index


@dataclass(frozen=True, slots=True)
class Built:
    """The cache over open parts, and what is to be kept up beside it."""

    cache: Cache
    exact: ExactTier
    learning: Learning | None
    steps: Steps
    watch: Watch | None = None
    desk: InvalidationDesk | None = None

    async def close(self, grace: float) -> None:
        """Let what is under way end, for `grace` seconds."""
        await self.cache.close(grace)
        if self.learning is not None:
            await self.learning.close(grace / 2)


async def build_cache(
    config: Config, parts: Parts, *, secret: bytes, clock: Clock, sink: Sink
) -> Built:
    """Everything over open parts, inside a running event loop; secret: the server's."""
    hot: HotEntries[Entry] = HotEntries(config.exact.memory_bytes)
    watch = _watch(config, parts, clock)
    exact = ExactTier(
        parts.store,
        hot,
        clock=clock,
        sink=sink,
        serves=None if watch is None else watch.serves,
        tenant_bytes=config.exact.tenant_bytes,
    )
    semantic = _semantic_tier(config, parts, sink)
    steps = Steps(config.breaker, clock=clock, sink=sink)
    writer = WriteBack(exact, steps, WRITE_DEADLINE) if exact.takes_many else None
    purse = _purse(config, parts, clock=clock, sink=sink)
    judge = _judge(config, parts, clock, purse)
    learning, confirmations = None, None
    if semantic is not None:
        aids = exact, semantic, judge, purse
        learning = await _learning(config, parts, aids, steps, secret, clock=clock, sink=sink)
    if config.tenants.scope == "shared" and config.tenants.confirm != "off":
        confirmations = Confirmations(
            Wanted(config.tenants.confirmations, exact=config.tenants.confirm == "all"),
            exact=exact,
            writer=writer,
            judge=judge,
            steps=steps,
            sink=sink,
        )
    cache = Cache(
        CacheParts(
            exact=exact,
            semantic=semantic,
            steps=steps,
            limits=Limits(
                exact_deadline=Seconds(config.exact.deadline),
                semantic_deadline=Seconds(config.semantic.deadline),
                write_deadline=WRITE_DEADLINE,
                max_entry_bytes=config.exact.max_entry_bytes,
            ),
            clock=clock,
            sink=sink,
            learning=learning,
            fleet=_fleet(config, parts.store, steps),
            writer=writer,
            confirmations=confirmations,
            late=LateIndex(semantic, steps, clock=clock, sink=sink) if semantic else None,
            doorkeeper=Doorkeeper() if config.exact.admit == "second" else None,
            stamp=int if watch is None else lambda: watch.stamp,
        )
    )
    desk = None
    if watch is not None:
        desk = InvalidationDesk(watch, parts.store, parts.index, parts.embedder, clock=clock)
    return Built(cache, exact, learning, steps, watch, desk)


def watched_files(config: InvalidationConfig) -> dict[str, FileWatch]:
    """Files whose change takes answers back, by name."""
    return {
        name: FileWatch(
            name,
            Path(each.path),
            Selector(
                model=each.model,
                upstream=each.upstream,
                revision=each.revision,
                namespace=each.namespace,
                tag=each.tag,
            ),
        )
        for name, each in config.watch.items()
    }


def _fleet(config: Config, store: Store, steps: Steps) -> Fleet | None:
    if not isinstance(store, SupportsFlights):
        return None
    return Fleet(store, steps, Seconds(config.exact.deadline))


def _watch(config: Config, parts: Parts, clock: Clock) -> Watch | None:
    if parts.revocations is None:
        return None
    patience = Seconds(config.invalidation.patience)
    return Watch(parts.revocations, clock=clock, patience=patience)


def _semantic_tier(config: Config, parts: Parts, sink: Sink) -> SemanticTier | None:
    if parts.embedder is None or parts.index is None:
        return None
    return SemanticTier(
        parts.embedder,
        parts.index,
        sink=sink,
        floor=Cosine(config.semantic.floor),
        neighbours=config.semantic.neighbours,
        budget=Seconds(config.semantic.deadline),
        tokens=config.trust.enabled,
    )


async def _learning(
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
    from askonce.trust.desk import Manners, TrustDesk  # needs numpy, which the extra brings
    from askonce.trust.prior import shipped

    return TrustDesk(
        shipped(),
        dim,
        policy=Policy(
            budget=names.rules("").budget,
            budgets=names,
            caution=Caution(audit=config.trust.audit, forced=config.trust.forced),
            judge=RULES_ERROR,
        ),
        manners=Manners(floor=Cosine(config.semantic.floor), life=Seconds(config.semantic.ttl)),
        seed=blake2b(secret, digest_size=32, person=b"askonce trust").digest(),
    )


def _purse(config: Config, parts: Parts, *, clock: Clock, sink: Sink) -> Purse:
    prices = [
        Price(upstream.name, models, price.prompt, price.completion)
        for known, (_, upstream) in zip(config.upstream, parts.upstreams, strict=False)
        for models, price in known.prices.items()
    ]
    per_hour = config.trust.usd_per_hour
    if per_hour and not prices:
        raise ConfigError("trust.usd_per_hour is set, but no upstream has prices")
    return Purse(per_hour or float("inf"), prices, clock=clock, sink=sink)


def _judge(config: Config, parts: Parts, clock: Clock, purse: Purse) -> Judge:
    rules = RulesJudge()
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
