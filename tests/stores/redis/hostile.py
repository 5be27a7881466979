"""A server that says whatever a test wants it to say."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import hiredis

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Says = Callable[[list[bytes]], bytes | Awaitable[bytes | None] | None]

HELLO = b"%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"


class Hostile:
    """Lets clients in and pings back; all else is up to `says`, where None hangs up."""

    def __init__(self) -> None:
        self.says: Says = lambda _: b"_\r\n"
        self.entered = 0
        self.hello = HELLO
        self.asked: list[list[bytes]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0

    def shout(self, said: bytes) -> None:
        """Say something unasked to all who are connected."""
        for writer in self.writers:
            writer.write(said)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        self.writers.append(writer)
        parser = hiredis.Reader()
        try:
            while data := await reader.read(65536):
                parser.feed(data)
                while (command := parser.gets()) is not False:
                    said = await self._answer(command)
                    if said is None:
                        return
                    writer.write(said)
        except ConnectionError:
            pass
        finally:
            self.writers.remove(writer)
            writer.close()

    async def _answer(self, command: list[bytes]) -> bytes | None:
        match command:
            case [b"HELLO", *_]:
                self.entered += 1
                return self.hello
            case [b"CLIENT", *_]:
                return b"+OK\r\n"
            case [b"PING", nonce]:
                return bulk(nonce)
        self.asked.append(command)
        said: Any = self.says(command)
        answer: bytes | None = await said if asyncio.iscoroutine(said) else said
        return answer


def bulk(value: bytes) -> bytes:
    """A value on the wire."""
    return b"$%d\r\n%s\r\n" % (len(value), value)


def array(*parts: bytes) -> bytes:
    """An array of values on the wire."""
    return b"*%d\r\n" % len(parts) + b"".join(parts)


@asynccontextmanager
async def hostile() -> AsyncIterator[Hostile]:
    """A hostile server on a free port."""
    server = Hostile()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for writer in list(server.writers):
            writer.close()
        await asyncio.sleep(0.01)
