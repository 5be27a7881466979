"""Keeps one connection to one node: enters, watches it, and comes back when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import ssl
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from askonce.errors import StoreError
from askonce.stores.redis.address import Address, Login
from askonce.stores.redis.wire import Connection, Refused, pack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

log = logging.getLogger(__name__)
T = TypeVar("T")

ENTER = 1.0
"""Seconds to connect and be let in."""
BEAT = 0.25
"""Seconds between two signs of life."""
PATIENCE = 0.5
"""Seconds that a sign of life may take; with BEAT, how long a lost server goes unnoticed."""
FIRST_PAUSE, LAST_PAUSE = 0.05, 1.0
"""Seconds until it is tried again, doubled each time and shortened at random by up to half."""


class Entry(msgspec.Struct, frozen=True):
    """How to enter a node."""

    login: Login = Login()
    tls: ssl.SSLContext | None = None
    db: int = 0
    follow: tuple[str, ...] = ()
    """Prefixes of keys of whose changes the server is to tell."""
    primary: bool = False
    """Refuse a replica."""


async def dial(
    address: Address, entry: Entry, pushed: Callable[[list[Any]], None]
) -> tuple[Connection, bool]:
    """An open connection, and whether the server tells of changes; raises StoreError in time."""
    loop, (host, port) = asyncio.get_running_loop(), address
    connection = Connection(pushed)
    try:
        async with asyncio.timeout(ENTER):
            if port:
                name = host if entry.tls else None
                await loop.create_connection(
                    lambda: connection, host, port, ssl=entry.tls, server_hostname=name
                )
            else:
                await loop.create_unix_connection(lambda: connection, host)
            return connection, await _enter(connection, entry)
    except (OSError, TimeoutError, StoreError) as error:
        reason = str(error) or type(error).__name__
        connection.fail(reason)
        raise StoreError(f"the store cannot be entered: {reason}") from None
    except asyncio.CancelledError:
        connection.fail("given up")
        raise


async def _enter(connection: Connection, entry: Entry) -> bool:
    login = entry.login
    who = ("AUTH", login.username or "default", login.password) if login.password else ()
    hello = await connection.call(pack("HELLO", 3, *who, "SETNAME", "askonce"))
    if not isinstance(hello, dict):
        raise StoreError(
            "the server does not speak RESP3: Redis 6.2, Valkey 7.2 or newer is needed"
        )
    if entry.primary and hello.get(b"role") != b"master":
        raise StoreError("the server is a replica")
    if entry.db:
        await connection.call(pack("SELECT", entry.db))
    if not entry.follow:
        return False
    prefixes = [part for prefix in entry.follow for part in ("PREFIX", prefix)]
    try:
        await connection.call(pack("CLIENT", "TRACKING", "ON", "BCAST", *prefixes))
    except Refused as refused:
        log.warning("hot copies live a second at most: no client tracking: %s", refused.said)
        return False
    return True


class Link:
    """One node's connection, remade for as long as the link is open; create it inside a loop."""

    def __init__(
        self,
        resolve: Callable[[], Awaitable[Address]],
        entry: Entry,
        *,
        pushed: Callable[[list[Any]], None],
        moved: Callable[[], None],
    ) -> None:
        """Begin to connect.

        resolve: where the node is now; raises StoreError.
        moved: is called whenever the connection came or went.
        """
        self._resolve = resolve
        self._entry = entry
        self._pushed = pushed
        self._moved = moved
        self.connection: Connection | None = None
        self.told = False
        """Whether the server tells of changes now."""
        self.reconnects = 0
        self._reason = "not connected yet"
        self._trying: asyncio.Future[None] | None = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def connected(self) -> Connection:
        """The connection; waits for the first attempt since it was lost; raises StoreError."""
        if self.connection is None and self._trying is not None:
            await asyncio.shield(self._trying)
        if self.connection is None:
            raise StoreError(self._reason)
        return self.connection

    def distrust(self, reason: str) -> None:
        """Drop the connection and resolve the node anew."""
        if self.connection is not None:
            self.connection.fail(reason)

    async def close(self) -> None:
        """Release everything; idempotent."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._tried()

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        try:
            while True:
                connection = await self._attempt()
                if connection is None:
                    await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads load
                    pause = min(pause * 2, LAST_PAUSE)
                    continue
                lived = await self._watch(connection)
                pause = FIRST_PAUSE if lived else min(pause * 2, LAST_PAUSE)
                self._trying = asyncio.get_running_loop().create_future() if lived else None
                self._down(connection.lost.result())
        finally:
            self._reason = "the store is closed"
            if self.connection is not None:
                self.connection.fail("the store is closed")
                self.connection = None

    async def _attempt(self) -> Connection | None:
        try:
            connection, self.told = await dial(await self._resolve(), self._entry, self._pushed)
        except StoreError as fault:
            self._say(str(fault))
            self._tried()
            return None
        self.connection = connection
        self.reconnects += 1
        self._say("")
        self._tried()
        self._moved()
        return connection

    def _tried(self) -> None:
        trying, self._trying = self._trying, None
        if trying is not None and not trying.done():
            trying.set_result(None)

    def _down(self, reason: str) -> None:
        self._say(reason)
        self.connection, self.told = None, False
        self._moved()

    def _say(self, reason: str) -> None:
        if reason and reason != self._reason:
            log.warning("the store is away: %s", reason)
        self._reason = reason

    async def _watch(self, connection: Connection) -> bool:
        """Until the connection is lost; whether it gave a sign of life before."""
        lived = False
        while not connection.lost.done():
            await asyncio.wait([connection.lost], timeout=BEAT)
            if not connection.lost.done():
                lived = await _lives(connection) or lived
        return lived


async def _lives(connection: Connection) -> bool:
    """Whether the server gives back what it alone was sent; else the connection is failed."""
    nonce = secrets.token_bytes(8)
    with contextlib.suppress(StoreError):
        echo = connection.call(pack("PING", nonce))
        await asyncio.wait([echo], timeout=PATIENCE)
        if not echo.done():
            echo.cancel()
            connection.fail("the server is silent")
        elif echo.exception() is None and echo.result() != nonce:
            connection.fail("the server speaks garbage: another's reply")
        else:
            return echo.exception() is None
    return False


async def first_of(addresses: Sequence[Address], ask: Callable[[Address], Awaitable[T]]) -> T:
    """The first answer that any of the addresses gives; raises StoreError when none does."""
    reason = "no address"
    for address in random.sample(list(addresses), len(addresses)):
        try:
            return await ask(address)
        except StoreError as fault:
            reason = str(fault)
    raise StoreError(reason)
