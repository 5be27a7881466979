"""Configuration to objects: the only module that knows core and adapters."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.cache.ask import Limits
from askonce.cache.driver import Cache
from askonce.cache.leader import Parts as CacheParts
from askonce.cache.steps import Steps
from askonce.cache.write_back import WriteBack
from askonce.errors import CacheFault, ConfigError
from askonce.stores.hot import HotEntries
from askonce.stores.urls import open_store
from askonce.tiers.exact import ExactTier
from askonce.tiers.semantic import SemanticTier
from askonce.units import Cosine, Seconds
from askonce.upstreams.http import HttpUpstream

if TYPE_CHECKING:
    from askonce.canonical.entry import Entry
    from askonce.config import Config, UpstreamConfig
    from askonce.ports import Clock, Embedder, Sink, Store, Upstream, VectorIndex

log = logging.getLogger(__name__)

WRITE_DEADLINE = Seconds(2.0)
"""Writes happen behind the answer; this only bounds how long a stuck one is held."""


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

    async def close(self) -> None:
        """Release everything."""
        for _, upstream in self.upstreams:
            await upstream.close()
        for part in (self.embedder, self.index, self.store):
            if part is not None:
                await part.close()


async def open_parts(config: Config, *, clock: Clock, sink: Sink) -> Parts:
    """Open every adapter, inside a running event loop; raises ConfigError.

    A semantic tier that cannot be opened is left off: the rest works without it.
    """
    upstreams = tuple((one.models, open_upstream(one)) for one in config.upstream)
    store = open_store(
        config.exact.store,
        clock=clock,
        sink=sink,
        max_bytes=config.exact.disk_bytes,
        data_dir=Path(config.server.data_dir),
    )
    embedder, index, semantic_off = None, None, ""
    if config.semantic.enabled:
        try:
            embedder, index = await _open_semantic(config, clock=clock, sink=sink)
        except (ConfigError, CacheFault) as reason:
            semantic_off = str(reason)
            log.warning("the semantic tier is off: %s", reason)
    return Parts(store, embedder, index, upstreams, semantic_off)


def open_upstream(config: UpstreamConfig) -> Upstream:
    """One upstream; connects to nothing yet."""
    return HttpUpstream(config)


async def _open_semantic(
    config: Config, *, clock: Clock, sink: Sink
) -> tuple[Embedder, VectorIndex]:
    from askonce.embedders.onnx import OnnxEmbedder
    from askonce.vectors.local import LocalIndex

    data_dir = Path(config.server.data_dir)
    embedder = await OnnxEmbedder.open(config.semantic, data_dir=data_dir, clock=clock, sink=sink)
    try:
        index = LocalIndex(
            data_dir / "vectors.sqlite3",
            embedder=embedder.id,
            dim=embedder.dim,
            max_entries=config.semantic.max_entries,
            clock=clock,
            sink=sink,
        )
    except BaseException:
        await embedder.close()
        raise
    return embedder, index


def build_cache(
    config: Config, parts: Parts, *, clock: Clock, sink: Sink
) -> tuple[Cache, ExactTier]:
    """The cache over open parts, and its exact tier for upkeep."""
    hot: HotEntries[Entry] = HotEntries(config.exact.memory_bytes)
    exact = ExactTier(parts.store, hot, clock=clock, sink=sink)
    steps = Steps(config.breaker, clock=clock, sink=sink)
    cache = Cache(
        CacheParts(
            exact=exact,
            semantic=_semantic_tier(config, parts, sink),
            steps=steps,
            limits=Limits(
                exact_deadline=Seconds(config.exact.deadline),
                semantic_deadline=Seconds(config.semantic.deadline),
                write_deadline=WRITE_DEADLINE,
                max_entry_bytes=config.exact.max_entry_bytes,
            ),
            clock=clock,
            sink=sink,
            writer=WriteBack(exact, steps, WRITE_DEADLINE) if exact.takes_many else None,
        )
    )
    return cache, exact


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
    )
