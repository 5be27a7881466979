"""One Memcached server as the store sees it: reached again by itself, and known by its epoch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from askonce.errors import StoreError
from askonce.stores.memcached.items import EPOCH_BYTES
from askonce.stores.memcached.wire import Command, Reply, ServerDown, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.stores.memcached.items import Names
    from askonce.stores.memcached.ring import Address

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
"""Seconds until a server that went is tried again; each failure doubles them."""
LONGEST_PAUSE = 1.0
ATTEMPTS = 5
"""Times that a call starts anew because the epoch has changed under it."""


def new_epoch() -> bytes:
    """A random one."""
    return urlsafe_b64encode(secrets.token_bytes(EPOCH_BYTES * 3 // 4))


class MemcachedServer:
    """Keeps one connection; a call while there is none fails at once, but the very first waits."""

    def __init__(
        self,
        address: Address,
        names: Names,
        *,
        patience: float,
        make_epoch: Callable[[], bytes] = new_epoch,
    ) -> None:
        """Connect to nothing yet; make_epoch: gives a new one each time."""
        self.address = address
        self.reconnects = 0
        """Connections that were lost."""
        self._names = names
        self._patience = patience
        self._make_epoch = make_epoch
        self._wire: Wire | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._why = "not connected"
        self._closed = False
        self._epoch = b""

    @property
    def up(self) -> bool:
        """Whether there is a connection."""
        return self._wire is not None and self._wire.lost is None

    async def ask(self, *commands: Command) -> list[Reply]:
        """Answers to all; raises ServerDown, StoreError."""
        if self._closed:
            raise StoreError("the store is closed")
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep())
        if not self._tried.is_set():
            await self._tried.wait()
        if self._wire is None or self._wire.lost is not None:
            raise ServerDown(f"{self.address}: {self._why}")
        try:
            replies = await self._wire.ask(commands)
        except ServerDown as down:
            raise ServerDown(f"{self.address}: {down}") from down
        return replies

    async def read(self, *names: Callable[[bytes], bytes]) -> tuple[bytes, list[Reply]]:
        """The namespace's epoch and items of it, each named by that epoch.

        An empty epoch says that there is none, so nothing is held.
        """
        for _ in range(ATTEMPTS):
            known = self._epoch
            asked = [get(self._names.epoch)]
            if known:
                asked += [get(name(known)) for name in names]
            epoch, *items = await self.ask(*asked)
            self._epoch = _sound(epoch)
            if self._epoch == known or not self._epoch:
                return self._epoch, items if self._epoch else []
            if not names:
                return self._epoch, []
        raise StoreError(f"{self.address}: the epoch does not stay")

    async def found(self, *names: Callable[[bytes], bytes]) -> tuple[bytes, list[Reply]]:
        """As `read`, but begins an epoch where there is none."""
        for _ in range(ATTEMPTS):
            epoch, items = await self.read(*names)
            if epoch:
                return epoch, items
            await self.begin(self._names.epoch)
        raise StoreError(f"{self.address}: it does not keep an epoch")

    async def begin(self, name: bytes, *, anew: bool = False) -> bytes:
        """Give an item an epoch if it has none, or `anew`; returns the one it then has."""
        made = self._make_epoch()
        mode = b"S" if anew else b"E"
        stored, now = await self.ask(put(name, made, b"M" + mode), get(name))
        if stored.kind == b"SE":
            raise StoreError(f"{self.address}: {stored.flags.decode('ascii', 'replace')}")
        epoch = _sound(now)
        if not epoch:
            raise StoreError(f"{self.address}: it does not keep an epoch")
        return epoch

    def forget_epoch(self) -> None:
        """Learn it anew by the next call."""
        self._epoch = b""

    async def close(self) -> None:
        """Drop the connection; idempotent."""
        self._closed = True
        self._tried.set()
        if self._wire is not None:
            self._wire.give_up("the store is closed")
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                self._wire = await self._connected()
            except (OSError, ValueError, StoreError) as error:
                self._note(str(error) or "it does not answer")
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            finally:
                self._tried.set()
            pause = FIRST_PAUSE
            self._epoch = b""
            log.info("memcached %s is there", self.address)
            await self._wire.gone
            self.reconnects += 1
            self._note(self._wire.lost or "")

    def _note(self, why: str) -> None:
        if why != self._why:
            log.warning("memcached %s is not there: %s", self.address, why)
        self._why = why

    async def _connected(self) -> Wire:
        """A connection over which the server has answered."""
        loop = asyncio.get_running_loop()
        wire = Wire(self._patience)
        try:
            async with asyncio.timeout(2 * self._patience):
                if self.address.path:
                    await loop.create_unix_connection(lambda: wire, self.address.path)
                else:
                    await loop.create_connection(lambda: wire, self.address.host, self.address.port)
                await wire.ask([get(self._names.epoch)])
        except BaseException:
            wire.give_up("it does not answer")
            raise
        return wire


def get(name: bytes) -> Command:
    """Read an item's value."""
    return Command(b"mg %b v" % name)


def put(name: bytes, value: bytes, flags: bytes) -> Command:
    """Write an item."""
    return Command(b"ms %b %d %b" % (name, len(value), flags), value)


def remove(name: bytes) -> Command:
    """Remove an item."""
    return Command(b"md %b" % name)


def _sound(reply: Reply) -> bytes:
    """An epoch becomes part of names, so it is taken only if it looks like one."""
    letters = reply.value.translate(None, b"-_")
    return reply.value if len(reply.value) == EPOCH_BYTES and letters.isalnum() else b""


def failed(replies: Sequence[Reply]) -> str:
    """What a server said that could not do as it was told; else empty."""
    for reply in replies:
        if reply.kind == b"SE":
            return reply.flags.decode("ascii", "replace")
    return ""
