"""What is particular to the upstream over HTTP."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest

from askonce.config import UpstreamConfig
from askonce.errors import (
    AskOnceError,
    ConfigError,
    RequestError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from askonce.ports import UpstreamRequest
from askonce.testing.answers import Reply
from askonce.testing.engine import FakeEngine
from askonce.upstreams.http import HttpUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.ports import Headers

pytestmark = pytest.mark.anyio


def post(
    *headers: tuple[bytes, bytes], body: bytes | AsyncIterator[bytes] = b"{}"
) -> UpstreamRequest:
    """A request."""
    return UpstreamRequest("POST", "/v1/x?q", headers, body)


@asynccontextmanager
async def asking(url: str, **settings: str | float) -> AsyncIterator[HttpUpstream]:
    """An upstream that is closed in the end."""
    upstream = HttpUpstream(msgspec.convert({"url": url, **settings}, UpstreamConfig))
    try:
        yield upstream
    finally:
        await upstream.close()


async def sent_headers(sent: Headers, **settings: str | float) -> list[tuple[bytes, bytes]]:
    """What an engine sees of these headers."""
    async with FakeEngine() as engine, asking(engine.url, **settings) as upstream:
        response = await upstream.send(post(*sent))
        await response.close()
        return list(engine.asked[0].headers)


async def test_nothing_is_added_but_what_http_needs() -> None:
    """Only host and content-length come besides the given headers."""
    got = await sent_headers([(b"x-a", b"\xc3\xa9"), (b"content-length", b"77")])
    assert sorted(name for name, _ in got) == [b"content-length", b"host", b"x-a"]
    assert dict(got)[b"content-length"] == b"2"
    assert dict(got)[b"x-a"] == b"\xc3\xa9"


async def test_a_configured_key_replaces_the_callers() -> None:
    """With api_key no credential of the caller goes on."""
    given = [(b"authorization", b"Bearer caller"), (b"x-api-key", b"caller")]
    got = await sent_headers(given, api_key="ours")
    assert (b"authorization", b"Bearer ours") in got
    assert not [value for _, value in got if b"caller" in value]
    assert set(given) <= set(await sent_headers(given))


async def test_a_header_that_cannot_be_carried_is_the_callers_fault() -> None:
    """Bytes that are no UTF-8 would change on the way, so they are refused."""
    async with asking("http://127.0.0.1:9/v1") as upstream:
        with pytest.raises(RequestError, match="UTF-8"):
            await upstream.send(post((b"x", b"\xff")))


async def test_the_base_stands_for_v1() -> None:
    """Prefixes before `/v1`, or bases without it, work."""
    async with FakeEngine() as engine:
        for base in ("/openai/v1/", "/v1beta/openai"):
            async with asking(f"http://127.0.0.1:{engine.port}{base}") as upstream:
                await (await upstream.send(post())).close()
    assert [asked.path for asked in engine.asked] == ["/openai/v1/x?q", "/v1beta/openai/x?q"]


@pytest.mark.parametrize(
    "url",
    ["ftp://h/v1", "/v1", "http:///v1", "http://u:p@h/v1", "http://h/v1?x=1", "http://h/v1#x"],
)
def test_a_useless_url_is_a_config_error(url: str) -> None:
    """It is told when the upstream is made, not when it is asked."""
    with pytest.raises(ConfigError):
        HttpUpstream(UpstreamConfig(url=url))


def test_a_key_with_a_line_break_is_a_config_error() -> None:
    """No header can carry it."""
    with pytest.raises(ConfigError):
        HttpUpstream(UpstreamConfig(url="http://h/v1", api_key="a\nb"))


def test_the_name_is_the_address_unless_given() -> None:
    """Name and revision come from the configuration; without a name each address has its own."""
    urls = ("http://host/v1", "http://host:1/v1", "http://host:1/openai/v1", "http://host:1/beta")
    names = [HttpUpstream(UpstreamConfig(url=url)).name for url in urls]
    assert names == ["host", "host:1", "host:1/openai", "host:1/beta"]
    named = HttpUpstream(UpstreamConfig(url="http://h/v1", name="n", revision="r"))
    assert (named.name, named.revision) == ("n", "r")


async def test_no_connection_is_unreachable() -> None:
    """Refused ports and unknown names."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        for url in (f"http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"):
            async with asking(url, name="up") as upstream:
                with pytest.raises(UpstreamUnreachable, match="upstream up cannot be reached"):
                    await upstream.send(post())


async def test_a_connection_that_does_not_come_is_a_timeout() -> None:
    """A TLS handshake that nobody answers runs into connect_timeout."""
    async with FakeEngine() as engine:
        url = engine.url.replace("http:", "https:")
        async with asking(url, connect_timeout=0.1) as upstream:
            with pytest.raises(UpstreamTimeout):
                await upstream.send(post())


async def test_what_an_upload_raises_comes_out() -> None:
    """An error of ours inside a streamed body is not told as the engine's."""

    class Stopped(AskOnceError):
        """A body that stops."""

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        raise Stopped

    async with FakeEngine() as engine, asking(engine.url) as upstream:
        with pytest.raises(Stopped):
            await upstream.send(post(body=body()))
        response = await upstream.send(post())
        assert response.status == 200
        await response.close()


async def test_connections_are_kept_and_stale_ones_replaced() -> None:
    """One connection serves many; dropped unanswered, it is replaced once and for bytes only."""

    async def body() -> AsyncIterator[bytes]:
        yield b"a"

    async with FakeEngine() as engine, asking(engine.url) as upstream:
        for _ in range(3):
            response = await upstream.send(post())
            await response.read()
            await response.close()
        assert engine.opened == 1
        engine.script(Reply(fault="break_before"))
        await (await upstream.send(post())).close()
        assert (engine.opened, len(engine.asked)) == (2, 5)
        await (await upstream.send(post())).read()
        engine.script(Reply(fault="break_before"))
        with pytest.raises(UpstreamUnreachable):
            await upstream.send(post(body=body()))


async def test_cancelling_lets_go_of_the_connection() -> None:
    """A cancelled send hangs up on the engine."""
    async with FakeEngine(Reply(fault="hang_before")) as engine, asking(engine.url) as upstream:
        task = asyncio.create_task(upstream.send(post()))
        await engine.receiving.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(1):
            while not engine.abandoned:
                await asyncio.sleep(0.005)


async def test_the_pool_is_bounded() -> None:
    """No more than max_connections at once; the next one waits its turn."""
    slow = Reply(pieces=(b"x",), delay=0.05)
    async with (
        FakeEngine(slow, slow, slow) as engine,
        asking(engine.url, max_connections=1) as upstream,
    ):

        async def one() -> bytes:
            response = await upstream.send(post())
            try:
                return await response.read()
            finally:
                await response.close()

        assert set(await asyncio.gather(one(), one(), one())) == {b"x"}
        assert engine.opened == 1


async def test_an_answer_that_is_no_http_is_unreachable() -> None:
    """Garbage instead of a status line is no answer."""

    async def garble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0 hello\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(garble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asking(f"http://127.0.0.1:{port}/v1") as upstream:
        with pytest.raises(UpstreamUnreachable):
            await upstream.send(post())
    server.close()
