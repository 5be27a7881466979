"""Engines and providers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

Headers = Sequence[tuple[bytes, bytes]]
"""Raw header pairs in order, names in lower case."""


class UpstreamRequest(msgspec.Struct, frozen=True):
    """One HTTP request to an engine; hop-by-hop headers are already gone."""

    method: str
    path: str
    """Raw path with query as the caller sent it, from `/v1` on."""
    headers: Headers
    body: bytes | AsyncIterator[bytes]


class UpstreamResponse(Protocol):
    """An answer that has begun; read it once, then close."""

    status: int
    headers: Headers

    def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they arrive; raises UpstreamBroken when they break off."""

    async def read(self) -> bytes:
        """The whole body; raises UpstreamBroken when it breaks off."""

    async def close(self) -> None:
        """Give the connection back, or drop it when the body was not read whole; idempotent."""


class Upstream(Protocol):
    """One engine or provider."""

    name: str
    revision: str
    """Operator's label for the model revision behind it; part of every key."""
    ask_usage: bool
    """Whether streams should be asked for usage, so that a hit can replay it."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send and wait for status and headers; raises UpstreamUnreachable or UpstreamTimeout."""
        ...

    async def close(self) -> None:
        """Drop all connections; idempotent."""
        ...
