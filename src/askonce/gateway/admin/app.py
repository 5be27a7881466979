"""The admin API as an ASGI application."""

from __future__ import annotations

import hmac
import logging
from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from askonce.errors import AskOnceError, CacheFault, ConfigError, RequestError, places
from askonce.gateway.admin.operations import PREFIX, Asked, Operation, describe
from askonce.gateway.errors import error_body, error_of, internal_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request

    Endpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)

LONGEST = 4 * 1024 * 1024


def admin_app(operations: Sequence[Operation], tokens: Mapping[str, str]) -> Starlette:
    """Serve these operations to who shows one of the tokens, which are given by name."""
    page = msgspec.json.encode(describe(operations))

    async def openapi(_: Request) -> Response:
        return Response(page, media_type="application/json")

    routes = [Route(f"{PREFIX}/openapi.json", _guarded(openapi, tokens))]
    routes += [
        Route(PREFIX + each.path, _guarded(_endpoint(each, tokens), tokens), methods=[each.method])
        for each in operations
    ]
    lost = _lost(tokens)
    app = Starlette(routes=routes, exception_handlers={404: lost, 405: lost})
    app.router.redirect_slashes = False
    return app


def _lost(tokens: Mapping[str, str]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Refuse what no route answers; without a token that is not told either."""

    async def lost(request: Request, error: Exception) -> Response:
        async def refuse(_: Request) -> Response:
            path = request.url.path
            if getattr(error, "status_code", 404) == 404:
                raise RequestError(f"there is no {path}", status=404, code="unknown_path")
            says = f"{path} does not answer {request.method}"
            raise RequestError(says, status=405, code="method_not_allowed")

        return await _guarded(refuse, tokens)(request)

    return lost


def _endpoint(each: Operation, tokens: Mapping[str, str]) -> Endpoint:
    async def answer(request: Request) -> Response:
        raw = await _body_of(request)
        asked = Asked(
            by=_bearer(request, tokens),
            path=request.path_params,
            query=each.read_query(request.query_params.items()),
            body=each.read_body(raw),
        )
        told = await each.run(asked)
        return Response(msgspec.json.encode(told), media_type="application/json")

    return answer


async def _body_of(request: Request) -> bytes:
    pieces, size = [], 0
    async for piece in request.stream():
        pieces.append(piece)
        size += len(piece)
        if size > LONGEST:
            raise RequestError("the body is too large", status=413, code="body_too_large")
    return b"".join(pieces)


def _guarded(endpoint: Endpoint, tokens: Mapping[str, str]) -> Endpoint:
    """Ask for a token first, and tell every error as the gateway does."""

    async def guarded(request: Request) -> Response:
        try:
            _bearer(request, tokens)
            return await endpoint(request)
        except Exception as error:  # noqa: BLE001 - the last place where it can become a 500
            return _told(error, request)

    return guarded


def _bearer(request: Request, tokens: Mapping[str, str]) -> str:
    """Whose token the request shows; raises RequestError (401)."""
    kind, _, shown = request.headers.get("authorization", "").partition(" ")
    found = ""
    for name, token in tokens.items():
        if hmac.compare_digest(shown.strip().encode(), token.encode()):
            found = name
    if kind.lower() != "bearer" or not found:
        raise RequestError("show an admin token", status=401, code="unauthorized")
    return found


def _told(error: Exception, request: Request) -> Response:
    plain = _plain(error)
    headers = {"www-authenticate": "Bearer"} if plain.status == 401 else None
    body = error_body(plain, request.scope)
    return Response(body, plain.status, headers, media_type="application/json")


def _plain(error: Exception) -> RequestError:
    if isinstance(error, CacheFault):
        return RequestError(str(error), status=503, type="server_error", code="part_unavailable")
    if isinstance(error, ConfigError):
        return RequestError(str(error), status=409, code="not_configured")
    if isinstance(error, AskOnceError):
        return error_of(error)
    log.error("%s\n%s", type(error).__name__, places(error))
    return internal_error()
