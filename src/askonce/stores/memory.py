"""A store in this process's memory: gone with it, seen by no other."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import StoreError
from askonce.events import Evicted, HeldBytes
from askonce.ports import Owned, Owner, Put, Revocation, RevocationPage, StoreStats
from askonce.units import Bytes, UnixTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Literal

    from askonce.ports import Clock, Sink
    from askonce.units import Seconds

OVERHEAD = 500
"""Bytes that an entry costs besides its value and tags."""


class _Kept(msgspec.Struct, frozen=True, gc=False):
    value: bytes
    expires_at: UnixTime
    tags: frozenset[str]
    owner: Owner | None = None

    @property
    def cost(self) -> int:
        return len(self.value) + sum(map(len, self.tags)) + OVERHEAD


class Holding:
    """What one owner has."""

    __slots__ = ("keys", "values")

    def __init__(self) -> None:
        """Nothing."""
        self.keys: dict[bytes, int] = {}
        """In the order they were put, each with its place in that of all."""
        self.values = 0

    def add(self, key: bytes, place: int, size: int) -> None:
        """One more entry, which was not there."""
        self.keys[key] = place
        self.values += size


class MemoryStore:
    """A `Store` with tags and epoch, bounded by bytes, that evicts what was used longest ago.

    No call waits for anything. Bytes of keys, tags and bookkeeping count towards the bound.
    """

    def __init__(self, *, clock: Clock, sink: Sink, max_bytes: int) -> None:
        """Start empty."""
        self._clock = clock
        self._sink = sink
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._tagged: dict[str, set[bytes]] = {}
        self._owned: dict[Owner, Holding] = {}
        self._ends: list[tuple[UnixTime, bytes]] = []
        self._values = 0
        self._cost = 0
        self._epoch = 0
        self._puts = 0
        self._evicted = 0
        self._closed = False

    async def get(self, key: bytes) -> bytes | None:
        """See `Store`; also makes the entry the youngest."""
        self._check_open()
        kept = self._kept.get(key)
        if kept is None or kept.expires_at <= self._clock.now():
            return None
        self._kept.move_to_end(key)
        return kept.value

    def surely_absent(self, key: bytes) -> bool:
        """See `SupportsAbsence`; exact."""
        return not self._closed and key not in self._kept

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """See `Store`; a value larger than the bound is not kept."""
        self._put(Put(key, value, ttl, tuple(tags)))

    async def put_many(self, puts: Sequence[Put]) -> None:
        """See `SupportsPutMany`; worth it since nobody then waits for any of them."""
        for each in puts:
            self._put(each)

    async def delete(self, key: bytes) -> bool:
        """See `Store`."""
        self._begin_removal()
        return self._remove((key,)) == 1

    async def delete_tag(self, tag: str) -> int:
        """See `SupportsTags`."""
        self._begin_removal()
        return self._report(self._remove(tuple(self._tagged.get(tag, ()))), "cleared")

    async def clear(self) -> int:
        """See `Store`."""
        self._begin_removal()
        return self._report(self._forget_all(), "cleared")

    async def owned(self, limit: int) -> list[Owned]:
        """See `SupportsOwners`."""
        self._check_open()
        self._purge()
        held = [
            Owned(owner, len(each.keys), Bytes(each.values)) for owner, each in self._owned.items()
        ]
        return sorted(held, key=lambda each: -each.size)[:limit]

    async def epoch(self) -> int:
        """See `SupportsEpoch`; no other process sees this store."""
        self._check_open()
        return self._epoch

    async def stats(self) -> StoreStats:
        """See `Store`."""
        self._check_open()
        self._purge()
        return StoreStats(entries=len(self._kept), size=Bytes(self._values))

    async def close(self) -> None:
        """See `Store`."""
        self._closed = True
        self._forget_all()

    def statistics(self) -> Mapping[str, float]:
        """See `Statistics`."""
        return {"entries": len(self._kept), "bytes": self._cost, "evicted": self._evicted}

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    def _begin_removal(self) -> None:
        self._check_open()
        self._purge()
        self._epoch += 1

    def _put(self, put: Put) -> None:
        self._check_open()
        self._purge()
        self._remove((put.key,))
        if not put.ttl > 0:
            self._epoch += 1
            return
        ends = UnixTime(self._clock.now() + put.ttl)
        kept = _Kept(put.value, ends, frozenset(put.tags), put.owner)
        share = put.share if put.owner is not None else 0
        if kept.cost > self._max_bytes or len(put.value) > share > 0:
            self._report(1, "capacity" if kept.cost > self._max_bytes else "tenant")
            return
        self._insert(put.key, kept)
        if put.owner is not None and share:
            self._keep_share(put.owner.tenant, share)
        self._make_room()

    def _keep_share(self, tenant: str, share: int) -> None:
        """Let the tenant's oldest leave, whatever their namespace."""
        left = 0
        while held := [each for owner, each in self._owned.items() if owner.tenant == tenant]:
            if sum(each.values for each in held) <= share:
                break
            oldest = min((next(iter(each.keys.items())) for each in held), key=lambda item: item[1])
            left += self._remove((oldest[0],))
        self._report(left, "tenant")

    def _insert(self, key: bytes, kept: _Kept) -> None:
        self._kept[key] = kept
        self._values += len(kept.value)
        self._cost += kept.cost
        if kept.owner is not None:
            self._puts += 1
            self._owned.setdefault(kept.owner, Holding()).add(key, self._puts, len(kept.value))
        for tag in kept.tags:
            self._tagged.setdefault(tag, set()).add(key)
        heapq.heappush(self._ends, (kept.expires_at, key))
        if len(self._ends) > 2 * len(self._kept) + 64:
            self._ends = [(kept.expires_at, key) for key, kept in self._kept.items()]
            heapq.heapify(self._ends)

    def _remove(self, keys: Iterable[bytes]) -> int:
        removed = 0
        for key in keys:
            kept = self._kept.pop(key, None)
            if kept is not None:
                removed += 1
                self._values -= len(kept.value)
                self._cost -= kept.cost
                self._untag(key, kept.tags)
                self._disown(key, kept)
        return removed

    def _untag(self, key: bytes, tags: frozenset[str]) -> None:
        for tag in tags:
            holders = self._tagged[tag]
            holders.discard(key)
            if not holders:
                del self._tagged[tag]

    def _disown(self, key: bytes, kept: _Kept) -> None:
        if kept.owner is not None:
            holding = self._owned[kept.owner]
            del holding.keys[key]
            holding.values -= len(kept.value)
            if not holding.keys:
                del self._owned[kept.owner]

    def _purge(self) -> None:
        now = self._clock.now()
        expired = 0
        while self._ends and self._ends[0][0] <= now:
            _, key = heapq.heappop(self._ends)
            kept = self._kept.get(key)
            if kept is not None and kept.expires_at <= now:
                expired += self._remove((key,))
        self._report(expired, "expired")

    def _make_room(self) -> None:
        left = 0
        while self._cost > self._max_bytes:
            left += self._remove((next(iter(self._kept)),))
        self._report(left, "capacity")

    def _forget_all(self) -> int:
        count = len(self._kept)
        self._kept.clear()
        self._tagged.clear()
        self._owned.clear()
        self._ends.clear()
        self._values = self._cost = 0
        return count

    def _report(
        self, entries: int, cause: Literal["capacity", "tenant", "expired", "cleared"]
    ) -> int:
        if entries:
            self._evicted += entries
            self._sink.emit(Evicted(part="store", cause=cause, entries=entries))
            self._sink.emit(
                HeldBytes(part="store", size=Bytes(self._cost), entries=len(self._kept))
            )
        return entries


class MemoryRevocations:
    """A `RevocationLog` of one process: what was stored before it began is dead to it."""

    def __init__(self, *, clock: Clock) -> None:
        """Begin past every log before this one."""
        self._birth = int(clock.now() * 1_000_000)
        self._rules: list[Revocation] = []
        self._closed = False

    async def append(self, rule: Revocation) -> int:
        """See `RevocationLog`."""
        self._check_open()
        seq = self._birth + len(self._rules) + 1
        self._rules.append(msgspec.structs.replace(rule, seq=seq))
        return seq

    async def read(self, after: int, limit: int) -> RevocationPage:
        """See `RevocationLog`."""
        self._check_open()
        first = max(after - self._birth, 0)
        rules = tuple(self._rules[first : first + limit])
        return RevocationPage(self._birth, self._birth + len(self._rules), rules)

    async def close(self) -> None:
        """See `RevocationLog`."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the revocation log is closed")


def open_memory(
    url: str,  # noqa: ARG001 - it has nothing more to say
    *,
    clock: Clock,
    sink: Sink,
    max_bytes: int,
    data_dir: Path,  # noqa: ARG001 - nothing is written
) -> MemoryStore:
    """Open `memory`."""
    return MemoryStore(clock=clock, sink=sink, max_bytes=max_bytes)


def open_memory_revocations(
    url: str,  # noqa: ARG001 - every opener has the same face
    *,
    clock: Clock,
    sink: Sink,  # noqa: ARG001
    data_dir: Path,  # noqa: ARG001
) -> MemoryRevocations:
    """A log for one process."""
    return MemoryRevocations(clock=clock)
