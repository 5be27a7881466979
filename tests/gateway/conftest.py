"""A gateway before fake engines, all on real sockets."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from blockbuster import blockbuster_ctx

from askonce.config import UpstreamConfig
from askonce.gateway.app import Gateway
from askonce.gateway.passthrough import Passthrough
from askonce.gateway.protocol import BoundedProtocol
from askonce.gateway.routing import Upstreams
from askonce.testing.caller import Answer, Caller
from askonce.testing.server import serving
from askonce.upstreams.http import HttpUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from askonce.gateway.http import Receive, Scope, Send
    from askonce.testing.engine import FakeEngine


class Stage:
    """A gateway before fake engines."""

    def __init__(self, port: int, engines: list[FakeEngine], shut: list[str]) -> None:
        self.port = port
        self.engines = engines
        self.shut = shut
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def engine(self) -> FakeEngine:
        return self.engines[0]

    async def caller(self) -> Caller:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        self._writers.append(writer)
        return Caller(reader, writer)

    async def ask(self, method: str, path: str, body: bytes = b"", *headers: str) -> Answer:
        caller = await self.caller()
        try:
            return await caller.ask(method, path, body, *headers)
        finally:
            caller.writer.close()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


async def nothing() -> None:
    """A hook that has nothing to do."""


@asynccontextmanager
async def set_stage(*engines: FakeEngine, models: tuple[str, ...] = ("*",)) -> AsyncIterator[Stage]:
    """Start everything; the n-th engine serves the n-th model pattern."""
    for engine in engines:
        await engine.start()
    upstreams = Upstreams(
        [
            ((pattern,), HttpUpstream(_config(engine.url, f"engine{i}")))
            for i, (engine, pattern) in enumerate(zip(engines, models, strict=True))
        ]
    )
    ids = itertools.count()
    gateway = Gateway(
        {("GET", "/healthz"): healthy, ("GET", "/v1/fails"): failing},
        Passthrough(upstreams, buffer_limit=1 << 20),
        new_id=lambda: f"req_{next(ids)}",
        startup=nothing,
        shutdown=upstreams.close,
    )
    async with serving(gateway, http=BoundedProtocol) as port:
        here = Stage(port, list(engines), [])
        try:
            yield here
        finally:
            here.close()
    for engine in engines:
        await engine.stop()


def _config(url: str, name: str) -> UpstreamConfig:
    return UpstreamConfig(
        url=url, name=name, connect_timeout=0.5, first_byte_timeout=0.4, idle_timeout=0.4
    )


async def healthy(scope: Scope, receive: Receive, send: Send) -> None:
    """A route of the gateway's own."""
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


async def failing(scope: Scope, receive: Receive, send: Send) -> None:
    """A handler with a fault in it."""
    raise LookupError(scope["query_string"])


@pytest.fixture(autouse=True)
def never_blocks() -> Iterator[None]:
    """A call of ours that blocks the event loop fails the test."""
    with blockbuster_ctx("askonce", excluded_modules=["askonce.testing"]):
        yield


@pytest.fixture
def stage() -> Callable[..., AbstractAsyncContextManager[Stage]]:
    """What sets a stage."""
    return set_stage
