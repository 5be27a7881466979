"""Answers in Memcached: several servers, each with its share of the keys."""

from __future__ import annotations

import asyncio
import math
import os
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from askonce.errors import StoreError
from askonce.events import AdmissionRefused, Evicted, Unreadable
from askonce.ports import StoreStats
from askonce.stores.memcached.census import Census, Swept
from askonce.stores.memcached.items import (
    EPOCH_BYTES,
    HEAD_BYTES,
    ROOM,
    Names,
    Record,
    bloom,
    digest,
    pack,
    split,
    tag_digest,
    unpack,
)
from askonce.stores.memcached.ring import MemcachedUrl, Ring, parse_url
from askonce.stores.memcached.server import MemcachedServer, failed, get, new_epoch, put, remove
from askonce.stores.memcached.wire import Command, ServerDown
from askonce.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from askonce.ports import Clock, Sink
    from askonce.units import Seconds

T = TypeVar("T")

LONGEST_LIFE = 30 * 86400
"""Seconds; Memcached takes a larger number for a date."""
SLOW = 2
"""Seconds by which Memcached's clock may be late, so that no life ends before its time."""
LEAST_PIECE = 1024


class MemcachedStore:
    """A `Store` with tags and epoch; create it inside a running event loop.

    Lives end to the clock of who asks. A server that is down is a miss for its share of the keys
    while another is up; taking entries away then raises StoreError, after all others did it.
    Counts of `clear`, `delete_tag` and `stats` come from the servers' lists of names.
    """

    def __init__(
        self,
        url: MemcachedUrl,
        *,
        clock: Clock,
        sink: Sink,
        make_epoch: Callable[[], bytes] = new_epoch,
    ) -> None:
        """Connect to nothing yet."""
        self._url = url
        self._clock = clock
        self._sink = sink
        self._names = Names(url.namespace)
        self._piece = url.item_bytes - ROOM
        self._servers = [
            MemcachedServer(address, self._names, patience=url.patience, make_epoch=make_epoch)
            for address in url.servers
        ]
        self._ring = Ring([str(address) for address in url.servers])
        self._census = Census(self._names, clock)
        self._removals: dict[MemcachedServer, int] = {}
        self._unreadable = 0

    async def get(self, key: bytes) -> bytes | None:
        """See `Store`; one round trip, and a second one for an entry with tags or in pieces."""
        server = self._server(key)
        try:
            epoch, items = await server.read(lambda epoch: self._names.entry(epoch, key))
            if not items or items[0].kind != b"VA":
                return None
            record = unpack(key, items[0].value)
            if record is None:
                self._of_no_use("damaged")
                return None
            if record.expires_at <= self._clock.now():
                return None
            if not record.tags and not record.pieces:
                return record.inline
            return await self._whole(server, epoch, record)
        except ServerDown:
            self._raise_unless_others_are_up()
            return None

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """See `Store`; a value past the bound is refused, and a life past 30 days ends by then."""
        if not ttl > 0:
            await self.delete(key)
            return
        server = self._server(key)
        try:
            await self._put(server, key, value, ttl=ttl, tags=sorted(set(map(tag_digest, tags))))
        except ServerDown:
            self._raise_unless_others_are_up()

    async def delete(self, key: bytes) -> bool:
        """See `Store`."""
        server = self._server(key)
        epoch, items = await server.read(lambda epoch: self._names.entry(epoch, key))
        record = unpack(key, items[0].value) if items and items[0].kind == b"VA" else None
        live = record is not None and record.expires_at > self._clock.now()
        if record is not None and live and record.tags:
            live = await self._tags_hold(server, epoch, record)
        gone = [remove(self._names.entry(epoch, key))] if epoch else []
        await self._told(server, *gone, self._count_removal())
        return live

    async def delete_tag(self, tag: str) -> int:
        """See `SupportsTags`; it takes effect before the entries are counted."""
        return await self._everywhere(partial(self._delete_tag, tag_digest(tag)))

    async def clear(self) -> int:
        """See `Store`; it takes effect before the entries are counted."""
        return await self._everywhere(self._clear)

    async def epoch(self) -> int:
        """See `SupportsEpoch`; a server that is down counts as it was last seen."""
        asked = await asyncio.gather(*map(self._removals_of, self._servers), return_exceptions=True)
        faults = [each for each in asked if isinstance(each, BaseException)]
        if len(faults) == len(asked) or not all(isinstance(each, StoreError) for each in faults):
            raise faults[0]
        return sum(self._removals.values())

    async def stats(self) -> StoreStats:
        """See `Store`; of the servers that are up, with the tags as part of the values.

        A large census is taken again only after a hundred times as long as it took.
        """
        up = [server for server in self._servers if server.up] or self._servers
        held = await asyncio.gather(*map(self._held, up))
        size = sum(size for _, size in held)
        return StoreStats(entries=sum(entries for entries, _ in held), size=Bytes(size))

    async def close(self) -> None:
        """See `Store`."""
        for server in self._servers:
            await server.close()

    def statistics(self) -> Mapping[str, float]:
        """See `Statistics`."""
        return {
            "servers": len(self._servers),
            "servers_up": sum(server.up for server in self._servers),
            "connections_lost": sum(server.reconnects for server in self._servers),
            "unreadable": self._unreadable,
        }

    def _server(self, key: bytes) -> MemcachedServer:
        if len(self._servers) == 1:
            return self._servers[0]
        return self._servers[self._ring.number_of(key)]

    def _raise_unless_others_are_up(self) -> None:
        """Inside an except clause: one server's fault must not make the others be left alone."""
        if not any(server.up for server in self._servers):
            raise  # noqa: PLE0704 - the fault that is being handled

    async def _whole(self, server: MemcachedServer, epoch: bytes, record: Record) -> bytes | None:
        """The value when all its tags hold and all its pieces are there; one round trip."""
        names = [self._names.tag(epoch, tag) for tag, _ in record.tags]
        blob = record.blob
        names += [self._names.piece(epoch, blob, number) for number in range(len(record.pieces))]
        replies = await server.ask(*map(get, names))
        marks = [reply.value for reply in replies[: len(record.tags)]]
        if marks != [mark for _, mark in record.tags]:
            return None
        if not record.pieces:
            return record.inline
        pieces = [reply.value for reply in replies[len(record.tags) :]]
        if tuple(map(digest, pieces)) != record.pieces:
            self._of_no_use("piece")
            return None
        return b"".join(pieces)

    async def _tags_hold(self, server: MemcachedServer, epoch: bytes, record: Record) -> bool:
        replies = await server.ask(*(get(self._names.tag(epoch, tag)) for tag, _ in record.tags))
        return [reply.value for reply in replies] == [mark for _, mark in record.tags]

    def _of_no_use(self, reason: str) -> None:
        self._unreadable += 1
        self._sink.emit(Unreadable("store", reason))

    async def _put(
        self,
        server: MemcachedServer,
        key: bytes,
        value: bytes,
        *,
        ttl: Seconds,
        tags: Sequence[bytes],
    ) -> None:
        ends = self._clock.now() + ttl
        life = math.ceil(min(ttl + SLOW, LONGEST_LIFE))
        epoch, marks = await self._marks(server, tags)
        room = self._piece - HEAD_BYTES - 28 * len(tags)
        if len(value) > self._url.largest or room < LEAST_PIECE:
            await self._refuse(server, self._names.entry(epoch, key))
            return
        blob, pieces = 0, []
        if len(value) > room:
            blob, pieces = int.from_bytes(os.urandom(8), "big"), split(value, self._piece)
        item = pack(key, pieces or value, expires_at=ends, tags=marks, blob=blob)
        commands = [
            put(self._names.piece(epoch, blob, number), piece, b"T%d" % life)
            for number, piece in enumerate(pieces)
        ]
        flags = b"T%d F%d" % (life, bloom(tags))
        replies = await server.ask(*commands, put(self._names.entry(epoch, key), item, flags))
        if fault := failed(replies):
            await self._refuse(server, self._names.entry(epoch, key))
            if "too large" not in fault:
                raise StoreError(f"{server.address}: {fault}")

    async def _refuse(self, server: MemcachedServer, name: bytes) -> None:
        """Not stored, and what was there before is replaced by nothing."""
        await server.ask(remove(name))
        self._sink.emit(AdmissionRefused("store_limit"))

    async def _marks(
        self, server: MemcachedServer, tags: Sequence[bytes]
    ) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """The namespace's epoch, and that of each tag, begun where there is none."""
        epoch, items = await server.found(*(partial(self._names.tag, tag=tag) for tag in tags))
        marks = []
        for tag, item in zip(tags, items, strict=True):
            sound = len(item.value) == EPOCH_BYTES  # only compared, so any letters will do
            mark = item.value if sound else await server.begin(self._names.tag(epoch, tag))
            marks.append((tag, mark))
        return epoch, marks

    async def _delete_tag(self, tag: bytes, server: MemcachedServer) -> int:
        epoch, items = await server.read(partial(self._names.tag, tag=tag))
        mark = await server.begin(self._names.tag(epoch, tag), anew=True) if epoch else b""
        await self._told(server, self._count_removal())
        if not (items and items[0].value):
            return 0
        return await self._census.sweep(server, epoch, Swept(tag, items[0].value, mark))

    async def _clear(self, server: MemcachedServer) -> int:
        before, _ = await server.read()
        await server.begin(self._names.epoch, anew=True)
        server.forget_epoch()
        await self._told(server, self._count_removal())
        return await self._census.count(server, before) if before else 0

    async def _held(self, server: MemcachedServer) -> tuple[int, int]:
        epoch, _ = await server.read()
        return await self._census.held(server, epoch) if epoch else (0, 0)

    async def _removals_of(self, server: MemcachedServer) -> None:
        (reply,) = await server.ask(get(self._names.removals))
        if not reply.value.isdigit():
            (reply,) = await server.ask(self._count_removal())
        self._removals[server] = int(reply.value) if reply.value.isdigit() else 0

    def _count_removal(self) -> Command:
        """A counter that was lost begins by the clock, beyond where it can have been."""
        began = int(self._clock.now() * 1e6)
        return Command(b"ma %b N0 J%d D1 v" % (self._names.removals, began))

    async def _told(self, server: MemcachedServer, *commands: Command) -> None:
        if fault := failed(await server.ask(*commands)):
            raise StoreError(f"{server.address}: {fault}")

    async def _everywhere(self, act: Callable[[MemcachedServer], Awaitable[int]]) -> int:
        entries = sum(await self._all(act))
        if entries:
            self._sink.emit(Evicted("store", "cleared", entries))
        return entries

    async def _all(self, act: Callable[[MemcachedServer], Awaitable[T]]) -> list[T]:
        """What all servers gave; a fault of one is raised when all others are done."""
        done = await asyncio.gather(*map(act, self._servers), return_exceptions=True)
        for each in done:
            if isinstance(each, BaseException):
                raise each
        return [each for each in done if not isinstance(each, BaseException)]


def open_memcached(
    url: str,
    *,
    clock: Clock,
    sink: Sink,
    max_bytes: int,  # noqa: ARG001 - the servers have bounds of their own
    data_dir: Path,  # noqa: ARG001 - nothing is written here
) -> MemcachedStore:
    """Open `memcached://host:port,host:port?namespace=name`; connects with the first call."""
    return MemcachedStore(parse_url(url), clock=clock, sink=sink)
