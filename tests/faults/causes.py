"""What can be done to a server and the wire to it; each is undone when its block ends."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.servers.process import free_port
from tests.servers.redis import tell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.faults.proxy import Proxy
    from tests.servers.process import Server

SLOW = 0.06
"""Seconds that each way takes: 100 times and more of what a step takes on loopback."""
FLAP = 0.04
"""Seconds between a cut and a mending."""
NOISE = {
    "noise": bytes(range(255, 0, -1)) * 4,
    "another protocol": b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
    "no JSON": b'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"data":]',
    "endless array": b"*1000000000\r\n",
    "endless value": b"$536870912\r\n",
}
USER = "cache"
PASSWORD = "right"


class Place(NamedTuple):
    """A server and the only wire to it."""

    server: Server
    wire: Proxy
    port: int = 0
    """Of a server of Redis' kind, past the wire."""
    restarted: Callable[[], None] = lambda: None
    """What an operator does after a restart."""


@asynccontextmanager
async def killed(place: Place) -> AsyncIterator[None]:
    """It is gone, and what it held with it."""
    place.server.kill()
    yield
    place.server.start()  # in this thread: the server ends with the one that started it
    place.restarted()


@asynccontextmanager
async def frozen(place: Place) -> AsyncIterator[None]:
    """It takes connections and does nothing."""
    pids = [place.server.pid, *_children(place.server.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


def _children(pid: int) -> list[int]:
    """PostgreSQL answers from a process for each connection."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@asynccontextmanager
async def black_holed(place: Place) -> AsyncIterator[None]:
    """No packet arrives any more."""
    place.wire.hold()
    yield
    place.wire.heal()


@asynccontextmanager
async def slowed(place: Place) -> AsyncIterator[None]:
    """All arrives, far too late."""
    place.wire.delay = SLOW
    yield
    place.wire.heal()


@asynccontextmanager
async def flapping(place: Place) -> AsyncIterator[None]:
    """It goes and comes, many times a second."""

    async def flap() -> None:
        while True:
            place.wire.refuses = not place.wire.refuses
            place.wire.cut()
            await asyncio.sleep(FLAP)

    task = asyncio.create_task(flap())
    yield
    task.cancel()
    await asyncio.wait([task])
    place.wire.heal()


def babbling(noise: str) -> Callable[[Place], AbstractAsyncContextManager[None]]:
    """All that it says is nonsense of one kind."""

    @asynccontextmanager
    async def cause(place: Place) -> AsyncIterator[None]:
        place.wire.noise = NOISE[noise]
        yield
        place.wire.heal()

    return cause


@asynccontextmanager
async def full(place: Place) -> AsyncIterator[None]:
    """Redis: out of memory, and nothing is evicted."""
    tell(place.port, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    tell(place.port, "CONFIG", "SET", "maxmemory", "1")
    yield
    tell(place.port, "CONFIG", "SET", "maxmemory", "0")


@asynccontextmanager
async def read_only(place: Place) -> AsyncIterator[None]:
    """Redis: a replica of a server that is not there."""
    tell(place.port, "REPLICAOF", "127.0.0.1", free_port())
    yield
    tell(place.port, "REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def locked_out(place: Place) -> AsyncIterator[None]:
    """Redis: the password is another one from now on."""
    tell(place.port, "ACL", "SETUSER", USER, "resetpass", ">another")
    place.wire.cut()
    yield
    tell(place.port, "ACL", "SETUSER", USER, f">{PASSWORD}")


def in_redis(server: Server, wire: Proxy, port: int) -> Place:
    """A server of Redis' kind, with the user that the gateway comes as."""

    def admit() -> None:
        tell(port, "ACL", "SETUSER", USER, "on", f">{PASSWORD}", "~*", "&*", "+@all")

    admit()
    return Place(server, wire, port, admit)


ANYWHERE: dict[str, Callable[[Place], AbstractAsyncContextManager[None]]] = {
    "killed": killed,
    "frozen": frozen,
    "black-holed": black_holed,
    "100x slow": slowed,
    "flapping": flapping,
    "noise": babbling("noise"),
    "another protocol": babbling("another protocol"),
}
IN_REDIS = {
    **ANYWHERE,
    "endless array": babbling("endless array"),
    "endless value": babbling("endless value"),
    "out of memory": full,
    "read-only replica": read_only,
    "wrong password": locked_out,
}
