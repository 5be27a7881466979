"""One short request and its answer over a kept connection, without a session's work around it.

A session settles for each request what never changes for one engine: cookies, redirects, default
headers, netrc, tracing, and a task that writes the body. Here all that is left out; connections,
writer and parser are aiohttp's.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

import aiohttp
from aiohttp.http import RawResponseMessage, StreamWriter
from multidict import CIMultiDict

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from yarl import URL

    Pairs = list[tuple[str, str]]


class Dropped(aiohttp.ClientError):
    """The server closed the connection before it answered anything."""

    def __init__(self, *, stale: bool) -> None:
        super().__init__("connection dropped")
        self.stale = stale
        """It was a kept connection, so it may have been closed before the request came."""


class Begun(NamedTuple):
    """An answer of which status and headers have come; it keeps its connection until its end."""

    status: int
    raw_headers: tuple[tuple[bytes, bytes], ...]
    content: aiohttp.StreamReader
    close: Callable[[], None]


class _Place(aiohttp.ClientRequest):
    """Stands for every request to one server when a connection is looked for."""

    @cached_property
    def connection_key(self) -> ConnectionKey:
        """Which connections fit."""
        return super().connection_key


class Exchange:
    """Asks one server; bodies must fit into a connection's send buffer."""

    def __init__(self, base: URL, connector: aiohttp.BaseConnector, **settings: float) -> None:
        """Keep what all requests have in common; inside a running event loop.

        settings: connect, sock_connect, sock_read in seconds; idle: between two pieces of a body;
        max_header: bytes of a line.
        """
        self._loop = asyncio.get_running_loop()
        self._connector = connector
        self._place = _Place("POST", base, loop=self._loop)
        self._host = self._place.headers["Host"]
        self._idle = settings.pop("idle")
        self._max_header = int(settings.pop("max_header"))
        self._timeout = aiohttp.ClientTimeout(**settings)
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def post(self, target: str, headers: Pairs, body: bytes) -> Begun:
        """Send and wait for the answer's head; raises Dropped, aiohttp's errors, TimeoutError."""
        connection = await self._connector.connect(self._place, [], self._timeout)
        try:
            return await self._post(connection, f"POST {target} HTTP/1.1", headers, body)
        except BaseException:
            connection.close()
            raise

    async def _post(self, connection: Connection, line: str, headers: Pairs, body: bytes) -> Begun:
        protocol = connection.protocol
        assert protocol is not None  # noqa: S101 - a connection has one until it is released
        reused = protocol in self._used
        protocol.set_response_params(
            read_until_eof=True,
            auto_decompress=False,
            read_timeout=self._timeout.sock_read,
            max_line_size=self._max_header,
            max_field_size=self._max_header,
        )
        try:
            await self._write(protocol, line, headers, body)
            message, content = await _head(protocol)
        except aiohttp.ServerDisconnectedError as exc:
            raise Dropped(stale=reused and isinstance(exc.message, str)) from exc
        except (aiohttp.ClientOSError, ConnectionError) as exc:
            raise Dropped(stale=reused) from exc
        if not reused:
            self._used.add(protocol)
        content.on_eof(connection.release)
        if not content.is_eof():
            protocol.read_timeout = self._idle
            protocol.start_timeout()
        return Begun(message.code, message.raw_headers, content, connection.close)

    async def _write(
        self, protocol: ResponseHandler, line: str, headers: Pairs, body: bytes
    ) -> None:
        writer = StreamWriter(protocol, self._loop)
        await writer.write_headers(line, CIMultiDict([("host", self._host), *headers]))
        await writer.write_eof(body)
        protocol.start_timeout()


async def _head(protocol: ResponseHandler) -> tuple[RawResponseMessage, aiohttp.StreamReader]:
    """The first head that is not an interim one (RFC 9110 section 15.2)."""
    while True:
        message, content = await protocol.read()
        if message.code >= 200 or message.code == 101:
            return message, content
