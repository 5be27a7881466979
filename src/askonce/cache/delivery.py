"""How an engine's answer comes: whole, as a stream, or as something that is passed on unread."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from askonce.cache.flight import Head

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.flow import AskEngine
    from askonce.ports import UpstreamResponse


async def read_up_to(chunks: AsyncIterator[bytes], limit: int) -> tuple[bytes, bool]:
    """A body and True, or what came of it when it passed the limit and False."""
    read: list[bytes] = []
    size = 0
    async for chunk in chunks:
        read.append(chunk)
        size += len(chunk)
        if size > limit:
            return b"".join(read), False
    return b"".join(read), True


async def close(chunks: AsyncIterator[bytes]) -> None:
    """End a generator here, and not whenever it is collected."""
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


async def chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The first bytes, then the rest as they come."""
    yield first
    async for chunk in rest:
        yield chunk


def delivery(response: UpstreamResponse) -> str:
    """How a response can be read: `stream`, `whole`, or `opaque`."""
    headers = dict(response.headers)
    if response.status != 200 or headers.get(b"content-encoding", b"identity") != b"identity":
        return "opaque"
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return {b"text/event-stream": "stream", b"application/json": "whole"}.get(kind, "opaque")


def head_of(
    response: UpstreamResponse, state: AskEngine, *, body: bytes | None = None, stored: bool = False
) -> Head:
    """The beginning of the answer, or all of it."""
    return Head(
        status=response.status,
        headers=response.headers,
        forward=state.forward,
        details=state.details,
        streamed=body is None,
        body=body or b"",
        stored=stored,
    )
