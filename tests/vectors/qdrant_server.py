"""Qdrant's documented REST calls, as far as AskOnce makes them, over its embedded engine.

The engine's own code filters, searches and stores; only the wire is ours. A call or field that is
not known here is refused, so that nothing undocumented passes.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import qdrant_edge as edge
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


class Qdrant:
    """Collections by name, each one shard of the embedded engine."""

    def __init__(self) -> None:
        """No collections yet."""
        self._folder = Path(tempfile.mkdtemp(prefix="askonce-qdrant-"))
        self._shards: dict[str, edge.EdgeShard] = {}
        self._made = 0
        self.api_key = ""
        """Asked of every call unless empty."""
        self.url = ""

    def drop_all(self) -> None:
        """As an operator does."""
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()

    def close(self) -> None:
        """Remove all files."""
        self.drop_all()
        shutil.rmtree(self._folder)

    async def answer(self, request: web.Request) -> web.Response:
        """Any call."""
        if self.api_key and request.headers.get("api-key") != self.api_key:
            return web.Response(status=401, text="Must provide an API key")
        _, collections, name, *rest = request.path.split("/")
        assert collections == "collections"
        body, call = await request.json(), f"{request.method} {'/'.join(rest)}".strip()
        if call == "PUT":
            return self._create(name, body)
        shard = self._shards.get(name)
        if shard is None:
            error = f"Not found: Collection `{name}` doesn't exist!"
            return web.json_response({"status": {"error": error}, "time": 0.0}, status=404)
        if request.method == "PUT" or call.endswith("delete"):
            assert request.query == {"wait": "true"}
        return web.json_response({"result": _CALLS[call](shard, body), "status": "ok", "time": 0.0})

    def _create(self, name: str, body: Mapping[str, Any]) -> web.Response:
        if name in self._shards:
            error = f"Wrong input: Collection `{name}` already exists!"
            return web.json_response({"status": {"error": error}, "time": 0.0}, status=409)
        assert body.keys() == {"vectors", "hnsw_config"}
        size, distance = body["vectors"]["size"], body["vectors"]["distance"]
        self._made += 1
        path = self._folder / str(self._made)
        path.mkdir()
        kind = edge.EdgeVectorParams(size, getattr(edge.Distance, distance))
        self._shards[name] = edge.EdgeShard.create(str(path), edge.EdgeConfig(kind))
        return web.json_response({"result": True, "status": "ok", "time": 0.0})


def _index(shard: edge.EdgeShard, body: dict[str, Any]) -> object:
    schema = body["field_schema"]
    if isinstance(schema, dict):
        assert schema == {"type": "keyword", "is_tenant": True}
        params: Any = edge.KeywordIndexParams(is_tenant=True)
    else:
        params = {"float": edge.PayloadSchemaType.Float}[schema]
    shard.update(edge.UpdateOperation.create_field_index(body["field_name"], params))
    return _DONE


def _upsert(shard: edge.EdgeShard, body: dict[str, Any]) -> object:
    points = [edge.Point(one["id"], one["vector"], one["payload"]) for one in body["points"]]
    shard.update(edge.UpdateOperation.upsert_points(points))
    return _DONE


def _query(shard: edge.EdgeShard, body: dict[str, Any]) -> object:
    assert body["params"].keys() == {"hnsw_ef"} or body["params"] == {"exact": True}
    found = shard.query(
        edge.QueryRequest(
            limit=body["limit"],
            query=edge.Query.Nearest(body["query"]),
            filter=_filter(body["filter"]),
            score_threshold=body.get("score_threshold"),
            with_vector=body["with_vector"],
            with_payload=body["with_payload"],
        )
    )
    return {"points": [_told(one) | {"score": one.score, "version": 0} for one in found]}


def _count(shard: edge.EdgeShard, body: dict[str, Any]) -> object:
    return {"count": shard.count(edge.CountRequest(body["exact"], _filter(body["filter"])))}


def _delete(shard: edge.EdgeShard, body: dict[str, Any]) -> object:
    (how,) = body
    if how == "points":
        shard.update(edge.UpdateOperation.delete_points(body["points"]))
    else:
        shard.update(edge.UpdateOperation.delete_points_by_filter(_filter(body["filter"])))
    return _DONE


def _scroll(shard: edge.EdgeShard, body: dict[str, Any]) -> object:
    key, direction = body["order_by"]["key"], body["order_by"]["direction"]
    order = edge.OrderBy(key, {"asc": edge.Direction.Asc}[direction])
    request = edge.ScrollRequest(
        limit=body["limit"], with_payload=body["with_payload"], order_by=order
    )
    records, _ = shard.scroll(request)
    return {"points": [_told(one) for one in records], "next_page_offset": None}


def _told(one: Any) -> dict[str, Any]:
    return {"id": str(one.id), "payload": one.payload, "vector": one.vector}


def _filter(body: dict[str, Any]) -> edge.Filter:
    assert body.keys() == {"must"}
    return edge.Filter(must=[_condition(one) for one in body["must"]])


def _condition(body: dict[str, Any]) -> Any:
    if "has_id" in body:
        return edge.HasIdCondition(set(body["has_id"]))
    if "match" in body:
        return edge.FieldCondition(body["key"], match=edge.MatchValue(body["match"]["value"]))
    return edge.FieldCondition(body["key"], range=edge.RangeFloat(**body["range"]))


_DONE = {"operation_id": 0, "status": "completed"}
_CALLS = {
    "PUT index": _index,
    "PUT points": _upsert,
    "POST points/query": _query,
    "POST points/count": _count,
    "POST points/delete": _delete,
    "POST points/scroll": _scroll,
}


@asynccontextmanager
async def qdrant() -> AsyncIterator[Qdrant]:
    """A server on a free port."""
    server, app = Qdrant(), web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"qdrant://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()
        server.close()
