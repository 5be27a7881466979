"""The least that could stand in AskOnce's place, under the same server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Message, Receive, Send], Awaitable[None]]

_PER_CONNECTION = {b"host", b"connection", b"content-length", b"transfer-encoding"}


def canned() -> App:
    """An application that reads the request and gives one answer, read from `BENCH_ANSWER`."""
    answer = json.loads(Path(os.environ["BENCH_ANSWER"]).read_text())
    headers = [(name.encode(), value.encode()) for name, value in answer["headers"]]
    body = answer["body"].encode()
    start = {"type": "http.response.start", "status": 200, "headers": headers}
    end = {"type": "http.response.body", "body": body}

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _live(receive, send)
            return
        while (await receive()).get("more_body", False):
            pass
        await send(dict(start))
        await send(dict(end))

    return app


class Relay:
    """A pass-through of whole bodies over one aiohttp session, to `BENCH_UPSTREAM`."""

    def __init__(self) -> None:
        self._base = os.environ["BENCH_UPSTREAM"]
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await _live(receive, send)
            return
        body = await _body(receive)
        status, headers, answer = await self._ask(scope, body)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _ask(
        self, scope: Message, body: bytes
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=1000)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        headers = [
            (name.decode(), value.decode())
            for name, value in scope["headers"]
            if name not in _PER_CONNECTION
        ]
        url = URL(self._base + scope["path"], encoded=True)
        async with self._session.request(
            scope["method"], url, headers=headers, data=body
        ) as response:
            answer = await response.read()
            kept = [
                (name.lower(), value)
                for name, value in response.raw_headers
                if name.lower() not in {b"connection", b"transfer-encoding"}
            ]
            return response.status, kept, answer


def relay() -> App:
    """The pass-through application."""
    return Relay()


async def _body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    return body


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
