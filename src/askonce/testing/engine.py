"""A fake engine on a real socket; `python -m askonce.testing.engine PORT` runs one by itself."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Self

from askonce.testing.answers import Asked, Reply, default_reply

if TYPE_CHECKING:
    from types import TracebackType

    from askonce.testing.answers import Script

_LIMIT = 1024 * 1024


class FakeEngine:
    """Answers scripts in order, then by `otherwise`; remembers what it was asked.

    It writes HTTP/1.1 by hand, since it must be able to break every rule of it.
    """

    def __init__(self, *scripts: Script, otherwise: Script = default_reply) -> None:
        self.asked: list[Asked] = []
        self.receiving = asyncio.Event()
        """Set when the first piece of a request body has arrived."""
        self.abandoned = 0
        """How many answers the other side hung up on."""
        self.written = 0
        """How many bytes of bodies the sockets have taken."""
        self.opened = 0
        """How many connections were ever made."""
        self.otherwise = otherwise
        self._scripts = deque(scripts)
        self._connections: set[asyncio.Task[None]] = set()
        self._transports: set[asyncio.WriteTransport] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    def script(self, *scripts: Script) -> None:
        """Append answers for the next requests."""
        self._scripts.extend(scripts)

    @property
    def url(self) -> str:
        """The base URL, `/v1` included."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._connections)

    async def start(self, port: int = 0) -> None:
        """Listen on loopback; port 0 takes a free one."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=_LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for transport in self._transports:
            transport.abort()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        self.opened += 1
        self._transports.add(writer.transport)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._transports.discard(writer.transport)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; returns whether the connection lives on."""
        head = await reader.readuntil(b"\r\n\r\n")
        script = self._scripts.popleft() if self._scripts else self.otherwise
        if isinstance(script, Reply) and script.fault in {"refuse", "hang_reading"}:
            if script.fault == "hang_reading":
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                await asyncio.Event().wait()
            return False
        asked = await self._read(head, reader)
        self.asked.append(asked)
        reply = script if isinstance(script, Reply) else script(asked)
        return await _Answer(reply, asked, reader, writer, self).deliver()

    async def _read(self, head: bytes, reader: asyncio.StreamReader) -> Asked:
        first, *lines = head[:-4].split(b"\r\n")
        method, path, _ = first.decode("latin-1").split(" ")
        headers = []
        for line in lines:
            name, _, value = line.partition(b":")
            headers.append((name.lower(), value.strip()))
        given = dict(headers)
        if b"transfer-encoding" in given:
            body = await self._chunked(reader)
        else:
            body = await self._sized(reader, int(given.get(b"content-length", b"0")))
        return Asked(method, path, headers, body)

    async def _sized(self, reader: asyncio.StreamReader, left: int) -> bytes:
        pieces = []
        while left:
            piece = await reader.read(min(left, _LIMIT))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            self.receiving.set()
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    async def _chunked(self, reader: asyncio.StreamReader) -> bytes:
        pieces = []
        while size := int(await reader.readuntil(b"\r\n"), 16):
            pieces.append(await reader.readexactly(size))
            self.receiving.set()
            await reader.readexactly(2)
        await reader.readexactly(2)
        return b"".join(pieces)


class _Answer:
    """One reply on its way out."""

    def __init__(
        self,
        reply: Reply,
        asked: Asked,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        engine: FakeEngine,
    ) -> None:
        self._reply = reply
        self._bodiless = asked.method == "HEAD" or reply.status in {204, 304}
        self._reader = reader
        self._writer = writer
        self._engine = engine

    async def deliver(self) -> bool:
        reply = self._reply
        if reply.delay and await self._hung_up(reply.delay):
            return False
        if reply.fault == "break_before":
            return False
        if reply.fault == "hang_before":
            await self._hung_up(None)
            return False
        self._writer.write(self._head())
        return await self._body() and reply.framing != "close"

    def _head(self) -> bytes:
        reply = self._reply
        reason = HTTPStatus(reply.status).phrase
        lines = [f"HTTP/1.1 {reply.status} {reason}".encode()]
        lines += [name + b": " + value for name, value in reply.headers]
        if reply.framing == "chunked":
            lines.append(b"transfer-encoding: chunked")
        elif reply.framing == "length" and reply.status != 204:
            lines.append(b"content-length: %d" % len(reply.body))
        return b"\r\n".join([*lines, b"", b""])

    async def _body(self) -> bool:
        reply = self._reply
        if self._bodiless:
            await self._writer.drain()
            return True
        for i, piece in enumerate(reply.pieces):
            if reply.fault and i == reply.at:
                return await self._fail()
            if i and reply.pause and await self._hung_up(reply.pause):
                return False
            self._write(piece)
            await self._writer.drain()
            self._engine.written += len(piece)
        if reply.fault:
            return await self._fail()
        if reply.framing == "chunked":
            self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        return True

    def _write(self, piece: bytes) -> None:
        if self._reply.framing == "chunked":
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        self._writer.write(piece)

    async def _fail(self) -> bool:
        await self._writer.drain()
        if self._reply.fault == "hang_inside":
            await self._hung_up(None)
        return False

    async def _hung_up(self, within: float | None) -> bool:
        """Wait so long, or until the other side hangs up; returns whether it did."""
        try:
            async with asyncio.timeout(within):
                await self._reader.read(1)
        except TimeoutError:
            return False
        except OSError:
            pass
        self._engine.abandoned += 1
        return True


async def _serve(port: int) -> None:
    engine = FakeEngine()
    await engine.start(port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(int(sys.argv[1])))
