"""One engine call for all replicas: a lease with a fence, and the leader's pieces in a stream.

A leader renews its lease while it works. It relays nothing until somebody follows, then all from
the first piece on. A follower hears of pieces by the server's notice of the changed key, and looks
now and then in case that was lost. When the lease ends without an end in the stream, the leader is
gone: whoever boards next gets a higher fence.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import StoreError
from askonce.stores.redis import scripts
from askonce.stores.redis.frame import build, open_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.ports import Clock
    from askonce.stores.redis.calls import Calls

LEASE = 1.0
"""Seconds after which a leader that says nothing is replaced."""
BEAT = 0.3
"""Seconds between two signs of life of a leader."""
LOOK = 0.2
"""Seconds until a follower looks again without having been told to."""
KEPT = 3.0
"""Seconds that a landed flight waits for its answer to be put."""
CAPACITY = 8 * 1024 * 1024
"""Bytes of pieces that are kept for followers; past it nobody new may follow."""
MOST_HELD = 2 * CAPACITY
"""Bytes of pieces that wait for the server to take them; past it nobody is led any more."""
BATCH = 256 * 1024
"""Bytes of pieces relayed at once, about."""
LIFE = 60.0
"""Seconds for which relayed pieces can be read at most; the server drops them earlier."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bool, list[bytes]]).decode


class Flights:
    """All flights that this process leads or follows."""

    def __init__(self, calls: Calls, clock: Clock) -> None:
        """Over the calls of a store."""
        self._calls = calls
        self._clock = clock
        self._leads: dict[bytes, set[RedisLead]] = {}
        self._heard: dict[bytes, set[Callable[[], None]]] = {}
        self._boarding: set[asyncio.Task[Berth]] = set()

    async def board(self, key: bytes, flight: bytes, *, look: bool) -> Berth:
        """See `SupportsFlights`; a live value comes with its generation.

        A lead that nobody waits for any more when it is given is given back at once.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._board(key, flight, look=look))
        self._boarding.add(task)
        task.add_done_callback(self._boarding.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_disembark)
            raise

    async def _board(self, key: bytes, flight: bytes, *, look: bool) -> Berth:
        names, partition = self._calls.names, self._calls.names.partition(key)
        base = names.flight(partition, flight)
        keys = [names.entries[partition] + key, names.lease(partition, flight), base + b":w"]
        args = [b"1" if look else b"0", b"%d" % (LEASE * 1000)]
        how, *rest = await self._calls.run(scripts.BOARD, partition, keys, args)
        place = Place(key, flight, partition, keys[1], base, rest[0] if rest else b"")
        match how:
            case b"entry":
                return rest[0], rest[1]
            case b"lead":
                lead = RedisLead(self._calls, self._clock, place, self._left)
                self._leads.setdefault(key, set()).add(lead)
                self._listen(flight, lead.wished)
                return lead
            case b"follow":
                followed = RedisFollowed(self._calls, self._clock, place, self._unlisten)
                self._listen(flight, followed.wake)
                return followed
        return None

    def told(self, name: bytes) -> None:
        """A key of a flight has changed; name: what stands after the partition."""
        for wake in tuple(self._heard.get(name[:32], ())):
            wake()

    def fence(self, key: bytes) -> tuple[bytes, int]:
        """The flight and the fence under which the key is put; 0 outside any flight."""
        leads = self._leads.get(key)
        if not leads:
            return b"", 0
        newest = max(leads, key=lambda lead: lead.fence)
        return newest.place.flight, newest.fence

    def put(self, key: bytes) -> None:
        """The key's value has been put, or will not be."""
        for lead in tuple(self._leads.get(key, ())):
            lead.settle()

    async def close(self) -> None:
        """Release all leases."""
        for task in self._boarding:
            task.cancel()
        leads = [lead for each in self._leads.values() for lead in each]
        for lead in leads:
            lead.end(kept=False)
        if leads:
            await asyncio.wait([lead.task for lead in leads], timeout=LEASE)
            for lead in leads:
                lead.task.cancel()
            await asyncio.wait([lead.task for lead in leads])

    def _listen(self, flight: bytes, wake: Callable[[], None]) -> None:
        self._heard.setdefault(flight, set()).add(wake)

    def _unlisten(self, flight: bytes, wake: Callable[[], None]) -> None:
        listeners = self._heard.get(flight, set())
        listeners.discard(wake)
        if not listeners:
            self._heard.pop(flight, None)

    def _left(self, lead: RedisLead) -> None:
        place = lead.place
        self._unlisten(place.flight, lead.wished)
        leads = self._leads.get(place.key, set())
        leads.discard(lead)
        if not leads:
            self._leads.pop(place.key, None)


class Place(msgspec.Struct, frozen=True):
    """Where a flight is in the server."""

    key: bytes
    flight: bytes
    partition: int
    lease: bytes
    base: bytes
    fence: bytes

    @property
    def wish(self) -> bytes:
        """The key by which a follower asks the leader to relay."""
        return self.base + b":w"

    @property
    def stream(self) -> bytes:
        """The key of the pieces."""
        return self.base + b":x:" + self.fence

    def bound(self, number: int) -> bytes:
        """What a batch's digest binds it to."""
        return b"%s %s %d" % (self.flight, self.fence, number)


class RedisLead:
    """See `Lead`; its task keeps the lease, and relays where that is wished."""

    def __init__(
        self, calls: Calls, clock: Clock, place: Place, left: Callable[[RedisLead], None]
    ) -> None:
        """Begin to keep the lease."""
        self.place = place
        self.fence = int(place.fence)
        self._calls = calls
        self._clock = clock
        self._left = left
        self._pieces: list[bytes] = []
        self._size = self._held = 0
        self._number = 1
        self._sizes: list[int] = []
        self._wished = self._closed = self._ended = self._settled = False
        self._stirred = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._until = float("inf")
        self._beat_at = loop.time() + BEAT
        self.task = loop.create_task(self._keep())

    def tell(self, piece: bytes) -> None:
        """See `Lead`."""
        if self._ended or (self._closed and not self._wished):
            return
        if self._held > MOST_HELD:  # the server takes none of it: followers help themselves
            self._pieces.clear()
            self.end(kept=False)
            return
        self._pieces.append(piece)
        self._size += len(piece)
        self._held += len(piece)
        if self._size > CAPACITY and not self._closed:
            self._closed, self._beat_at = True, 0.0
            if not self._wished:
                self._pieces.clear()
        if self._wished or self._closed:
            self._stirred.set()

    def end(self, *, kept: bool) -> None:
        """See `Lead`."""
        if not self._ended:
            self._ended = True
            self._settled = self._settled or not kept
            self._until = asyncio.get_running_loop().time() + KEPT
            self._stirred.set()

    def settle(self) -> None:
        """The answer has been put, or will not be."""
        self._settled = True
        self._stirred.set()

    def wished(self) -> None:
        """Perhaps somebody follows."""
        if not self._wished:
            self._beat_at = 0.0
            self._stirred.set()

    async def _keep(self) -> None:
        """Runs until the flight has landed and its answer is put."""
        loop = asyncio.get_running_loop()
        try:
            while not await self._done(loop.time()):
                pause = max(min(self._beat_at, self._until) - loop.time(), 0)
                try:
                    async with asyncio.timeout(pause):
                        await self._stirred.wait()
                except TimeoutError:
                    pass
                self._stirred.clear()
        finally:
            self._left(self)

    async def _done(self, now: float) -> bool:
        try:
            if now >= self._beat_at:
                self._beat_at = now + BEAT
                await self._beat(LEASE)
            if self._wished:
                await self._relay()
            if self._ended and (self._settled or now >= self._until):
                await self._release()
                return True
        except StoreError:  # no word to others: they help themselves
            return self._ended and (self._settled or now >= self._until)
        return False

    async def _release(self) -> None:
        """Give the lease back, unless a follower has come meanwhile who got nothing yet."""
        relayed = self._wished
        await self._beat(0)
        if self._wished and not relayed:
            await self._relay()
            await self._beat(0)

    async def _beat(self, life: float) -> None:
        place = self.place
        state = b"c" if self._closed else b"o"
        heard = b"1" if self._wished or self._closed else b"0"
        args = [place.fence, state, b"%d" % (life * 1000), heard]
        keys = [place.lease, place.wish]
        leads, wished = await self._calls.run(scripts.BEAT, place.partition, keys, args)
        if not leads:
            self._beat_at = float("inf")
        if wished and not self._closed:
            self._wished = True

    async def _relay(self) -> None:
        while self._pieces or (self._ended and self._sizes[-1:] != [0]):
            count = _upto(self._pieces, BATCH)
            pieces = self._pieces[:count]
            last = self._ended and count == len(self._pieces)
            await self._relay_one(pieces, last=last)
            del self._pieces[:count]
            self._held -= sum(map(len, pieces))
            self._number += 1
            self._sizes.append(0 if last else sum(map(len, pieces)))
            if last:
                return

    async def _relay_one(self, pieces: Sequence[bytes], *, last: bool) -> None:
        place = self.place
        data = _encode((last, pieces))
        frame = build(place.bound(self._number), data, self._clock.now() + LIFE, [])
        args = [b"%d" % self._number, b"%d" % self._oldest(), frame]
        await self._calls.run(scripts.RELAY, place.partition, [place.stream], args)

    def _oldest(self) -> int:
        """The first batch that is still kept, or 0 for all."""
        if not self._closed:
            return 0
        held, number = 0, self._number
        for size in reversed(self._sizes):
            held += size
            if held > CAPACITY:
                break
            number -= 1
        return number


class RedisFollowed:
    """See `Followed`."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        place: Place,
        unlisten: Callable[[bytes, Callable[[], None]], None],
    ) -> None:
        """Before the first piece."""
        self._calls = calls
        self._clock = clock
        self._place = place
        self._unlisten = unlisten
        self._read = 0
        self._last = False
        self._stirred = asyncio.Event()

    def wake(self) -> None:
        """Perhaps there is more."""
        self._stirred.set()

    def leave(self) -> None:
        """See `Followed`."""
        self._unlisten(self._place.flight, self.wake)

    async def read(self) -> Sequence[bytes]:
        """See `Followed`."""
        place = self._place
        while not self._last:
            self._stirred.clear()
            args = [place.fence, b"%d" % self._read]
            keys = [place.lease, place.stream]
            alive, batches = await self._calls.run(scripts.FOLLOW, place.partition, keys, args)
            try:
                pieces = [piece for batch in batches for piece in self._open(*batch)]
            except (TypeError, ValueError, msgspec.MsgspecError):
                raise StoreError("pieces of a flight cannot be read") from None
            if pieces:
                return pieces
            if batches:
                continue
            if not alive:
                raise StoreError("the leader of a flight is gone")
            try:
                async with asyncio.timeout(LOOK):
                    await self._stirred.wait()
            except TimeoutError:
                pass
        return []

    def _open(self, number: bytes, frame: bytes) -> list[bytes]:
        self._read += 1
        if int(number) != self._read:
            raise StoreError("pieces of a flight are gone already")
        bound = self._place.bound(self._read)
        data = open_frame(bound, frame, self._clock.now())
        if data is None:
            raise StoreError("pieces of a flight are too old")
        self._last, pieces = _decode(data)
        return pieces


Berth = tuple[bytes, bytes] | RedisLead | RedisFollowed | None


def _disembark(boarded: asyncio.Task[Berth]) -> None:
    if boarded.cancelled() or boarded.exception() is not None:
        return
    berth = boarded.result()
    if isinstance(berth, RedisLead):
        berth.end(kept=False)
    elif isinstance(berth, RedisFollowed):
        berth.leave()


def _upto(pieces: Sequence[bytes], limit: int) -> int:
    """How many pieces from the first on have about so many bytes; at least one."""
    size = 0
    for count, piece in enumerate(pieces):
        size += len(piece)
        if size > limit:
            return count + 1
    return len(pieces)
