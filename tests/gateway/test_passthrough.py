"""Bytes through the gateway on real sockets."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import pytest

from askonce.testing.answers import EVENTS, JSON, Asked, Chat, Reply, default_reply, refusal
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    Stage = Callable[..., AbstractAsyncContextManager[Any]]

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_methods_paths_and_queries_pass(stage: Stage, method: str) -> None:
    """Every method goes on with its raw path and query."""
    async with stage(FakeEngine()) as here:
        target = "/v1/files/a%2Fb%20c;x=1?after=%C3%A9&b=a+b&&c"
        answer = await here.ask(method, target, b"\xff\x00" if method != "GET" else b"")
    assert answer.status == 200
    assert answer.json["method"] == method
    assert answer.json["path"] == target


async def test_headers_pass_but_not_those_of_one_connection(stage: Stage) -> None:
    """End-to-end headers go on unchanged; hop-by-hop ones and the gateway's own do not."""
    async with stage(FakeEngine()) as here:
        answer = await here.ask(
            "GET",
            "/v1/x",
            b"",
            "authorization: Bearer sk",
            "accept-encoding: br",
            "cookie: a=b",
            "x-multi: 1",
            "x-multi: 2",
            "connection: keep-alive, x-hop",
            "x-hop: 1",
            "te: trailers",
            "proxy-authorization: no",
            "x-askonce-ttl: 5",
        )
    names = [name for name, _ in answer.json["headers"]]
    assert ["authorization", "Bearer sk"] in answer.json["headers"]
    assert ["accept-encoding", "br"] in answer.json["headers"]
    assert ["cookie", "a=b"] in answer.json["headers"]
    assert names.count("x-multi") == 2
    assert names.count("host") == 1
    added = set(names) - {"authorization", "accept-encoding", "cookie", "x-multi", "host"}
    assert not added


async def test_error_answers_pass_unchanged(stage: Stage) -> None:
    """Status, rate-limit headers and the body of an engine's error reach the caller."""
    async with stage(FakeEngine(refusal(429))) as here:
        answer = await here.ask("POST", "/v1/x", b"{}")
    assert answer.status == 429
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert answer.json["error"]["code"] == "rate_limit_exceeded"


async def test_compressed_bodies_stay_compressed(stage: Stage) -> None:
    """A gzip body arrives as gzip, byte for byte."""
    reply = Reply(headers=(JSON, (b"content-encoding", b"gzip")), pieces=(b"\x1f\x8bnot really",))
    async with stage(FakeEngine(reply)) as here:
        answer = await here.ask("GET", "/v1/x")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.body == b"\x1f\x8bnot really"


async def test_head_and_bodiless_answers_pass(stage: Stage) -> None:
    """HEAD keeps the length it announces, 204 and 304 end at their headers."""
    replies = (
        Reply(pieces=(b"four",)),
        Reply(status=204),
        Reply(status=304, headers=((b"content-length", b"9"),), framing="close"),
    )
    async with stage(FakeEngine(*replies)) as here:
        caller = await here.caller()
        head = await caller.ask("HEAD", "/v1/x")
        empty = await caller.ask("DELETE", "/v1/x")
        same = await caller.ask("GET", "/v1/x")
        after = await caller.ask("GET", "/v1/y")
    assert (head.status, head.headers["content-length"]) == (200, "4")
    assert (empty.status, same.status, after.status) == (204, 304, 200)


async def test_events_arrive_as_they_are_sent(stage: Stage) -> None:
    """The first event of a stream is here though the engine never sends the second."""
    event = b"data: 1\n\n"
    reply = Reply(headers=(EVENTS,), pieces=(event,), framing="chunked", fault="hang_inside")
    async with stage(FakeEngine(reply)) as here:
        caller = await here.caller()
        await caller.send(b"GET /v1/x HTTP/1.1\r\nhost: g\r\n\r\n")
        await caller.head()
        assert await caller.chunk() == event


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_uploads_stream_while_they_come(stage: Stage, framing: str) -> None:
    """The engine has the first half of 30 MB before the caller sends the second."""
    half = bytes(range(256)) * 61440
    declared = f"content-length: {2 * len(half)}"
    kind = declared if framing == "length" else "transfer-encoding: chunked"
    async with stage(FakeEngine()) as here:
        caller = await here.caller()
        await caller.send(f"POST /v1/files HTTP/1.1\r\nhost: g\r\n{kind}\r\n\r\n".encode())
        wrap = b"%b" if framing == "length" else b"%x\r\n" % len(half) + b"%b\r\n"
        await caller.send(wrap % half)
        await asyncio.wait_for(here.engine.receiving.wait(), 5)
        await caller.send(wrap % half + (b"" if framing == "length" else b"0\r\n\r\n"))
        answer = await caller.answer()
    assert answer.json["size"] == 2 * len(half)
    assert answer.json["sha256"] == hashlib.sha256(half + half).hexdigest()
    told = dict(answer.json["headers"])
    assert told.get("content-length") == (str(2 * len(half)) if framing == "length" else None)


async def test_big_downloads_do_not_pile_up(stage: Stage) -> None:
    """A caller that does not read holds the engine back instead of filling the gateway."""
    piece = b"x" * 262_144
    reply = Reply(pieces=(piece,) * 160, framing="chunked")
    async with stage(FakeEngine(reply)) as here:
        caller = await here.caller()
        await caller.send(b"GET /v1/x HTTP/1.1\r\nhost: g\r\n\r\n")
        await caller.head()
        await asyncio.sleep(0.2)
        assert here.engine.written < 30_000_000
        size = 0
        while chunk := await caller.chunk():
            size += len(chunk)
    assert size == 160 * len(piece)


async def test_a_slow_trickle_of_a_body_arrives(stage: Stage) -> None:
    """A body that comes byte by byte is put together."""
    async with stage(FakeEngine()) as here:
        caller = await here.caller()
        await caller.send(b"POST /v1/x HTTP/1.1\r\nhost: g\r\ncontent-length: 8\r\n\r\n")
        for byte in b"trickled":
            await caller.send(bytes([byte]))
            await asyncio.sleep(0.002)
        answer = await caller.answer()
    assert answer.json["sha256"] == hashlib.sha256(b"trickled").hexdigest()


@pytest.mark.parametrize("path", ["/v1/../admin", "/v1/a/%2e%2e/b", "/v1/.%2e/x", "/v1/./x"])
async def test_no_path_climbs_out(stage: Stage, path: str) -> None:
    """Dot segments do not reach an engine."""
    async with stage(FakeEngine()) as here:
        answer = await here.ask("GET", path)
        assert not here.engine.asked
    assert answer.status == 404


async def test_chat_streams_pass_unchanged(stage: Stage) -> None:
    """A streamed chat answer is the engine's, event by event."""
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hello there"}]}'
    async with stage(FakeEngine()) as here:
        answer = await here.ask("POST", "/v1/chat/completions", body)
        asked = here.engine.asked[0]
    expected = Chat()(Asked("POST", asked.path, asked.headers, body))
    assert answer.body == expected.body == default_reply(asked).body
    assert answer.headers["content-type"].startswith("text/event-stream")
