"""What breaks on either side of the passthrough."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from askonce.testing.answers import JSON, Reply, refusal
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from askonce.testing.answers import Fault

    Stage = Callable[..., AbstractAsyncContextManager[Any]]

pytestmark = pytest.mark.anyio


async def until(condition: Callable[[], object]) -> None:
    """Wait for real sockets to catch up."""
    async with asyncio.timeout(2):
        while not condition():
            await asyncio.sleep(0.005)


async def test_engine_down_is_502(stage: Stage) -> None:
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


async def test_silent_engine_is_504(stage: Stage) -> None:
    """No headers in time is told as 504."""
    async with stage(FakeEngine(Reply(fault="hang_before"))) as here:
        answer = await here.ask("POST", "/v1/x", b"{}")
    assert answer.status == 504
    assert answer.json["error"]["code"] == "upstream_timeout"


@pytest.mark.parametrize("fault", ["break_inside", "hang_inside"])
@pytest.mark.parametrize("length", [True, False])
async def test_broken_body_breaks_the_connection(
    stage: Stage, fault: Fault, *, length: bool
) -> None:
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
async def test_hang_up_reaches_the_engine_at_once(stage: Stage, *, began: bool) -> None:
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


async def test_half_an_upload_goes_nowhere(stage: Stage) -> None:
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


async def test_an_upload_that_nobody_reads_times_out(stage: Stage) -> None:
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


async def test_an_early_refusal_of_an_upload_passes(stage: Stage) -> None:
    """An engine that answers before it has read the body is heard."""
    early = Reply(status=413, headers=(JSON, (b"content-length", b"2")), pieces=(b"{}",))

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n" + early.body)
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


async def test_pipelined_garbage_harms_nobody(stage: Stage) -> None:
    """A good request is answered, garbage behind it is refused, the gateway lives on."""
    async with stage(FakeEngine()) as here:
        caller = await here.caller()
        await caller.send(b"GET /v1/x HTTP/1.1\r\nhost: g\r\n\r\nNOT HTTP AT ALL\r\n\r\n")
        with suppress(asyncio.IncompleteReadError, OSError):
            await caller.answer()
        answer = await here.ask("GET", "/v1/y")
    assert answer.status == 200


async def test_stale_connections_are_replaced(stage: Stage) -> None:
    """A kept connection dropped unanswered is replaced once; a fresh one is not."""
    async with stage(FakeEngine()) as here:
        assert (await here.ask("POST", "/v1/x", b"{}")).status == 200
        here.engine.script(Reply(fault="break_before"))
        assert (await here.ask("POST", "/v1/x", b"{}")).status == 200
        assert here.engine.opened == 2
        here.engine.script(Reply(fault="break_before"))
        fresh = await here.ask("POST", "/v1/x", b"{}")
        assert here.engine.opened == 3
    assert fresh.status == 502


async def test_two_hundred_faults_leave_nothing(stage: Stage) -> None:
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
