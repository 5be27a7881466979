"""How an engine's answer comes: whole, as a stream, or as something that is passed on unread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.cache.flight import Head

if TYPE_CHECKING:
    from askonce.flow import AskEngine
    from askonce.ports import UpstreamResponse


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
