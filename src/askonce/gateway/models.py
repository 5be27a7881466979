"""`GET /v1/models` over several upstreams."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from askonce.errors import UpstreamBroken, UpstreamError
from askonce.gateway.http import forwarded, returned, send_json, send_response
from askonce.ports import Headers, UpstreamRequest

if TYPE_CHECKING:
    from askonce.gateway.http import Scope, Send
    from askonce.gateway.routing import Upstreams
    from askonce.ports import Upstream

_CONDITIONS = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")


class _Listed(msgspec.Struct):
    data: list[dict[str, Any]]


class _Refusal(msgspec.Struct):
    status: int
    headers: Headers
    body: bytes


_decode = msgspec.json.Decoder(_Listed).decode
_encode = msgspec.json.Encoder().encode


class ModelList:
    """One list of the models of all upstreams that answer."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams

    async def __call__(self, scope: Scope, target: str, send: Send) -> None:
        """Answer with the merged list; when no upstream has one, as the first of them did."""
        headers = forwarded(scope["headers"], without=_CONDITIONS)
        request = UpstreamRequest("GET", target, headers, b"")
        asked = [_models_of(upstream, request) for upstream in self._upstreams.all]
        answers = await asyncio.gather(*asked)
        lists = [answer for answer in answers if isinstance(answer, list)]
        if lists:
            await send_json(send, 200, _encode({"object": "list", "data": _merged(lists)}))
            return
        refusals = [answer for answer in answers if isinstance(answer, _Refusal)]
        if not refusals:
            raise next(answer for answer in answers if isinstance(answer, UpstreamError))
        first = refusals[0]
        await send_response(send, first.status, returned(first.headers), first.body)


def _merged(lists: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    by_id: dict[Any, dict[str, Any]] = {}
    for models in lists:
        for model in models:
            by_id.setdefault(str(model.get("id")), model)
    return list(by_id.values())


async def _models_of(
    upstream: Upstream, request: UpstreamRequest
) -> list[dict[str, Any]] | _Refusal | UpstreamError:
    try:
        response = await upstream.send(request)
        try:
            body = await response.read()
        finally:
            await response.close()
    except UpstreamError as exc:
        return exc
    if response.status != 200:
        return _Refusal(response.status, response.headers, body)
    try:
        return _decode(body).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UpstreamBroken(f"the model list of {upstream.name} cannot be read")
