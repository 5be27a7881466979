"""The ASGI application: routes, request ids, and what becomes of errors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from askonce.errors import AskOnceError, RequestError, places
from askonce.gateway.errors import error_body, error_of, internal_error
from askonce.gateway.http import ClientGone, send_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from askonce.gateway.http import Handler, Message, Receive, Scope, Send

    Hook = Callable[[], Awaitable[None]]

_log = logging.getLogger(__name__)


class Gateway:
    """Hands each request to its handler: by method and path, else under `/v1/` to the rest's.

    A path with an escape is none of the routes': an upstream may read it in another way.
    """

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Handler],
        rest: Handler,
        *,
        new_id: Callable[[], str],
        startup: Hook,
        shutdown: Hook,
        admin: tuple[int, Handler] | None = None,
    ) -> None:
        """admin: what answers at a port of its own, and nowhere else; port 0 is none."""
        self._admin = admin
        self._routes = dict(routes)
        self._paths = {path for _, path in routes}
        self._rest = rest
        self._new_id = new_id
        self._startup = startup
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        kind = scope["type"]
        if kind == "http":
            await self._serve(scope, receive, send)
        elif kind == "lifespan":
            await self._live(receive, send)
        else:
            await _refuse_websocket(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = scope["askonce.request_id"] = self._new_id()
        reply = _Reply(send, request_id)
        try:
            await self._handler_of(scope)(scope, receive, reply)
        except ClientGone:
            return
        except AskOnceError as exc:
            if not isinstance(exc, RequestError):
                _log.warning("%s %s: %s", request_id, type(exc).__name__, exc)
            await _fail(scope, reply, error_of(exc))
        except Exception as exc:  # noqa: BLE001 - the last place where a fault can become a 500
            _log.error("%s %s\n%s", request_id, type(exc).__name__, places(exc))
            await _fail(scope, reply, internal_error())

    def _handler_of(self, scope: Scope) -> Handler:
        if self._admin is not None and self._admin[0] and scope["server"][1] == self._admin[0]:
            return self._admin[1]
        method, path = scope["method"], scope["path"]
        raw: bytes = scope.get("raw_path") or path.encode()
        handler = self._routes.get((method, path))
        if handler is not None and b"%" not in raw:
            return handler
        if raw.startswith(b"/v1/"):
            return self._rest
        if path not in self._paths or b"%" in raw:
            raise RequestError(f"there is no {path}", status=404, code="unknown_path")
        if method == "HEAD" and (handler := self._routes.get(("GET", path))) is not None:
            return handler
        raise RequestError(
            f"{path} does not answer {method}", status=405, code="method_not_allowed"
        )

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._startup()
        except AskOnceError as exc:
            await send({"type": "lifespan.startup.failed", "message": str(exc)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._shutdown()
        await send({"type": "lifespan.shutdown.complete"})


class _Reply:
    """A `send` that puts the request id into the headers and knows whether they are out."""

    __slots__ = ("_request_id", "_send", "started")

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.started = False

    def __call__(self, message: Message) -> Awaitable[None]:
        if not self.started:
            self.started = True
            headers = message["headers"]
            if all(name != b"x-request-id" for name, _ in headers):
                own = (b"x-request-id", self._request_id.encode("ascii"))
                message["headers"] = [*headers, own]
        return self._send(message)


async def _fail(scope: Scope, reply: _Reply, error: RequestError) -> None:
    """Tell the error, or leave a begun response without its end: the server then breaks it."""
    if not reply.started:
        last = [(b"connection", b"close")] if error.status == 408 else []
        await send_json(reply, error.status, error_body(error, scope), headers=last)


async def _refuse_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    error = RequestError("WebSocket is not supported", status=501, code="not_implemented")
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1011, "reason": error.message})
        return
    headers = [(b"content-type", b"application/json")]
    await send({"type": "websocket.http.response.start", "status": 501, "headers": headers})
    body = error_body(error, scope)
    await send({"type": "websocket.http.response.body", "body": body})
