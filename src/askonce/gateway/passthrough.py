"""Every path without a cache: byte for byte to an upstream and back, both ways as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import msgspec

from askonce.errors import RequestError
from askonce.gateway.hangup import WhileConnected
from askonce.gateway.http import (
    BodyStream,
    ClientGone,
    declared_length,
    forwarded,
    header,
    read_ahead,
    returned,
    send_stream,
)
from askonce.gateway.models import ModelList
from askonce.ports import UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.gateway.http import Receive, Scope, Send
    from askonce.gateway.routing import Upstreams
    from askonce.ports import Upstream

_SMALL = 64 * 1024
"""A body declared to be no longer is read before it is sent: cheaper, and it can be sent again."""
_MODEL_PATH = "/v1/models/"
_DOTS = frozenset({".", ".."})


class _Named(msgspec.Struct):
    model: str | None = None


_model_in = msgspec.json.Decoder(_Named).decode


class Passthrough:
    """The handler of everything under `/v1/` that no cache answers."""

    def __init__(self, upstreams: Upstreams, *, buffer_limit: int) -> None:
        self._upstreams = upstreams
        self._models = ModelList(upstreams)
        self._several = len(upstreams.all) > 1
        self._buffer_limit = buffer_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one request; raises UpstreamError, RequestError, ClientGone."""
        refuse_websocket(scope)
        target = target_of(scope)
        async with WhileConnected(receive) as caller:
            if self._several and scope["method"] == "GET" and scope["path"] == "/v1/models":
                caller.watch()
                await self._models(scope, target, send)
                return
            upstream, body = await self._prepare(scope, receive, caller)
            headers = forwarded(scope["headers"])
            request = UpstreamRequest(scope["method"], target, headers, body)
            await relay(upstream, request, send)

    async def _prepare(
        self, scope: Scope, receive: Receive, caller: WhileConnected
    ) -> tuple[Upstream, bytes | AsyncIterator[bytes]]:
        headers = scope["headers"]
        length = declared_length(headers)
        if length == 0:
            caller.watch()
            return self._by_path(scope["path"]), b""
        limit = 0 if length is None or length > _SMALL else _SMALL
        if self._several and b"json" in header(headers, b"content-type"):
            limit = self._buffer_limit
        first, whole = await read_ahead(receive, limit) if limit else (b"", False)
        upstream = self._by_body(first) if self._several and whole else self._upstreams.default
        if whole:
            caller.watch()
            return upstream, first
        return upstream, _Upload(BodyStream(receive, first=first), caller)

    def _by_path(self, path: str) -> Upstream:
        if self._several and path.startswith(_MODEL_PATH):
            return self._upstreams.for_model(path[len(_MODEL_PATH) :])
        return self._upstreams.default

    def _by_body(self, body: bytes) -> Upstream:
        try:
            model = _model_in(body).model
        except (msgspec.DecodeError, UnicodeDecodeError):
            model = None
        return self._upstreams.default if model is None else self._upstreams.for_model(model)


class _Upload:
    """A request body on its way through; tells the guard how it ended."""

    def __init__(self, body: BodyStream, caller: WhileConnected) -> None:
        self._body = body
        self._caller = caller

    def __aiter__(self) -> _Upload:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._body)
        except StopAsyncIteration:
            self._caller.watch()
            raise
        except ClientGone:
            self._caller.hang_up()
            raise


async def relay(upstream: Upstream, request: UpstreamRequest, send: Send) -> None:
    """Ask, and hand the answer on as it comes."""
    response = await upstream.send(request)
    try:
        headers = returned(response.headers)
        await send_stream(send, response.status, headers, response.chunks())
    finally:
        await response.close()


def target_of(scope: Scope) -> str:
    """Raw path and query; raises RequestError (404) for a path that climbs out of `/v1`."""
    path: str = scope["path"]
    if "." in path and not _DOTS.isdisjoint(unquote(path).split("/")):
        raise RequestError("the path has dot segments", status=404, code="unknown_path")
    raw = scope.get("raw_path")
    target = raw.decode("ascii") if raw else quote(path)
    query: bytes = scope["query_string"]
    return f"{target}?{query.decode('latin-1')}" if query else target


def refuse_websocket(scope: Scope) -> None:
    """Raises RequestError (501) when the request asks for a WebSocket."""
    if header(scope["headers"], b"upgrade").lower() == b"websocket":
        raise RequestError("WebSocket is not supported", status=501, code="not_implemented")
