"""The cache over open parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.cache.ask import Limits
from askonce.cache.confirm import Confirmations, Wanted
from askonce.cache.driver import Cache
from askonce.cache.fleet import Fleet
from askonce.cache.late import LateIndex
from askonce.cache.parts import Parts as CacheParts
from askonce.cache.steps import Steps
from askonce.cache.write_back import WriteBack
from askonce.invalidation.desk import InvalidationDesk
from askonce.invalidation.files import FileWatch
from askonce.invalidation.watch import Watch
from askonce.policy.doorkeeper import Doorkeeper
from askonce.ports import Selector, SupportsFlights
from askonce.stores.hot import HotEntries
from askonce.tiers.exact import ExactTier
from askonce.tiers.semantic import SemanticTier
from askonce.units import Cosine, Seconds
from askonce.wiring.learning import judge_of, learning_of, purse_of

if TYPE_CHECKING:
    from askonce.cache.learning import Learning
    from askonce.canonical.entry import Entry
    from askonce.config import Config, InvalidationConfig
    from askonce.ports import (
        Clock,
        Sink,
        Store,
    )
    from askonce.wiring.parts import Parts


WRITE_DEADLINE = Seconds(2.0)
"""Writes happen behind the answer; this only bounds how long a stuck one is held."""


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
    purse = purse_of(config, parts, clock=clock, sink=sink)
    judge = judge_of(config, parts, clock, purse, semantic)
    learning = None
    if semantic is not None:
        aids = exact, semantic, judge, purse
        learning = await learning_of(config, parts, aids, steps, secret, clock=clock, sink=sink)
    wanted = _confirmations_wanted(config)
    cache = Cache(
        CacheParts(
            exact=exact,
            semantic=semantic,
            steps=steps,
            limits=_limits(config),
            clock=clock,
            sink=sink,
            learning=learning,
            fleet=_fleet(config, parts.store, steps),
            writer=writer,
            confirmations=None
            if wanted is None
            else Confirmations(
                wanted, exact=exact, writer=writer, judge=judge, steps=steps, sink=sink
            ),
            late=LateIndex(semantic, steps, clock=clock, sink=sink) if semantic else None,
            doorkeeper=Doorkeeper() if config.exact.admit == "second" else None,
            stamp=int if watch is None else lambda: watch.stamp,
        )
    )
    desk = None
    if watch is not None:
        desk = InvalidationDesk(watch, parts.store, parts.index, parts.embedder, clock=clock)
    return Built(cache, exact, learning, steps, watch, desk)


def _limits(config: Config) -> Limits:
    return Limits(
        exact_deadline=Seconds(config.exact.deadline),
        semantic_deadline=Seconds(config.semantic.deadline),
        write_deadline=WRITE_DEADLINE,
        max_entry_bytes=config.exact.max_entry_bytes,
    )


def _confirmations_wanted(config: Config) -> Wanted | None:
    """What an answer needs before it serves others than its author; None where nothing."""
    tenants = config.tenants
    if tenants.scope != "shared" or tenants.confirm == "off":
        return None
    return Wanted(tenants.confirmations, exact=tenants.confirm == "all")


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
    return Fleet(store, steps, Seconds(config.exact.flight_deadline))


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
