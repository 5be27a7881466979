"""The adapters that a configuration names."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.embedders.kinds import open_embedder
from askonce.errors import CacheFault, ConfigError
from askonce.stores.envelope import Envelope, KeyRing, SealedStore, read_keys
from askonce.stores.sqlite.evidence import open_evidence
from askonce.stores.urls import LOCAL, namespace_of, open_revocations, open_store
from askonce.upstreams.http import HttpUpstream
from askonce.vectors.binding import Binding
from askonce.vectors.urls import open_index

if TYPE_CHECKING:
    from askonce.config import Config, UpstreamConfig
    from askonce.ports import (
        Clock,
        Embedder,
        EvidenceLog,
        RevocationLog,
        Sink,
        Store,
        Upstream,
        VectorIndex,
        Verifier,
    )

log = logging.getLogger(__name__)


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
