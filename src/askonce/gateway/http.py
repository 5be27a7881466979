"""HTTP as ASGI speaks it: bodies in, responses out, and which headers may pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from askonce.errors import AskOnceError, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from askonce.deadline import Deadlines
    from askonce.ports import Headers

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers of one connection, RFC 9110 section 7.6.1; `proxy-*` belongs to them as well."""
_REQUEST_ONLY = HOP_BY_HOP | {b"host", b"expect"}
_OWN = (b"x-askonce-", b"proxy-")
_BODILESS = frozenset({204, 304})


class ClientGone(AskOnceError):
    """The caller hung up; nobody reads an answer any more."""


def header(headers: Headers, name: bytes) -> bytes:
    """The first value of a header, or nothing."""
    for candidate, value in headers:
        if candidate == name:
            return value
    return b""


def is_encoded(headers: Headers) -> bool:
    """Whether the body is compressed, so that nobody here can read it."""
    return header(headers, b"content-encoding").lower() not in {b"", b"identity"}


def declared_length(headers: Headers) -> int | None:
    """The body's length as the headers tell it: None when it is chunked."""
    length = header(headers, b"content-length")
    if length.isdigit():
        return int(length)
    return None if header(headers, b"transfer-encoding") else 0


def forwarded(headers: Headers, *, without: Iterable[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """The request headers an upstream may see, in order."""
    dropped = _dropped(headers, _REQUEST_ONLY, without)
    return [pair for pair in headers if pair[0] not in dropped and not pair[0].startswith(_OWN)]


_SERVER_TELLS = HOP_BY_HOP | {b"date"}
"""The server in front tells these itself."""


def returned(headers: Headers, *, without: Iterable[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """The response headers of an upstream that a caller may see, in order."""
    dropped = _dropped(headers, _SERVER_TELLS, without)
    return [
        pair for pair in headers if pair[0] not in dropped and not pair[0].startswith(b"proxy-")
    ]


def _dropped(
    headers: Headers, always: frozenset[bytes], without: Iterable[bytes]
) -> frozenset[bytes]:
    named = header(headers, b"connection").lower()
    if named in _PLAIN:
        return _with(always, without) if isinstance(without, tuple) else always.union(without)
    return always.union((token.strip() for token in named.split(b",")), without)


class PacedReceive:
    """Receives, and raises RequestError (408) when the next piece of the body is late."""

    __slots__ = ("_deadlines", "_more", "_receive")

    def __init__(self, receive: Receive, deadlines: Deadlines) -> None:
        self._receive = receive
        self._deadlines = deadlines
        self._more = True

    async def __call__(self) -> Message:
        """The next message; what comes after the body may take its time."""
        if not self._more:
            return await self._receive()
        try:
            with self._deadlines.span():
                message = await self._receive()
        except TimeoutError:
            raise RequestError(
                "the request body came too slowly", status=408, code="body_timeout"
            ) from None
        self._more = message.get("more_body", False)
        return message


_PLAIN = frozenset({b"", b"keep-alive", b"close"})


@lru_cache(maxsize=64)
def _with(always: frozenset[bytes], without: tuple[bytes, ...]) -> frozenset[bytes]:
    return always.union(without)


class BodyStream:
    """Pieces of the request body as they arrive; raises ClientGone when they stop half-way."""

    __slots__ = ("_first", "_more", "_receive")

    def __init__(self, receive: Receive, *, first: bytes = b"") -> None:
        self._receive = receive
        self._first = first
        self._more = True

    def __aiter__(self) -> BodyStream:
        return self

    async def __anext__(self) -> bytes:
        if first := self._first:
            self._first = b""
            return first
        while self._more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("the caller hung up in the middle of its request")
            self._more = message.get("more_body", False)
            if piece := message.get("body"):
                return bytes(piece)
        raise StopAsyncIteration


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole request body; raises RequestError (413) past the limit, ClientGone."""
    if (declared_length(scope["headers"]) or 0) > limit:
        raise too_large(limit)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body = bytes(message.get("body", b""))
        whole = len(body) <= limit
    else:
        body, whole = await read_ahead(_again(message, receive), limit)
    if not whole:
        raise too_large(limit)
    return body


def _again(first: Message, receive: Receive) -> Receive:
    """Receive as if the first message had not come yet."""
    left = [first]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


async def read_ahead(receive: Receive, limit: int) -> tuple[bytes, bool]:
    """The body and True, or what came of it when it passed the limit and False."""
    pieces: list[bytes] = []
    size = 0
    async for piece in BodyStream(receive):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(pieces), False
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), True


def too_large(limit: int) -> RequestError:
    """The refusal of a body past the limit."""
    return RequestError(
        f"the request body is larger than {limit} bytes", status=413, code="body_too_large"
    )


async def send_response(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """A whole response; the caller gives every header, content-length included."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_json(
    send: Send, status: int, body: bytes, *, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """A whole JSON response."""
    own = (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))
    await send_response(send, status, [*own, *headers], body)


async def start_stream(send: Send, status: int, headers: Headers) -> None:
    """Status and headers; where the status allows no body its length is not told either."""
    if status in _BODILESS:
        headers = [pair for pair in headers if pair[0] != b"content-length"]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def send_stream(
    send: Send, status: int, headers: Headers, pieces: AsyncIterator[bytes]
) -> None:
    """A response whose body comes in pieces, as fast as the caller reads; raises ClientGone.

    When the pieces break off their error passes through and the body stays without an end, so
    that the server breaks the connection instead of ending it.
    """
    length = b"" if status in _BODILESS else header(headers, b"content-length")
    left = int(length) if length.isdigit() else -1
    more = True
    try:
        await start_stream(send, status, headers)
        async for piece in pieces:
            left -= len(piece)
            more = left != 0
            await send({"type": "http.response.body", "body": piece, "more_body": more})
        if more:
            await send({"type": "http.response.body", "body": b""})
    except OSError as exc:
        raise ClientGone("the caller hung up") from exc
