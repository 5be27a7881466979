"""A wire between a client and a server, to be cut, held up, slowed down and filled with noise."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio.from_thread import start_blocking_portal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from anyio.from_thread import BlockingPortal

Target = tuple[str, int] | str
"""Host and port, or the path of a socket file."""


class Proxy:
    """Passes bytes on as told; a change holds for connections that stand as well."""

    def __init__(self, target: Target) -> None:
        self.delay = 0.0
        """Seconds that each piece takes in each direction."""
        self.rate: float | None = None
        """Bytes that arrive in a second of what the server says."""
        self.most: int | None = None
        """Bytes that still arrive of what the server says; the rest is lost."""
        self.spell: int | None = None
        """Bytes that the server says between two breaks of a connection."""
        self.noise: bytes | None = None
        """Said instead of all that the server says."""
        self.refuses = False
        """Whether connections are closed as soon as they are made."""
        self.made = 0
        """Connections so far."""
        self.port = 0
        self._target = target
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._spoken = 0
        """Bytes since the last break."""

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def hold(self) -> None:
        """From now on no byte arrives; connections are still taken, as by a lost network."""
        self._flows.clear()

    def release(self) -> None:
        """What was held arrives late, as TCP does it."""
        self._flows.set()

    def cut(self) -> None:
        """Break all connections."""
        for task in self._passing:
            task.cancel()

    def heal(self) -> None:
        """Be a good wire again; connections that did not see all there was are gone."""
        if (self.noise, self.most, self.spell) != (None, None, None):
            self.cut()
        self.delay, self.rate, self.noise, self.refuses = 0.0, None, None, False
        self.most, self.spell, self._spoken = None, None, 0
        self.release()

    def ail(self, **troubles: object) -> None:
        """Be a good wire but for these, by their names above; one that refuses is cut as well."""
        self.heal()
        assert troubles.keys() <= vars(self).keys()
        vars(self).update(troubles)
        if self.refuses:
            self.cut()

    async def stop(self) -> None:
        """Drop all."""
        if self._server is not None:
            self._server.close()
        self.cut()
        if self._passing:
            await asyncio.wait(list(self._passing))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if self.refuses or task is None:
            writer.transport.abort()
            return
        self.made += 1
        self._passing.add(task)
        ends = [writer]
        try:
            await self._flows.wait()
            source, sink = await self._reach()
            ends.append(sink)
            ways = (self._way(reader, sink, back=False), self._way(source, writer, back=True))
            both = [asyncio.create_task(way) for way in ways]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in both:
                    way.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # the task is ours alone: nobody else waits for it
        finally:
            self._passing.discard(task)
            for end in ends:
                end.transport.abort()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    async def _way(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool
    ) -> None:
        """One direction; pieces leave in order, each when its time has come."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def leave() -> None:
            while True:
                due, piece = await pieces.get()
                if (wait := due - loop.time()) > 0:
                    await asyncio.sleep(wait)
                await self._flows.wait()
                if back:
                    await self._say(writer, piece)
                else:
                    writer.write(piece)

        leaving = asyncio.create_task(leave())
        try:
            with suppress(OSError):
                while piece := await reader.read(1 << 18):
                    noise = self.noise if back else None
                    pieces.put_nowait((loop.time() + self.delay, noise or piece))
        finally:
            leaving.cancel()

    async def _say(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        if self.rate is not None:
            await asyncio.sleep(len(piece) / self.rate)
        if self.most is not None:
            piece = piece[: self.most]
            self.most -= len(piece)
        if self.spell is not None:
            piece = piece[: self.spell - self._spoken]
            self._spoken += len(piece)
        writer.write(piece)
        if self._spoken == self.spell:
            self._spoken = 0
            writer.transport.abort()


@asynccontextmanager
async def proxy(target: Target) -> AsyncIterator[Proxy]:
    """A wire for the time of a test."""
    wire = Proxy(target)
    await wire.start()
    try:
        yield wire
    finally:
        await wire.stop()


class Line:
    """A wire in a thread of its own, for tests without a loop."""

    def __init__(self, wire: Proxy, portal: BlockingPortal) -> None:
        """portal: to the loop of the wire."""
        self.port = wire.port
        self._wire = wire
        self._portal = portal

    @property
    def url(self) -> str:
        """Of a Redis behind it."""
        return f"redis://127.0.0.1:{self.port}"

    def ail(self, **troubles: Any) -> None:
        """See `Proxy`."""
        self._portal.call(partial(self._wire.ail, **troubles))


@contextmanager
def line(port: int) -> Iterator[Line]:
    """A wire to a server on this machine, for the time of a test."""
    made = proxy(("127.0.0.1", port))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(made) as wire:
        yield Line(wire, portal)
