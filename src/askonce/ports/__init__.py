"""The plugs of the house: what the core asks of the world, and nothing else.

All methods that touch the world are asynchronous and must not block the event loop.
They raise the `CacheFault` of their kind on failure; the caller sets the deadline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.ports.evidence import (
    Agreement,
    Evidence,
    EvidenceLog,
    EvidenceSource,
    Judge,
    LabelSource,
    Verdict,
    Verifier,
)
from askonce.ports.flights import Followed, Lead, SupportsFlights
from askonce.ports.meaning import (
    Embedder,
    IndexedText,
    Neighbour,
    ReadText,
    SupportsPartitionDrop,
    SupportsSearchAll,
    SupportsTokens,
    VectorIndex,
)
from askonce.ports.revocations import Revocation, RevocationLog, RevocationPage, Selector
from askonce.ports.stores import (
    HotCache,
    Owned,
    Owner,
    Put,
    Store,
    StoreStats,
    SupportsAbsence,
    SupportsEpoch,
    SupportsOwners,
    SupportsPutMany,
    SupportsTags,
    SupportsWatch,
)
from askonce.ports.upstreams import Headers, Upstream, UpstreamRequest, UpstreamResponse
from askonce.ports.world import Clock, Sink, Statistics

if TYPE_CHECKING:
    from askonce.ports.meaning import Vector as Vector

__all__ = [
    "Agreement",
    "Clock",
    "Embedder",
    "Evidence",
    "EvidenceLog",
    "EvidenceSource",
    "Followed",
    "Headers",
    "HotCache",
    "IndexedText",
    "Judge",
    "LabelSource",
    "Lead",
    "Neighbour",
    "Owned",
    "Owner",
    "Put",
    "ReadText",
    "Revocation",
    "RevocationLog",
    "RevocationPage",
    "Selector",
    "Sink",
    "Statistics",
    "Store",
    "StoreStats",
    "SupportsAbsence",
    "SupportsEpoch",
    "SupportsFlights",
    "SupportsOwners",
    "SupportsPartitionDrop",
    "SupportsPutMany",
    "SupportsSearchAll",
    "SupportsTags",
    "SupportsTokens",
    "SupportsWatch",
    "Upstream",
    "UpstreamRequest",
    "UpstreamResponse",
    "VectorIndex",
    "Verdict",
    "Verifier",
]
