"""uvicorn's HTTP/1.1, with a bound for all of a request that is not its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from askonce.errors import RequestError
from askonce.gateway.errors import error_body

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from askonce.gateway.http import Scope

MAX_HEAD = 128 * 1024
"""Bytes of a request's head; the same holds for its trailers, and for a chunk's extensions."""
MAX_HEADERS = 200
LINGER = 2.0
"""Seconds that a refused caller gets to read why: closing at once would discard the answer."""

_data_received = HttpToolsProtocol.data_received
_on_headers_complete = HttpToolsProtocol.on_headers_complete
_on_body = HttpToolsProtocol.on_body
"""Called for every request, where `super()` would double what the bounds cost."""


class _TooLarge(Exception):
    """The head is past a bound."""


class BoundedProtocol(HttpToolsProtocol):
    """Counts bytes since the last head or piece of a body was complete.

    httptools joins a header that comes in pieces anew with each of them, and keeps all headers:
    without a bound the first costs quadratic time, and the second memory.
    """

    _pending = 0
    _over = False
    _refused = False

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless the bounds have been passed."""
        if self._refused:
            return
        self._pending += len(data)
        _data_received(self, data)
        if self._pending and not self._refused:
            self._bound()

    def on_headers_complete(self) -> None:
        """Begin the request if its head is within the bounds; trailers are kept apart from it."""
        if len(self.headers) > MAX_HEADERS or self._pending > MAX_HEAD < self._head_size():
            self._over = True
            raise _TooLarge
        self._pending = 0
        _on_headers_complete(self)
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._pending = 0
        _on_body(self, body)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser gave up on."""
        self._refuse(_too_large() if self._over else RequestError(msg, code="invalid_http"))

    def _bound(self) -> None:
        if self._pending > MAX_HEAD or len(self.headers or ()) > MAX_HEADERS:
            self._refuse(_too_large())

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _refuse(self, error: RequestError) -> None:
        """Answer if no answer has begun, and read no further."""
        self._refused = True
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self.transport.close()
            return
        scope: Scope = {"path": ""}
        body = error_body(error, scope)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[error.status] + head % len(body) + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.close)


def _too_large() -> RequestError:
    return RequestError(
        f"the head of the request has more than {MAX_HEAD} bytes or {MAX_HEADERS} headers",
        status=431,
        code="head_too_large",
    )
