"""Qdrant by its REST interface: one collection an embedder, the partition a tenant in it."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from askonce.errors import VectorIndexError
from askonce.ports import IndexedText
from askonce.units import UnixTime
from askonce.vectors.binding import check_names, check_vector
from askonce.vectors.qdrant_wire import CONNECTIONS, QdrantWire, place_of
from askonce.vectors.ranking import ROUGHLY, SPARE, Row, above, ranked
from askonce.vectors.tally import Tally
from askonce.vectors.urls import Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Clock, Neighbour, Sink, Vector
    from askonce.units import Cosine
    from askonce.vectors.binding import Binding

EXPANSION = 128
"""Of a tenant's graph, for adding and searching."""

_SWEEP_EVERY = 256
_SURPLUS_AT_ONCE = 1000

_COLLECTION = {
    "hnsw_config": {"m": 0, "payload_m": 16, "ef_construct": EXPANSION},  # one graph a tenant
}
_INDEXES = (
    {"field_name": "partition", "field_schema": {"type": "keyword", "is_tenant": True}},
    {"field_name": "expires_at", "field_schema": "float"},
)


class _Payload(msgspec.Struct, frozen=True):
    key: str
    partition: str
    text: str
    tokens: str
    expires_at: float


class _Point(msgspec.Struct, frozen=True):
    payload: _Payload
    vector: list[float]


class _Points(msgspec.Struct, frozen=True):
    points: list[_Point]


class _Named(msgspec.Struct, frozen=True):
    id: str


class _Names(msgspec.Struct, frozen=True):
    points: list[_Named]


class _Count(msgspec.Struct, frozen=True):
    count: int


def open_qdrant(url: str, *, binding: Binding, clock: Clock, sink: Sink) -> QdrantIndex:
    """`qdrant://:api-key@host:6333`, or `qdrants://…` with TLS; `?connections=` bounds the pool."""
    options = Options(url, ("connections",))
    base, key = place_of(options.url)
    name = binding.name(options.prefix)
    settings = {"vectors": {"size": binding.dim, "distance": "Dot"}, **_COLLECTION}
    wire = QdrantWire(
        f"{base}/collections/{name}",
        api_key=key,
        connections=options.number("connections", CONNECTIONS),
        settings=settings,
        indexes=_INDEXES,
    )
    return QdrantIndex(wire, binding=binding, clock=clock, sink=sink)


class QdrantIndex:
    """A VectorIndex. Past the bound, the items whose life ends first leave."""

    def __init__(self, wire: QdrantWire, *, binding: Binding, clock: Clock, sink: Sink) -> None:
        """Connect to nothing yet."""
        self._wire = wire
        self._binding = binding
        self._clock = clock
        self._tally = Tally(sink, binding.dim)
        self._adds = 0

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Insert or replace by item.key."""
        check_vector(vector, self._binding.dim)
        check_names(partition, item.key)
        payload = _Payload(
            key=item.key.hex(),
            partition=partition.hex(),
            text=item.text,
            tokens=base64.b64encode(item.tokens).decode(),
            expires_at=item.expires_at,
        )
        point = {"id": _id(item.key), "vector": vector.tolist(), "payload": payload}
        await self._wire.ask("PUT", "points?wait=true", {"points": [point]}, Any)
        if self._adds % _SWEEP_EVERY == 0:
            await self._sweep()
        self._adds += 1

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """The k nearest live items by exact cosine."""
        check_vector(vector, self._binding.dim)
        self._tally.searches += 1
        question = {
            "query": vector.tolist(),
            "filter": {"must": [_in(partition), self._live()]},
            "limit": k + SPARE,
            "params": {"hnsw_ef": EXPANSION},
            "with_payload": True,
            "with_vector": True,
        }
        found = await self._wire.ask("POST", "points/query", question, _Points)
        rows = [_row(point) for point in found.points if point.payload.partition == partition.hex()]
        return ranked(rows, vector, k)

    async def search_all(self, vector: Vector, *, floor: Cosine, limit: int) -> list[Neighbour]:
        """See `SupportsSearchAll`; compares every point."""
        check_vector(vector, self._binding.dim)
        question = {
            "query": vector.tolist(),
            "filter": {"must": [self._live()]},
            "limit": limit + SPARE,
            "params": {"exact": True},
            "score_threshold": floor - ROUGHLY,
            "with_payload": True,
            "with_vector": True,
        }
        found = await self._wire.ask("POST", "points/query", question, _Points)
        return above(map(_row, found.points), vector, floor, limit)

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remove items by entry key in any partition; returns how many live ones there were."""
        names = sorted({_id(key) for key in keys})
        return await self._remove({"has_id": names}) if names else 0

    async def drop_partition(self, partition: bytes) -> int:
        """Remove a partition's items; returns how many live ones there were."""
        return await self._remove(_in(partition))

    async def clear(self) -> int:
        """Remove everything of this embedder; returns how many live items there were."""
        return await self._remove({"key": "expires_at", "range": {"gte": 0.0}})

    async def count(self) -> int:
        """How many live items there are, over all partitions."""
        return await self._count(self._live())

    def statistics(self) -> dict[str, float]:
        """What this process has seen."""
        return self._tally.statistics()

    async def close(self) -> None:
        """Drop all connections; idempotent."""
        await self._wire.close()

    def _live(self) -> dict[str, object]:
        return {"key": "expires_at", "range": {"gt": self._clock.now()}}

    def _dead(self) -> dict[str, object]:
        return {"key": "expires_at", "range": {"lte": self._clock.now()}}

    async def _remove(self, condition: dict[str, object]) -> int:
        live = await self._count(condition, self._live())
        await self._delete({"filter": {"must": [condition]}})
        return self._tally.gone("cleared", live)

    async def _delete(self, which: dict[str, object]) -> None:
        await self._wire.ask("POST", "points/delete?wait=true", which, Any)

    async def _count(self, *conditions: dict[str, object]) -> int:
        which = {"filter": {"must": list(conditions)}, "exact": True}
        found = await self._wire.ask("POST", "points/count", which, _Count)
        return found.count

    async def _sweep(self) -> None:
        """Take out the dead, and past the bound the first to die."""
        gone = await self._count(self._dead())
        if gone:
            await self._delete({"filter": {"must": [self._dead()]}})
        self._tally.gone("expired", gone)
        held = await self._count()
        while (over := held - self._binding.max_entries) > 0:
            which = {
                "limit": min(over, _SURPLUS_AT_ONCE),
                "order_by": {"key": "expires_at", "direction": "asc"},
                "with_payload": False,
            }
            first = await self._wire.ask("POST", "points/scroll", which, _Names)
            if not first.points:
                break
            await self._delete({"points": [point.id for point in first.points]})
            held -= self._tally.gone("capacity", len(first.points))
        self._tally.held(held)


def _id(key: bytes) -> str:
    """A point's id: the first half of the key, which is a digest."""
    return str(uuid.UUID(bytes=key[:16]))


def _in(partition: bytes) -> dict[str, object]:
    return {"key": "partition", "match": {"value": partition.hex()}}


def _row(point: _Point) -> Row:
    payload = point.payload
    try:
        key, tokens = bytes.fromhex(payload.key), base64.b64decode(payload.tokens)
    except ValueError as error:
        raise VectorIndexError(f"a damaged point: {error}") from error
    item = IndexedText(key, payload.text, UnixTime(payload.expires_at), tokens)
    return Row(item, np.asarray(point.vector, np.float32).tobytes())
