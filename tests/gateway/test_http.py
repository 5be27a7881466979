"""Bodies, headers and responses in the terms of ASGI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from askonce.errors import RequestError
from askonce.gateway.http import (
    BodyStream,
    ClientGone,
    declared_length,
    forwarded,
    header,
    read_body,
    returned,
    send_json,
    send_stream,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.gateway.http import Message, Receive

pytestmark = pytest.mark.anyio

GONE: Message = {"type": "http.disconnect"}


def piece(body: bytes, *, more: bool = False) -> Message:
    """One part of a request body."""
    return {"type": "http.request", "body": body, "more_body": more}


def receiving(*messages: Message) -> Receive:
    """A receive that gives these messages."""
    waiting = iter(messages)

    async def receive() -> Message:
        return next(waiting)

    return receive


def scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    """A scope with these headers."""
    return {"type": "http", "headers": list(headers)}


async def test_a_body_is_read_whole() -> None:
    """Pieces are joined; one piece, or none, is fine."""
    split = receiving(piece(b"ab", more=True), piece(b"", more=True), piece(b"c"))
    assert await read_body(scope(), split, 3) == b"abc"
    assert await read_body(scope(), receiving(piece(b"abc")), 3) == b"abc"
    assert await read_body(scope(), receiving(piece(b"")), 3) == b""


async def test_a_declared_large_body_is_refused_unread() -> None:
    """413 by content-length, before anything is received."""
    with pytest.raises(RequestError, match="larger than 3") as caught:
        await read_body(scope((b"content-length", b"4")), receiving(), 3)
    assert caught.value.status == 413


async def test_an_undeclared_large_body_is_refused_on_the_way() -> None:
    """413 as soon as the pieces pass the limit."""
    with pytest.raises(RequestError, match="larger") as caught:
        await read_body(scope(), receiving(piece(b"ab", more=True), piece(b"cd", more=True)), 3)
    assert caught.value.status == 413


async def test_half_a_body_is_a_hang_up() -> None:
    """A disconnect before the end raises ClientGone, here and in a stream."""
    with pytest.raises(ClientGone):
        await read_body(scope(), receiving(piece(b"a", more=True), GONE), 9)
    stream = BodyStream(receiving(piece(b"b", more=True), GONE), first=b"a")
    assert [await anext(stream), await anext(stream)] == [b"a", b"b"]
    with pytest.raises(ClientGone):
        await anext(stream)


def test_lengths_are_read_from_headers() -> None:
    """A number, None when chunked, 0 when there is no body."""
    assert declared_length([(b"content-length", b"12")]) == 12
    assert declared_length([(b"transfer-encoding", b"chunked")]) is None
    assert declared_length([]) == 0
    assert header([(b"a", b"1"), (b"a", b"2")], b"a") == b"1"


def test_requests_lose_what_belongs_to_one_connection() -> None:
    """Hop-by-hop headers, those that `connection` names, `proxy-*` and the gateway's own go."""
    kept = [(b"authorization", b"x"), (b"content-length", b"3"), (b"x-a", b"1"), (b"x-a", b"2")]
    dropped = [
        (b"connection", b"Close, X-Named"),
        (b"x-named", b"1"),
        (b"host", b"h"),
        (b"expect", b"100-continue"),
        (b"te", b"t"),
        (b"upgrade", b"h2c"),
        (b"proxy-connection", b"p"),
        (b"x-askonce-ttl", b"1"),
    ]
    assert forwarded([*dropped, *kept]) == kept
    assert forwarded(kept, without=(b"x-a",)) == kept[:2]


def test_responses_lose_what_belongs_to_one_connection() -> None:
    """Length and encoding stay, since the body passes unchanged."""
    kept = [(b"content-length", b"3"), (b"content-encoding", b"gzip"), (b"set-cookie", b"a=1")]
    dropped = [(b"transfer-encoding", b"chunked"), (b"keep-alive", b"5"), (b"connection", b"close")]
    assert returned([*dropped, *kept]) == kept
    assert returned(kept, without=(b"content-length",)) == kept[1:]


class Sent:
    """A send that remembers."""

    def __init__(self, *, fails: bool = False) -> None:
        self.messages: list[Message] = []
        self.fails = fails

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)
        if self.fails:
            raise BrokenPipeError


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """An asynchronous iterator of these."""
    for part in parts:
        yield part


@pytest.mark.parametrize(
    ("status", "length", "parts", "mores"),
    [
        (200, b"2", (b"a", b"b"), [True, False]),
        (200, b"", (b"a", b"b"), [True, True, False]),
        (200, b"2", (), [False]),
        (304, b"2", (), [False]),
    ],
)
async def test_a_stream_ends_once(
    status: int, length: bytes, parts: tuple[bytes, ...], mores: list[bool]
) -> None:
    """The last piece of a declared length ends the body; otherwise an empty one does."""
    sent = Sent()
    headers = [(b"content-length", length)] if length else []
    await send_stream(sent, status, headers, pieces(*parts))
    assert [message.get("more_body", False) for message in sent.messages[1:]] == mores
    assert sent.messages[0]["headers"] == ([] if status == 304 else headers)


async def test_a_send_that_fails_is_a_hang_up() -> None:
    """Servers that raise OSError on a lost connection are understood."""
    with pytest.raises(ClientGone):
        await send_stream(Sent(fails=True), 200, [], pieces(b"a"))


async def test_json_is_sent_whole() -> None:
    """With type and length, and further headers behind."""
    sent = Sent()
    await send_json(sent, 201, b"{}", headers=[(b"x", b"1")])
    assert sent.messages[0]["headers"] == [
        (b"content-type", b"application/json"),
        (b"content-length", b"2"),
        (b"x", b"1"),
    ]
    assert sent.messages[1]["body"] == b"{}"
