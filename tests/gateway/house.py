"""The whole gateway as configured, before fake engines, all on real sockets."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from askonce.config import (
    AdminConfig,
    BreakerConfig,
    Config,
    ControlConfig,
    ExactConfig,
    InvalidationConfig,
    RecordConfig,
    SemanticConfig,
    ServerConfig,
    TenantConfig,
    TrustConfig,
    UpstreamConfig,
)
from askonce.gateway.protocol import BoundedProtocol
from askonce.gateway.service import Service
from askonce.testing.caller import Answer, Caller
from askonce.testing.embedders import HashingEmbedder
from askonce.testing.engine import FakeEngine
from askonce.testing.server import serving
from askonce.vectors.local import LocalIndex
from askonce.wiring import open_log, open_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from askonce.cache.driver import Cache
    from askonce.ports import Embedder
    from askonce.testing.answers import Asked
    from askonce.wiring import Built, Parts

for name in ("follower", "graph"):  # imports block, so they come before the event loop
    import_module(f"askonce.vectors.{name}")

CHAT = "/v1/chat/completions"
PATIENT = 5.0
"""Seconds: a deadline that a busy test machine keeps."""
AUTH = "authorization: Bearer sk-one"


def body_of(text: str = "What is the capital of France?", **fields: Any) -> dict[str, Any]:
    """A request for one user text; fields are added or replaced."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def marks(answer: Answer) -> list[str]:
    """`Cache-Status` in its parts."""
    return answer.headers["cache-status"].split("; ")


class House:
    """A gateway that serves, and what stands behind it."""

    def __init__(self, service: Service, port: int, engines: tuple[FakeEngine, ...]) -> None:
        self.service = service
        self.port = port
        self.engines = engines
        self._stack = AsyncExitStack()

    @property
    def engine(self) -> FakeEngine:
        return self.engines[0]

    @property
    def asked(self) -> list[Asked]:
        """What the first engine was asked."""
        return self.engine.asked

    @property
    def cache(self) -> Cache:
        return self.built.cache

    @property
    def built(self) -> Built:
        built = self.service._built
        assert built is not None
        return built

    @property
    def parts(self) -> Parts:
        parts = self.service._parts
        assert parts is not None
        return parts

    @asynccontextmanager
    async def caller(self) -> AsyncIterator[Caller]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        try:
            yield Caller(reader, writer)
        finally:
            writer.close()

    async def send(self, method: str, path: str, body: bytes, *headers: str) -> Answer:
        """One request on a connection of its own."""
        async with self.caller() as caller:
            return await caller.ask(method, path, body, *headers)

    async def get(self, path: str) -> Answer:
        return await self.send("GET", path, b"")

    async def ask(self, body: Mapping[str, Any], *headers: str, auth: str = AUTH) -> Answer:
        """One chat request, and the write-back behind it."""
        answer = await self.send_only(body, *headers, auth=auth)
        await self.settled()
        return answer

    async def send_only(self, body: Mapping[str, Any], *headers: str, auth: str = AUTH) -> Answer:
        """One chat request, while its write-back goes on."""
        return await self.send("POST", CHAT, msgspec.json.encode(body), auth, *headers)

    async def settled(self) -> None:
        """Wait until no flight is under way and all is written."""
        async with asyncio.timeout(10):
            await self.cache.settled()
            if self.built.learning is not None:
                await self.built.learning.settled()

    async def metric(self, series: str) -> float:
        """One figure of `/metrics`; 0 when it is not there."""
        for line in (await self.get("/metrics")).body.decode().splitlines():
            if line.startswith(series + " "):
                return float(line.rpartition(" ")[2])
        return 0.0

    async def sdk(self, key: str = "sk-one") -> Any:
        """The official client, untyped: requests are made from plain dicts."""
        plain = await self._stack.enter_async_context(
            DefaultAsyncHttpxClient(trust_env=False, verify=False)
        )
        url = f"http://127.0.0.1:{self.port}/v1"
        return AsyncOpenAI(base_url=url, api_key=key, max_retries=0, http_client=plain, timeout=20)

    async def close(self) -> None:
        await self._stack.aclose()


def config_of(
    data_dir: Path,
    *urls: str,
    server: Mapping[str, Any] | None = None,
    upstream: tuple[Mapping[str, Any], ...] = (),
    exact: Mapping[str, Any] | None = None,
    semantic: Mapping[str, Any] | None = None,
    trust: Mapping[str, Any] | None = None,
    tenants: Mapping[str, Any] | None = None,
    controls: Mapping[str, Any] | None = None,
    breaker: Mapping[str, Any] | None = None,
    invalidation: Mapping[str, Any] | None = None,
    admin: Mapping[str, Any] | None = None,
    record: Mapping[str, Any] | None = None,
) -> Config:
    """A configuration with patient deadlines; the sections replace single settings."""
    settings = upstream or ({},) * len(urls)
    upstreams = tuple(
        UpstreamConfig(**{"url": url, "name": f"engine{i}", **given})
        for i, (url, given) in enumerate(zip(urls, settings, strict=True))
    )
    return Config(
        server=ServerConfig(**{"data_dir": str(data_dir), **(server or {})}),
        upstream=upstreams,
        exact=ExactConfig(**{"deadline": PATIENT, **(exact or {})}),
        semantic=SemanticConfig(**{"deadline": PATIENT, "enabled": False, **(semantic or {})}),
        trust=TrustConfig(**{"audits_per_hour": 0.0, "forced": 0.0, **(trust or {})}),
        tenants=TenantConfig(**(tenants or {})),
        controls=ControlConfig(**(controls or {})),
        breaker=BreakerConfig(**(breaker or {})),
        invalidation=InvalidationConfig(**(invalidation or {})),
        admin=AdminConfig(**(admin or {})),
        record=RecordConfig(**(record or {})),
    )


def with_embedder(embedder: Embedder) -> Callable[..., Coroutine[Any, Any, Parts]]:
    """What opens the configured parts, with this embedder and an index for it."""

    async def opens(config: Config, **kit: Any) -> Parts:
        parts = await open_parts(config, **kit)
        index = LocalIndex(
            Path(config.server.data_dir) / "vectors.sqlite3",
            embedder=embedder.id,
            dim=embedder.dim,
            max_entries=config.semantic.max_entries,
            **kit,
        )
        evidence = open_log(config, **kit)
        return dataclasses.replace(parts, embedder=embedder, index=index, evidence=evidence)

    return opens


@asynccontextmanager
async def open_house(
    data_dir: Path,
    *engines: FakeEngine,
    embedder: Embedder | None = None,
    started: bool = False,
    **sections: Any,
) -> AsyncIterator[House]:
    """Start all; started: the engines run already and go on."""
    engines = engines or (FakeEngine(),)
    async with AsyncExitStack() as stack:
        if not started:
            for engine in engines:
                await stack.enter_async_context(engine)
        config = config_of(data_dir, *(engine.url for engine in engines), **sections)
        opens = open_parts if embedder is None else with_embedder(embedder)
        service = Service(config, open_parts=opens)
        port = await stack.enter_async_context(serving(service.gateway(), http=BoundedProtocol))
        house = House(service, port, engines)
        stack.push_async_callback(house.close)
        yield house


def near() -> HashingEmbedder:
    """An embedder for which texts that share their letters are near."""
    return HashingEmbedder(dim=256, window=256)
