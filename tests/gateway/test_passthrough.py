"""Bytes through the gateway on real sockets."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from askonce.config import UpstreamConfig
from askonce.gateway.app import Gateway
from askonce.gateway.passthrough import Passthrough
from askonce.gateway.routing import Upstreams
from askonce.testing.answers import EVENTS, JSON, Asked, Chat, Reply, default_reply, refusal
from askonce.testing.engine import FakeEngine
from askonce.testing.server import serving
from askonce.upstreams.http import HttpUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio


class Answer(msgspec.Struct):
    """One response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool
    """The body ended as its framing says."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """A client that sees every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, method: str, path: str, body: bytes = b"", *headers: str) -> Answer:
        length = [f"content-length: {len(body)}"] if body else []
        lines = [f"{method} {path} HTTP/1.1", "host: gateway", *length, *headers, "", ""]
        await self.send("\r\n".join(lines).encode() + body)
        return await self.answer(method)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), headers

    async def answer(self, method: str = "GET") -> Answer:
        status, headers = await self.head()
        body, whole = b"", True
        try:
            if method == "HEAD" or status in {204, 304}:
                pass
            elif "transfer-encoding" in headers:
                while chunk := await self.chunk():
                    body += chunk
            else:
                body = await self.reader.readexactly(int(headers["content-length"]))
        except asyncio.IncompleteReadError as exc:
            body, whole = body + exc.partial, False
        except ConnectionResetError:
            whole = False
        return Answer(status, headers, body, whole)

    async def chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def at_end(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True


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
async def stage(*engines: FakeEngine, models: tuple[str, ...] = ("*",)) -> AsyncIterator[Stage]:
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
    async with serving(gateway) as port:
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


async def healthy(scope: Any, receive: Any, send: Any) -> None:
    """A route of the gateway's own."""
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


async def failing(scope: Any, receive: Any, send: Any) -> None:
    """A handler with a fault in it."""
    raise LookupError("my secret prompt")


async def until(condition: Any) -> None:
    """Wait for real sockets to catch up."""
    async with asyncio.timeout(2):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def leaves_no_task() -> Iterator[None]:
    """Unclosed transports and responses warn when collected, and warnings are errors."""
    yield
    gc.collect()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_methods_paths_and_queries_pass(method: str) -> None:
    """Every method goes on with its raw path and query."""
    async with stage(FakeEngine()) as here:
        target = "/v1/files/a%2Fb%20c;x=1?after=%C3%A9&b=a+b&&c"
        answer = await here.ask(method, target, b"\xff\x00" if method != "GET" else b"")
    assert answer.status == 200
    assert answer.json["method"] == method
    assert answer.json["path"] == target


async def test_headers_pass_but_not_those_of_one_connection() -> None:
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


async def test_error_answers_pass_unchanged() -> None:
    """Status, rate-limit headers and the body of an engine's error reach the caller."""
    async with stage(FakeEngine(refusal(429))) as here:
        answer = await here.ask("POST", "/v1/x", b"{}")
    assert answer.status == 429
    assert answer.headers["retry-after"] == "7"
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert answer.json["error"]["code"] == "rate_limit_exceeded"


async def test_compressed_bodies_stay_compressed() -> None:
    """A gzip body arrives as gzip, byte for byte."""
    reply = Reply(headers=(JSON, (b"content-encoding", b"gzip")), pieces=(b"\x1f\x8bnot really",))
    async with stage(FakeEngine(reply)) as here:
        answer = await here.ask("GET", "/v1/x")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.body == b"\x1f\x8bnot really"


async def test_head_and_bodiless_answers_pass() -> None:
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


async def test_events_arrive_as_they_are_sent() -> None:
    """The first event of a stream is here while the engine still holds the second."""
    reply = Reply(
        headers=(EVENTS,), pieces=(b"data: 1\n\n", b"data: 2\n\n"), framing="chunked", pause=0.2
    )
    async with stage(FakeEngine(reply)) as here:
        caller = await here.caller()
        await caller.send(b"GET /v1/x HTTP/1.1\r\nhost: g\r\n\r\n")
        await caller.head()
        started = asyncio.get_running_loop().time()
        first = await caller.chunk()
        assert asyncio.get_running_loop().time() - started < 0.15
        assert [first, await caller.chunk(), await caller.chunk()] == [*reply.pieces, b""]


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_uploads_stream_while_they_come(framing: str) -> None:
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


async def test_big_downloads_do_not_pile_up() -> None:
    """A caller that does not read holds the engine back instead of filling the gateway."""
    piece = b"x" * 262_144
    reply = Reply(pieces=(piece,) * 160, framing="chunked")
    async with stage(FakeEngine(reply)) as here:
        caller = await here.caller()
        await caller.send(b"GET /v1/x HTTP/1.1\r\nhost: g\r\n\r\n")
        await caller.head()
        await asyncio.sleep(0.1)
        assert here.engine.connections == 1
        size = 0
        while chunk := await caller.chunk():
            size += len(chunk)
    assert size == 160 * len(piece)


async def test_engine_down_is_502() -> None:
    """A refused connection is told as OpenAI's error object."""
    engine = FakeEngine()
    async with stage(engine) as here:
        await engine.stop()
        answer = await here.ask("POST", "/v1/x", b"{}")
        anthropic = await here.ask("POST", "/v1/messages", b"{}")
    assert answer.status == 502
    assert answer.json["error"]["code"] == "upstream_unreachable"
    assert set(answer.json["error"]) == {"message", "type", "param", "code"}
    assert str(engine.port) not in answer.json["error"]["message"]
    assert anthropic.json["error"]["type"] == "api_error"


async def test_silent_engine_is_504() -> None:
    """No headers in time is told as 504."""
    async with stage(FakeEngine(Reply(fault="hang_before"))) as here:
        answer = await here.ask("POST", "/v1/x", b"{}")
    assert answer.status == 504
    assert answer.json["error"]["code"] == "upstream_timeout"


@pytest.mark.parametrize("fault", ["break_inside", "hang_inside"])
@pytest.mark.parametrize("length", [True, False])
async def test_broken_body_breaks_the_connection(fault: Any, *, length: bool) -> None:
    """When the engine's body breaks off, the caller's ends without an end as well."""
    headers = (JSON, (b"content-length", b"99")) if length else (JSON,)
    reply = Reply(
        headers=headers,
        pieces=(b"half", b"never"),
        framing="close" if length else "chunked",
        fault=fault,
    )
    async with stage(FakeEngine(reply)) as here:
        caller = await here.caller()
        answer = await caller.ask("GET", "/v1/x")
        assert answer.body == b"half"
        assert not answer.whole
        assert await caller.at_end()


@pytest.mark.parametrize("began", [True, False])
async def test_hang_up_reaches_the_engine_at_once(*, began: bool) -> None:
    """A caller that hangs up, before or inside the answer, frees the engine."""
    reply = Reply(pieces=(b"a", b"b"), framing="chunked", pause=9, delay=0 if began else 9)
    async with stage(FakeEngine(reply)) as here:
        caller = await here.caller()
        await caller.send(b"POST /v1/x HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{}")
        await until(lambda: here.engine.asked)
        if began:
            await caller.head()
        caller.writer.close()
        await until(lambda: here.engine.abandoned == 1)


async def test_half_an_upload_goes_nowhere() -> None:
    """A caller that stops in the middle of its body ends the engine's request too."""
    async with stage(FakeEngine()) as here:
        for length in (100, 1_000_000):
            caller = await here.caller()
            head = f"POST /v1/files HTTP/1.1\r\nhost: g\r\ncontent-length: {length}\r\n\r\n"
            await caller.send(head.encode() + b"x" * 50)
            if length > 100:
                await here.engine.receiving.wait()
            caller.writer.close()
        await until(lambda: here.engine.connections == 0)
        assert not here.engine.asked


async def test_an_upload_that_nobody_reads_times_out() -> None:
    """An engine that stops reading a body is told as 504, not waited for."""
    async with stage(FakeEngine(Reply(fault="hang_reading"))) as here:
        caller = await here.caller()
        size = 40_000_000
        await caller.send(
            f"POST /v1/x HTTP/1.1\r\nhost: g\r\ncontent-length: {size}\r\n\r\n".encode()
        )
        sending = asyncio.ensure_future(caller.send(b"x" * size))
        answer = await caller.answer()
        sending.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await sending
    assert answer.status == 504


async def test_an_early_refusal_of_an_upload_passes() -> None:
    """An engine that answers before it has read the body is heard."""
    early = Reply(status=413, headers=(JSON, (b"content-length", b"2")), pieces=(b"{}",))

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n" + early.body)
        await reader.read(1 << 20)
        await writer.drain()
        writer.close()

    engine = FakeEngine()
    async with stage(engine) as here:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = engine.port
        await engine.stop()
        server.close()
        server = await asyncio.start_server(refuse, "127.0.0.1", port)
        caller = await here.caller()
        await caller.send(b"POST /v1/x HTTP/1.1\r\nhost: g\r\ncontent-length: 900000\r\n\r\nabc")
        answer = await caller.answer()
        server.close()
    assert (answer.status, answer.body) == (413, b"{}")


async def test_a_slow_trickle_of_a_body_arrives() -> None:
    """A body that comes byte by byte is put together."""
    async with stage(FakeEngine()) as here:
        caller = await here.caller()
        await caller.send(b"POST /v1/x HTTP/1.1\r\nhost: g\r\ncontent-length: 8\r\n\r\n")
        for byte in b"trickled":
            await caller.send(bytes([byte]))
            await asyncio.sleep(0.002)
        answer = await caller.answer()
    assert answer.json["sha256"] == hashlib.sha256(b"trickled").hexdigest()


async def test_pipelined_garbage_harms_nobody() -> None:
    """A good request is answered, garbage behind it is refused, the gateway lives on."""
    async with stage(FakeEngine()) as here:
        caller = await here.caller()
        await caller.send(b"GET /v1/x HTTP/1.1\r\nhost: g\r\n\r\nNOT HTTP AT ALL\r\n\r\n")
        with suppress(asyncio.IncompleteReadError, OSError):
            await caller.answer()
        answer = await here.ask("GET", "/v1/y")
    assert answer.status == 200


async def test_models_choose_their_engine() -> None:
    """With several engines the body's model decides; what names none goes to the first."""
    first, second = FakeEngine(), FakeEngine()
    json_type = "content-type: application/json"
    async with stage(first, second, models=("gpt-*", "llama*")) as here:
        await here.ask("POST", "/v1/embeddings", b'{"model":"llama-3","input":"x"}', json_type)
        await here.ask("POST", "/v1/other", b'{"model":"gpt-9"}', json_type)
        await here.ask("POST", "/v1/other", b"not json", json_type)
        await here.ask("POST", "/v1/other", b'{"model":5}', json_type)
        await here.ask("GET", "/v1/models/llama%2F7b")
        unknown = await here.ask("POST", "/v1/other", b'{"model":"claude"}', json_type)
        huge = b'{"model":"llama","x":"' + b"x" * 2_000_000 + b'"}'
        await here.ask("POST", "/v1/huge", huge, json_type)
        chunked = b"12\r\n" + b'{"model": "llama"}' + b"\r\n0\r\n\r\n"
        caller = await here.caller()
        head = (
            f"POST /v1/c HTTP/1.1\r\nhost: g\r\n{json_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        await caller.send(head.encode() + chunked)
        await caller.answer()
    assert [asked.path for asked in second.asked] == [
        "/v1/embeddings",
        "/v1/models/llama%2F7b",
        "/v1/c",
    ]
    assert [asked.path for asked in first.asked] == ["/v1/other"] * 3 + ["/v1/huge"]
    assert first.asked[-1].body == huge
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "model_not_found")


async def test_model_lists_are_merged() -> None:
    """One list of all engines' models without doubles; engines that fail are left out."""
    listed = b'{"object":"list","data":[{"id":"fake"},{"id":"b","extra":[1]}]}'
    engines = (FakeEngine(), FakeEngine(Reply(pieces=(listed,))), FakeEngine(refusal(500)))
    async with stage(*engines, models=("a", "b", "c")) as here:
        answer = await here.ask("GET", "/v1/models")
    assert [model["id"] for model in answer.json["data"]] == ["fake", "b"]
    assert answer.json["data"][1]["extra"] == [1]


async def test_model_lists_that_all_fail_are_an_error() -> None:
    """When no engine gives a list, the first answer is passed on, or 502 if there is none."""
    engines = (FakeEngine(Reply(fault="refuse")), FakeEngine(refusal(401)))
    async with stage(*engines, models=("a", "b")) as here:
        refused = await here.ask("GET", "/v1/models")
        engines[0].script(Reply(fault="refuse"))
        engines[1].script(Reply(pieces=(b"no list",)))
        unreadable = await here.ask("GET", "/v1/models")
    assert refused.status == 401
    assert unreadable.status == 502


async def test_one_engine_lists_its_models_itself() -> None:
    """With one engine `/v1/models` passes through."""
    async with stage(FakeEngine()) as here:
        answer = await here.ask("GET", "/v1/models?x=1")
        assert here.engine.asked[0].path == "/v1/models?x=1"
    assert answer.json["data"][0]["owned_by"] == "askonce"


@pytest.mark.parametrize("path", ["/v1/../admin", "/v1/a/%2e%2e/b", "/v1/.%2e/x", "/v1/./x"])
async def test_no_path_climbs_out(path: str) -> None:
    """Dot segments do not reach an engine."""
    async with stage(FakeEngine()) as here:
        answer = await here.ask("GET", path)
        assert not here.engine.asked
    assert answer.status == 404


async def test_websockets_are_refused() -> None:
    """A WebSocket handshake is answered with 501."""
    async with stage(FakeEngine()) as here:
        handshake = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13")
        answer = await here.ask("GET", "/v1/realtime", b"", *handshake)
    assert (answer.status, answer.json["error"]["code"]) == (501, "not_implemented")


async def test_unknown_routes_and_methods_are_told() -> None:
    """404 and 405 in OpenAI's shape; HEAD of a GET route works."""
    async with stage(FakeEngine()) as here:
        unknown = await here.ask("GET", "/nowhere")
        wrong = await here.ask("POST", "/healthz", b"{}")
        head = await here.ask("HEAD", "/healthz")
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "unknown_path")
    assert (wrong.status, wrong.json["error"]["code"]) == (405, "method_not_allowed")
    assert head.status == 200


async def test_every_answer_has_a_request_id() -> None:
    """The gateway's id, unless the engine gave one."""
    named = Reply(headers=((b"x-request-id", b"theirs"),))
    async with stage(FakeEngine(Reply(), named)) as here:
        answers = [await here.ask("GET", path) for path in ("/healthz", "/v1/a", "/v1/b", "/c")]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert ids == ["req_0", "req_1", "theirs", "req_3"]


async def test_a_fault_is_a_plain_500(caplog: pytest.LogCaptureFixture) -> None:
    """An unforeseen error shows neither to the caller nor in the log what a request said."""
    async with stage(FakeEngine()) as here:
        answer = await here.ask("GET", "/v1/fails")
    assert (answer.status, answer.json["error"]["code"]) == (500, "internal_error")
    assert "LookupError" in caplog.text
    assert "secret" not in caplog.text + answer.body.decode()


async def test_stale_connections_are_replaced() -> None:
    """A kept connection that the engine drops unanswered costs the caller nothing."""
    async with stage(FakeEngine()) as here:
        assert (await here.ask("POST", "/v1/x", b"{}")).status == 200
        here.engine.script(Reply(fault="break_before"))
        assert (await here.ask("POST", "/v1/x", b"{}")).status == 200
        assert here.engine.opened == 2
        here.engine.script(Reply(fault="break_before"), Reply(fault="break_before"))
        fresh = await here.ask("POST", "/v1/x", b"{}")
    assert fresh.status in {200, 502}


async def test_two_hundred_faults_leave_nothing() -> None:
    """After many failures of every kind no task and no connection is left."""
    faults = (
        Reply(fault="refuse"),
        Reply(fault="break_before"),
        Reply(pieces=(b"a", b"b"), framing="chunked", fault="break_inside"),
        Reply(pieces=(b"a",), headers=((b"content-length", b"9"),), framing="close"),
        refusal(503),
    )
    async with stage(FakeEngine()) as here:
        before = len(asyncio.all_tasks())
        for _ in range(10):
            here.engine.script(*faults, *faults)
            await asyncio.gather(*(here.ask("POST", "/v1/x", b"{}") for _ in range(20)))
        here.close()
        await until(lambda: len(asyncio.all_tasks()) - here.engine.connections <= before)
        assert here.engine.connections <= 20
        assert (await here.ask("GET", "/v1/x")).status == 200


async def test_chat_streams_pass_unchanged() -> None:
    """A streamed chat answer is the engine's, event by event."""
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hello there"}]}'
    async with stage(FakeEngine()) as here:
        answer = await here.ask("POST", "/v1/chat/completions", body)
        asked = here.engine.asked[0]
    expected = Chat()(Asked("POST", asked.path, asked.headers, body))
    assert answer.body == expected.body == default_reply(asked).body
    assert answer.headers["content-type"].startswith("text/event-stream")
