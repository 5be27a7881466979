"""The store over Redis or Valkey."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

from askonce.errors import EntryUnreadable, StoreError
from askonce.events import Evicted
from askonce.ports import Put, StoreStats
from askonce.stores.redis import scripts
from askonce.stores.redis.address import read_url
from askonce.stores.redis.calls import Calls
from askonce.stores.redis.flights import Flights
from askonce.stores.redis.frame import MOST_TAGS, Foreign, build, open_frame, tag_digest
from askonce.stores.redis.wire import Refused, pack
from askonce.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from askonce.ports import Clock, Followed, Lead, Sink
    from askonce.stores.redis.address import Target
    from askonce.units import Seconds

    Changed = Callable[[Sequence[bytes] | None], None]

FRONT = 24
"""Bytes that the scripts put before a frame."""
BATCH = 64 * 1024 * 1024
"""Bytes of values that are put at once."""
UNWATCHED = 1.0
"""Seconds that a copy may be held while nobody tells what others change."""
LONGEST = 10 * 365 * 86400.0
"""Seconds of the longest life; the server counts milliseconds."""


class RedisStore:
    """A `Store` with tags and epoch that many processes share; create it inside a running loop.

    The server's `maxmemory` bounds it. A life ends by the server's clock or by ours, whichever
    says so first. Counts are exact up to what the server evicts, and an entry is counted for at
    most 1/256 of its life too long.
    """

    def __init__(self, target: Target, *, clock: Clock, sink: Sink) -> None:
        """Begin to connect; calls wait for that, and no longer than their deadlines."""
        self._clock = clock
        self._sink = sink
        self._calls = Calls(target, told=self._told, moved=self._moved)
        self._flights = Flights(self._calls, clock)
        self._names = self._calls.names
        self._gets = [
            b"*3\r\n$4\r\nMGET\r\n$%d\r\n%s\r\n" % (len(name), name)
            for name in self._names.generation
        ]
        self._changed: Changed | None = None
        self._cooling: asyncio.TimerHandle | None = None
        self._unreadable = 0

    async def get(self, key: bytes) -> bytes | None:
        """See `Store`; one round trip."""
        calls, partition = self._calls, self._names.partition(key)
        connection = calls.nodes.ready(partition) or await calls.connection(partition)
        name = self._names.entries[partition] + key
        command = b"%s$%d\r\n%s\r\n" % (self._gets[partition], len(name), name)
        try:
            reply = await connection.call(command)
        except Refused:
            reply = await calls.ask(partition, command)
        try:
            return self._open(key, reply)
        except Foreign:
            connection.fail("the server speaks garbage: another's reply")
            raise
        except EntryUnreadable:
            self._unreadable += 1
            raise

    def _open(self, key: bytes, reply: object) -> bytes | None:
        if not isinstance(reply, list) or len(reply) != 2:
            raise Foreign("the server speaks garbage: another's reply")
        generation, value = reply
        if generation is None or value is None:
            return None
        if not isinstance(generation, bytes) or not isinstance(value, bytes):
            raise Foreign("the server speaks garbage: another's reply")
        if value[:8] != generation:
            return None
        return open_frame(key, value, self._clock.now(), start=FRONT)

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """See `Store`."""
        if not ttl > 0:
            await self.delete(key)
            return
        await self.put_many([Put(key, value, ttl, tuple(tags))])

    async def put_many(self, puts: Sequence[Put]) -> None:
        """See `SupportsPutMany`; in a cluster all or none of each partition."""
        if sum(len(each.value) for each in puts) > BATCH:
            raise StoreError("too many bytes to be put at once")
        groups: dict[int, list[Put]] = {}
        for each in puts:
            groups.setdefault(self._names.partition(each.key), []).append(each)
        try:
            await asyncio.gather(*(self._put(*group) for group in groups.items()))
        finally:
            for each in puts:
                self._flights.put(each.key)

    async def _put(self, partition: int, puts: Sequence[Put]) -> None:
        now, keys, args = self._clock.now(), [], [b"%d" % len(puts)]
        for each in puts:
            tags = list(dict.fromkeys(map(tag_digest, each.tags)))
            if len(tags) > MOST_TAGS:
                raise StoreError(f"an entry has at most {MOST_TAGS} tags")
            life = min(each.ttl, LONGEST)
            frame = build(each.key, each.value, now + life, tags)
            flight, fence = self._flights.fence(each.key)
            keys += [
                self._names.entries[partition] + each.key,
                self._names.lease(partition, flight),
                *(self._names.tag(partition, tag) for tag in tags),
            ]
            numbers = math.ceil(life * 1000), len(each.value), fence, len(tags)
            args += [each.key, *(b"%d" % number for number in numbers), frame, *tags]
        await self._calls.run(scripts.PUT, partition, keys, args)

    async def board(
        self, key: bytes, flight: bytes, *, look: bool
    ) -> bytes | Lead | Followed | None:
        """See `SupportsFlights`; an entry that cannot be read is as good as none."""
        berth = await self._flights.board(key, flight, look=look)
        if not isinstance(berth, tuple):
            return berth
        try:
            value = self._open(key, [*berth])
        except EntryUnreadable:
            value = None
        if value is None:
            berth = await self._flights.board(key, flight, look=False)
            return None if isinstance(berth, tuple) else berth
        return value

    async def delete(self, key: bytes) -> bool:
        """See `Store`."""
        partition = self._names.partition(key)
        name = self._names.entries[partition] + key
        (was,) = await self._calls.run(scripts.DELETE, partition, [name], [])
        self._tell([key])
        return bool(was)

    async def delete_tag(self, tag: str) -> int:
        """See `SupportsTags`; 500 entries at a time, so that other callers wait no longer.

        An entry that was put before is gone when this returns. A deletion that broke off is
        taken up by the next one of the same tag.
        """
        parts = range(self._calls.nodes.partitions)
        digest = tag_digest(tag)
        gone = sum(await asyncio.gather(*(self._delete_tag(part, digest) for part in parts)))
        return self._cleared(gone)

    async def _delete_tag(self, partition: int, tag: bytes) -> int:
        names = self._names
        keys = [names.tag(partition, tag), names.doomed(partition, tag)]
        gone, left, first = 0, 1, b"1"
        while left:
            args = [tag, names.entries[partition], first]
            some, left = await self._calls.run(scripts.DELETE_TAG, partition, keys, args)
            gone, first = gone + some, b"0"
        return gone

    async def clear(self) -> int:
        """See `Store`; a new generation: the server's memory comes back as lives end."""
        counts = await self._calls.everywhere(scripts.CLEAR, _nothing)
        return self._cleared(sum(count for (count,) in counts))

    async def epoch(self) -> int:
        """See `SupportsEpoch`."""
        states = self._names.state
        asked = [
            self._calls.ask(p, pack("HGET", states[p], "removals")) for p in range(len(states))
        ]
        try:
            return sum(int(cast("bytes", found or 0)) for found in await asyncio.gather(*asked))
        except (TypeError, ValueError):
            raise StoreError("the server speaks garbage: no epoch") from None

    async def stats(self) -> StoreStats:
        """See `Store`; from counters."""
        counts = await self._calls.everywhere(scripts.STATS, _nothing)
        entries, size = (sum(column) for column in zip(*counts, strict=True))
        return StoreStats(entries=entries, size=Bytes(size))

    async def close(self) -> None:
        """See `Store`."""
        if self._cooling is not None:
            self._cooling.cancel()
        await self._flights.close()
        await self._calls.close()

    def watch(self, changed: Changed) -> None:
        """See `SupportsWatch`."""
        self._changed = changed
        self._moved()

    def statistics(self) -> Mapping[str, float]:
        """See `Statistics`."""
        return {"watching": self._calls.nodes.watching(), "unreadable": self._unreadable}

    def _told(self, message: list[Any]) -> None:
        match message:
            case [b"invalidate", None]:
                self._tell(None)
            case [b"invalidate", list(names)]:
                self._tell_names(names)

    def _tell_names(self, names: list[bytes]) -> None:
        keys = []
        for name in names:
            kind, rest = self._names.read(name)
            if kind == "e":
                keys.append(rest)
            elif kind == "g":
                self._tell(None)
            else:
                self._flights.told(rest)
        if keys:
            self._tell(keys)

    def _tell(self, keys: Sequence[bytes] | None) -> None:
        if self._changed is not None:
            self._changed(keys)

    def _moved(self) -> None:
        """Links came or went: what changed meanwhile is unknown, and while one is away as well."""
        if self._cooling is not None:
            self._cooling.cancel()
            self._cooling = None
        if self._changed is None or self._calls.closed:
            return
        self._changed(None)
        if not self._calls.nodes.watching():
            loop = asyncio.get_running_loop()
            self._cooling = loop.call_later(UNWATCHED / 2, self._moved)

    def _cleared(self, entries: int) -> int:
        self._tell(None)
        if entries:
            self._sink.emit(Evicted(part="store", cause="cleared", entries=entries))
        return entries


def _nothing(_partition: int) -> list[bytes]:
    return []


def open_redis(
    url: str,
    *,
    clock: Clock,
    sink: Sink,
    max_bytes: int,  # noqa: ARG001 - the server has its own bound
    data_dir: Path,  # noqa: ARG001 - nothing is written here
) -> RedisStore:
    """Open a URL of Redis or Valkey; connects behind the call."""
    return RedisStore(read_url(url), clock=clock, sink=sink)
