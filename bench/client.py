"""Load from one core: `python -m bench.client` reads a job from its input and prints what came.

Two kinds of stream: a closed one sends its next request when an answer has come, an open one at
fixed times, and measures from the moment a request's turn came, whether or not a connection was
free.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec
import uvloop

from bench.samples import MARK

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NUMBER = b"%012d"


class Stream(msgspec.Struct):
    """Requests of one kind."""

    request: str
    """The request's bytes (ASCII); a number takes the place of six marks in a row."""
    connections: int
    rate: float = 0.0
    """Requests a second; 0 means closed: as fast as answers come."""
    first_number: int = 0
    numbers: int = 0
    """How many numbers there are, used again and again; 0 for no end of them."""


class Job(msgspec.Struct):
    """What to send, and for how long."""

    port: int
    seconds: float
    streams: list[Stream]


class Outcome(msgspec.Struct):
    """What one stream saw."""

    seconds: float
    errors: int
    latencies: list[float]
    """Seconds, one for each answer with status 200."""


class Connection(asyncio.Protocol):
    """One connection with at most one request on its way."""

    def __init__(self, done: Callable[[Connection, bool], None]) -> None:
        self._done = done
        self._held = b""
        self._end = 0
        self._transport: asyncio.WriteTransport | None = None
        self.meant = 0.0
        """When the request on its way was meant to leave."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def send(self, request: bytes, meant: float) -> None:
        """Send one request."""
        assert self._transport is not None
        self.meant = meant
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Tell when the answer is whole."""
        self._held = held = self._held + data if self._held else data
        if not self._end:
            head = held.find(b"\r\n\r\n")
            length = _LENGTH.search(held, 0, head + 2) if head > 0 else None
            if length is None:
                return
            self._end = head + 4 + int(length.group(1))
        if len(held) >= self._end:
            good = held.startswith(b"HTTP/1.1 200")
            self._held, self._end = held[self._end :], 0
            self._done(self, good)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class Sender:
    """Runs one stream."""

    def __init__(self, stream: Stream, port: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._stream = stream
        self._port = port
        self._request = stream.request.encode()
        self._numbered = MARK.encode() * 6 in self._request
        self._number = stream.first_number
        self._idle: deque[Connection] = deque()
        self._due: deque[float] = deque()
        self._until = 0.0
        self._closed = False
        self.errors = 0
        self.latencies: list[float] = []

    async def connect(self) -> None:
        """Open all connections."""
        for _ in range(self._stream.connections):
            _, connection = await self._loop.create_connection(
                lambda: Connection(self._answered), "127.0.0.1", self._port
            )
            self._idle.append(connection)

    async def run(self, seconds: float) -> Outcome:
        """Send for so long, and wait for what is still on its way."""
        began = time.perf_counter()
        self._until = began + seconds
        every = 1 / self._stream.rate if self._stream.rate else 0.0
        if every:
            self._tick(began, every)
        else:
            for _ in range(self._stream.connections):
                self._idle.popleft().send(self._next(), time.perf_counter())
        await asyncio.sleep(seconds + every)
        await self._drained()
        self._closed = True
        for connection in self._idle:
            connection.close()
        return Outcome(seconds, self.errors, self.latencies)

    async def _drained(self) -> None:
        for _ in range(500):
            if not self._due and len(self._idle) == self._stream.connections:
                return
            await asyncio.sleep(0.01)
        self.errors += self._stream.connections - len(self._idle)

    def _tick(self, meant: float, every: float) -> None:
        if meant >= self._until or self._closed:
            return
        self._due.append(time.perf_counter())
        self._pump()
        wait = max(meant + every - time.perf_counter(), 0.0)
        self._loop.call_later(wait, partial(self._tick, meant + every, every))

    def _pump(self) -> None:
        while self._due and self._idle:
            self._idle.popleft().send(self._next(), self._due.popleft())

    def _answered(self, connection: Connection, good: bool) -> None:  # noqa: FBT001
        now = time.perf_counter()
        if now < self._until or self._stream.rate:
            if good:
                self.latencies.append(now - connection.meant)
            else:
                self.errors += 1
        if self._stream.rate or now >= self._until:
            self._idle.append(connection)
            self._pump()
        else:
            connection.send(self._next(), now)

    def _next(self) -> bytes:
        if not self._numbered:
            return self._request
        self._number += 1
        again = self._stream.numbers
        shown = self._number % again if again else self._number
        return self._request.replace(MARK.encode() * 6, _NUMBER % shown)


async def work(job: Job) -> list[Outcome]:
    """Run all streams of a job at once."""
    senders = [Sender(stream, job.port) for stream in job.streams]
    for sender in senders:
        await sender.connect()
    gc.disable()
    return list(await asyncio.gather(*(sender.run(job.seconds) for sender in senders)))


if __name__ == "__main__":
    _job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(work(_job))))
