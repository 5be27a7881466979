"""One connection to Memcached, and what a hostile server can make of it: nothing but a miss."""

from __future__ import annotations

import asyncio
import contextlib
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from askonce.errors import StoreError
from askonce.stores.memcached import wire as memcached_wire
from askonce.stores.memcached.wire import Command, ServerDown, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.anyio

ASKED = re.compile(rb"mg (\S+) v O(\d+)\r\n")


@asynccontextmanager
async def talking(
    answer: Callable[[bytes, bytes], bytes], *, patience: float = 5.0, piece: int = 1 << 20
) -> AsyncIterator[Wire]:
    """A connection to a server that answers each `mg` so; answer: of name and number."""

    served: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        with contextlib.suppress(OSError):
            while found := ASKED.fullmatch(await reader.readline()):
                told = answer(found[1], found[2])
                for start in range(0, len(told), piece):
                    writer.write(told[start : start + piece])
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = Wire(patience)
    try:
        port = server.sockets[0].getsockname()[1]
        await asyncio.get_running_loop().create_connection(lambda: wire, "127.0.0.1", port)
        yield wire
    finally:
        wire.give_up("done")
        await asyncio.gather(*filter(None, served))
        server.close()
        await server.wait_closed()


def value(name: bytes, number: bytes) -> bytes:
    """A sound answer: the name itself, with line ends in it."""
    told = name + b"\r\nEN\r\n"
    return b"VA %d O%b\r\n%b\r\n" % (len(told), number, told)


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 20])
async def test_answers_come_whole_however_they_are_cut(piece: int) -> None:
    """Many calls at once each get their own answer."""
    async with talking(value, piece=piece) as wire:
        names = [b"n%d" % number for number in range(50)]
        replies = await asyncio.gather(*(wire.ask([Command(b"mg %b v" % n)]) for n in names))
        assert [reply[0].value for reply in replies] == [name + b"\r\nEN\r\n" for name in names]
        both = await wire.ask([Command(b"mg a v"), Command(b"mg b v")])
        assert [reply.value[:1] for reply in both] == [b"a", b"b"]


async def test_an_error_of_the_server_is_an_answer() -> None:
    """Out of memory ends no connection."""
    async with talking(lambda *_: b"SERVER_ERROR out of memory Or so\r\n") as wire:
        (reply,) = await wire.ask([Command(b"mg a v")])
        assert (reply.kind, reply.flags) == (b"SE", b"out of memory Or so")
        assert wire.lost is None


@pytest.mark.parametrize(
    "told",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"ERROR\r\n",
        b"CLIENT_ERROR bad data chunk\r\n",
        b"VA\r\n",
        b"VA x O0\r\n",
        b"VA -1 O0\r\n\r\n",
        b"VA 99999999999999999999 O0\r\n",
        b"VA 1000000000 O0\r\nabc\r\n",
        b"VA 3 O0\r\nabcdef\r\n",
        b"VA 3 O1\r\nabc\r\n",
        b"VA 3\r\nabc\r\n",
        b"HD Ox\r\n",
        b"EN O7\r\n",
        b"EN O0\r\nEN O1\r\n",
        b"x" * 5000,
        b"\x00\xff\r\n",
        b"\r\n",
    ],
)
async def test_garbage_ends_the_connection(told: bytes) -> None:
    """Whoever waits is told, and nothing of it becomes a value."""
    async with talking(lambda *_: told) as wire:
        if told.startswith(b"EN O0"):
            await wire.ask([Command(b"mg a v")])
            await asyncio.wait_for(wire.gone, 5)
        with pytest.raises(ServerDown):
            await wire.ask([Command(b"mg a v")])
        assert wire.lost is not None


async def test_an_answer_out_of_step_goes_to_nobody() -> None:
    """A server that skips an answer loses the connection instead of serving another's value."""

    def skip(name: bytes, number: bytes) -> bytes:
        return b"" if name == b"a" else value(name, number)

    async with talking(skip) as wire:
        asked = (wire.ask([Command(b"mg a v")]), wire.ask([Command(b"mg b v")]))
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in done] == [ServerDown, ServerDown]


async def test_silence_ends_the_connection() -> None:
    """A server that says nothing is given up after the patience, however many wait."""
    async with talking(lambda *_: b"", patience=0.05) as wire:
        asked = [wire.ask([Command(b"mg a v")]) for _ in range(20)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(each) for each in done} == {ServerDown}
        assert "no answer" in str(wire.lost)


async def test_too_much_that_waits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound a call fails at once, and those before it do not."""
    monkeypatch.setattr(memcached_wire, "MOST_WAITING", 2)
    async with talking(value) as wire:
        asked = [wire.ask([Command(b"mg a v")]) for _ in range(3)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in done] == [list, list, StoreError]
