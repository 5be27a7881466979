"""What a Memcached server holds, by the list of names that it can dump.

A dump takes the server a thread of its own and some time: it counts for the operator, and never
stands in the way of a lookup. It is as true as the server's list, and to about a second.
"""

from __future__ import annotations

import asyncio
import logging
import re
from base64 import urlsafe_b64decode
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import StoreError
from askonce.stores.memcached.items import EPOCH_BYTES, HEAD_BYTES, bloom, unpack
from askonce.stores.memcached.wire import Command, Reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.ports import Clock
    from askonce.stores.memcached.items import Names
    from askonce.stores.memcached.ring import Address
    from askonce.stores.memcached.server import MemcachedServer

log = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds for one dump; what was not listed by then is not counted."""
BUSY_PAUSE = 0.05
"""Seconds between two tries when the server is already listing or tidying up."""

AT_ONCE = 256
"""Items of a sweep that are asked for together."""
LARGE = 0.25
"""Seconds of a census from which on it is not taken each time."""
REST = 100
"""For how many times its own length such a census stands."""

_LINE = re.compile(rb"key=(\S+) exp=(-?\d+) .*?size=(\d+)")


class Listed(msgspec.Struct, frozen=True, gc=False):
    """One item."""

    name: bytes
    expires_at: int
    """Unix time, -1 for never."""
    size: int
    """With name and Memcached's own head."""

    def lives(self, now: float) -> bool:
        """Whether its life has not ended, by the middle of what Memcached's clock can mean."""
        return self.expires_at < 0 or self.expires_at - 1 > now


class Swept(msgspec.Struct, frozen=True):
    """A tag that was taken back."""

    tag: bytes
    """Its digest."""
    before: bytes
    """Its epoch until then."""
    now: bytes
    """Its epoch since."""


class Census:
    """Counts one namespace."""

    def __init__(self, names: Names, clock: Clock) -> None:
        """Count nothing yet."""
        self._names = names
        self._clock = clock
        self._known: dict[MemcachedServer, tuple[bytes, float, tuple[int, int]]] = {}

    async def held(self, server: MemcachedServer, epoch: bytes) -> tuple[int, int]:
        """Live entries of an epoch and the bytes of their values; raises StoreError."""
        before, until, known = self._known.get(server, (b"", 0.0, (0, 0)))
        began = self._clock.monotonic()
        if before == epoch and began < until:
            return known
        held = await self._held(server.address, epoch)
        took = self._clock.monotonic() - began
        if took > LARGE:
            self._known[server] = epoch, began + REST * took, held
        return held

    async def count(self, server: MemcachedServer, epoch: bytes) -> int:
        """Entries of an epoch, as far as the server lists them; raises nothing."""
        try:
            return (await self._held(server.address, epoch))[0]
        except StoreError as error:
            log.warning("removed, but not counted: %s", error)
            return 0

    async def sweep(self, server: MemcachedServer, epoch: bytes, swept: Swept) -> int:
        """Free what a tag held, and count what of it was live; raises nothing.

        Nothing depends on it: without the tag's epoch of before, no entry is served.
        """
        live = 0
        try:
            prefix = self._names.entries(epoch)
            names = iter([each.name async for each in listed(server.address, prefix)])
            while some := list(islice(names, AT_ONCE)):
                live += await self._sweep(server, some, swept)
        except StoreError as error:
            log.warning("removed, but not counted: %s", error)
        return live

    async def _held(self, address: Address, epoch: bytes) -> tuple[int, int]:
        entries, pieces = self._names.entries(epoch), self._names.pieces(epoch)
        items = held = size = 0
        item_head = 0
        now = self._clock.now()
        async for each in listed(address, self._names.all):
            if each.name == self._names.epoch:
                item_head = each.size - len(each.name) - EPOCH_BYTES
            elif each.lives(now) and each.name.startswith((entries, pieces)):
                items += 1
                size += each.size - len(each.name)
                held += each.name.startswith(entries)
        return held, max(size - items * item_head - held * HEAD_BYTES, 0)

    async def _sweep(self, server: MemcachedServer, names: list[bytes], swept: Swept) -> int:
        flags = await server.ask(*(Command(b"mg %b f" % name) for name in names))
        mask = bloom((swept.tag,))
        names = [name for name, reply in zip(names, flags, strict=True) if _flags(reply) & mask]
        if not names:
            return 0
        replies = await server.ask(*(Command(b"mg %b v c" % name) for name in names))
        live, gone = 0, []
        for name, reply in zip(names, replies, strict=True):
            record = unpack(_key_of(name), reply.value)
            mark = dict(record.tags).get(swept.tag) if record is not None else None
            if record is None or mark is None or mark == swept.now:
                continue
            live += mark == swept.before and record.expires_at > self._clock.now()
            gone.append(Command(b"md %b C%b" % (name, reply.flags.strip()[1:])))
        if gone:
            await server.ask(*gone)
        return live


def _flags(reply: Reply) -> int:
    told = reply.flags.strip()[1:]
    return int(told) if reply.kind == b"HD" and told.isdigit() else 0


def _key_of(name: bytes) -> bytes:
    text = name.rpartition(b":")[2]
    return urlsafe_b64decode(text + b"=" * (-len(text) % 4))


async def listed(address: Address, prefix: bytes) -> AsyncIterator[Listed]:
    """All items whose names begin so; raises StoreError when the server does not list."""
    try:
        async with asyncio.timeout(PATIENCE):
            async for line in _dump(address):
                found = _LINE.match(line)
                if found is not None:
                    name = found[1].replace(b"%3A", b":").replace(b"%3a", b":")
                    if name.startswith(prefix):
                        yield Listed(name, int(found[2]), int(found[3]))
    except TimeoutError:
        raise StoreError(f"{address}: listing its items takes too long") from None
    except (OSError, EOFError, ValueError) as error:
        raise StoreError(f"{address}: its items cannot be listed: {error}") from error


async def _dump(address: Address) -> AsyncIterator[bytes]:
    if address.path:
        reader, writer = await asyncio.open_unix_connection(address.path)
    else:
        reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        line = await _begun(reader, writer, b"hash")
        if line.startswith(b"CLIENT_ERROR"):
            line = await _begun(reader, writer, b"all")
        while line.startswith(b"key="):
            yield line
            line = await reader.readline()
        if line.rstrip() != b"END":
            raise ValueError(line[:80].decode("ascii", "replace").strip() or "it hung up")
    finally:
        writer.close()


async def _begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: bytes) -> bytes:
    """The first line of a dump: `hash` misses nothing, `all` is what servers before 1.6.16 have."""
    while True:
        writer.write(b"lru_crawler metadump %b\r\n" % what)
        line = await reader.readline()
        if not line.startswith(b"BUSY"):
            return line
        await asyncio.sleep(BUSY_PAUSE)
