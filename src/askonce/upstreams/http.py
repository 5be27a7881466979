"""An engine or provider behind HTTP, asked with aiohttp; bytes go through as they are."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

import aiohttp
from aiohttp.http import HttpProcessingError
from yarl import URL

from askonce.errors import (
    AskOnceError,
    ConfigError,
    RequestError,
    UpstreamBroken,
    UpstreamTimeout,
    UpstreamUnreachable,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp.abc import ResolveResult
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

    from askonce.config import UpstreamConfig
    from askonce.ports import Headers, UpstreamRequest

_BROKEN = (aiohttp.ClientError, HttpProcessingError, OSError)
_ONE_WRITE = 32 * 1024
"""A body up to this fits into the send buffer whole; a larger one is written in paced pieces."""
_PIECE = 256 * 1024
_OWN_HEADERS = frozenset({"User-Agent", "Accept", "Accept-Encoding", "Content-Type"})
_KEEPALIVE = 30.0
_DNS_TTL = 30
_MAX_HEADER = 64 * 1024


class _Dropped(aiohttp.ClientError):
    """The server closed the connection before it answered anything."""

    def __init__(self, *, stale: bool) -> None:
        super().__init__("connection dropped")
        self.stale = stale
        """It was a kept connection, so it may have been closed before the request came."""


class _Response(aiohttp.ClientResponse):
    """A response that knows whether its connection has served one before."""

    used: ClassVar[WeakSet[ResponseHandler]] = WeakSet()

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        reused = protocol in self.used
        try:
            await super().start(connection)
        except aiohttp.ServerDisconnectedError as exc:
            unanswered = isinstance(exc.message, str)
            raise _Dropped(stale=reused and unanswered) from exc
        except aiohttp.ClientOSError as exc:
            raise _Dropped(stale=reused) from exc
        if not reused and protocol is not None:
            self.used.add(protocol)
        return self


class _Resolver(aiohttp.ThreadedResolver):
    """Names to addresses, within the time that a connection may take."""

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._timeout = timeout

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        async with asyncio.timeout(self._timeout):
            return await super().resolve(host, port, family)


class HttpUpstream:
    """One base URL; the `/v1` of a request's path stands for it."""

    def __init__(self, config: UpstreamConfig) -> None:
        self._base = _checked_base(config.url)
        self.name = config.name or _place(self._base)
        self.revision = config.revision
        self.ask_usage = config.ask_usage
        self._config = config
        self._bearer = _checked_key(config.api_key)
        self._replaced = {b"host"} | ({b"authorization", b"x-api-key"} if self._bearer else set())
        self._replaced_whole = self._replaced | {b"content-length"}
        self._kept: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, request: UpstreamRequest) -> HttpResponse:
        """Send and wait for status and headers; a stale connection is replaced once."""
        if self._closed:
            raise UpstreamUnreachable(f"upstream {self.name} is closed")
        try:
            response = await self._ask(request)
        except _BROKEN as exc:
            raise self._mapped(exc) from exc
        self._arm_idle_timeout(response)
        return HttpResponse(response, self.name)

    async def close(self) -> None:
        """Drop all connections."""
        self._closed = True
        for session in (self._kept, self._fresh):
            if session is not None:
                await session.close()

    async def _ask(self, request: UpstreamRequest) -> aiohttp.ClientResponse:
        if self._kept is None:
            self._kept = self._session(force_close=False)
        try:
            return await self._request(self._kept, request)
        except _Dropped as exc:
            if not exc.stale or not isinstance(request.body, bytes):
                raise
        if self._fresh is None:
            self._fresh = self._session(force_close=True)
        return await self._request(self._fresh, request)

    async def _request(
        self, session: aiohttp.ClientSession, request: UpstreamRequest
    ) -> aiohttp.ClientResponse:
        body = request.body
        url = URL(self._base + request.path[3:], encoded=True)
        headers = self._outgoing(request)
        if isinstance(body, bytes) and len(body) <= _ONE_WRITE:
            return await session.request(
                request.method, url, headers=headers, data=body or None, allow_redirects=False
            )
        async with asyncio.timeout(None) as stalled:
            pieces = _sliced(body) if isinstance(body, bytes) else body
            paced = _Paced(pieces, stalled, self._config.idle_timeout)
            try:
                return await session.request(
                    request.method, url, headers=headers, data=paced, allow_redirects=False
                )
            finally:
                paced.release()

    def _outgoing(self, request: UpstreamRequest) -> list[tuple[str, str]]:
        body = request.body
        replaced = self._replaced_whole if isinstance(body, bytes) else self._replaced
        try:
            pairs = [(n.decode(), v.decode()) for n, v in request.headers if n not in replaced]
        except UnicodeDecodeError as exc:
            raise RequestError("a header is not valid UTF-8", code="invalid_header") from exc
        if self._bearer:
            pairs.append(("authorization", self._bearer))
        if isinstance(body, bytes) and body:
            pairs.append(("content-length", str(len(body))))
        return pairs

    def _session(self, *, force_close: bool) -> aiohttp.ClientSession:
        config = self._config
        connector = aiohttp.TCPConnector(
            limit=config.max_connections,
            ttl_dns_cache=_DNS_TTL,
            resolver=_Resolver(config.connect_timeout),
            force_close=force_close,
            keepalive_timeout=None if force_close else _KEEPALIVE,
        )
        return aiohttp.ClientSession(
            connector=connector,
            response_class=_Response,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_OWN_HEADERS,
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
            timeout=aiohttp.ClientTimeout(
                connect=config.first_byte_timeout,
                sock_connect=config.connect_timeout,
                sock_read=config.first_byte_timeout,
            ),
        )

    def _arm_idle_timeout(self, response: aiohttp.ClientResponse) -> None:
        connection = response.connection
        if connection is None or response.content.is_eof():
            return
        protocol = connection.protocol
        if protocol is not None:
            protocol.read_timeout = self._config.idle_timeout
            protocol.start_timeout()

    def _mapped(self, exc: BaseException) -> AskOnceError:
        cause = exc.__cause__
        if isinstance(cause, AskOnceError):
            return cause
        if isinstance(exc, TimeoutError):
            return UpstreamTimeout(f"upstream {self.name} did not answer in time")
        return UpstreamUnreachable(f"upstream {self.name} cannot be reached")


class HttpResponse:
    """An answer that has begun."""

    __slots__ = ("_name", "_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, name: str) -> None:
        self._response = response
        self._name = name
        self.status: int = response.status
        self.headers: Headers = [(n.lower(), v) for n, v in response.raw_headers]

    def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they arrive."""
        return _Chunks(self._response.content.readany, self._name)

    async def read(self) -> bytes:
        """The whole body."""
        try:
            return await self._response.read()
        except _BROKEN as exc:
            raise UpstreamBroken(f"the answer of {self._name} broke off") from exc

    async def close(self) -> None:
        """Drop the connection unless the body was read whole."""
        self._response.close()


class _Chunks:
    __slots__ = ("_name", "_read")

    def __init__(self, read: Callable[[], Awaitable[bytes]], name: str) -> None:
        self._read = read
        self._name = name

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await self._read()
        except _BROKEN as exc:
            raise UpstreamBroken(f"the answer of {self._name} broke off") from exc
        if not piece:
            raise StopAsyncIteration
        return piece


class _Paced:
    """A body whose pieces must each leave in time, until the answer begins."""

    def __init__(
        self, pieces: AsyncIterator[bytes], stalled: asyncio.Timeout, limit: float
    ) -> None:
        self._pieces = pieces
        self._stalled: asyncio.Timeout | None = stalled
        self._limit = limit

    def __aiter__(self) -> _Paced:
        return self

    async def __anext__(self) -> bytes:
        self._expect(None)
        piece = await anext(self._pieces)
        self._expect(asyncio.get_running_loop().time() + self._limit)
        return piece

    def release(self) -> None:
        """Leave the pace to the response's own timeout."""
        self._expect(None)
        self._stalled = None

    def _expect(self, when: float | None) -> None:
        if self._stalled is not None and not self._stalled.expired():
            self._stalled.reschedule(when)


async def _sliced(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]


def _place(base: str) -> str:
    """The address as a name: no two engines share one, so no two share answers."""
    return base.partition("://")[2].removesuffix("/v1")


def _checked_base(url: str) -> str:
    parsed = URL(url)
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ConfigError(f"upstream url {url!r} is not http(s)://host[:port]/v1")
    if parsed.user or parsed.password:
        raise ConfigError("an upstream url carries no credential; set api_key instead")
    if parsed.raw_query_string or parsed.raw_fragment:
        raise ConfigError(f"upstream url {url!r} has a query or a fragment")
    return str(parsed).rstrip("/")


def _checked_key(key: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("an upstream api_key has characters that no header can carry")
    return f"Bearer {key}" if key else ""
