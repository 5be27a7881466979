"""Tier 2: the answer to the very same request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.canonical.entry import Entry, seal, unseal
from askonce.events import Evicted
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.ports import Clock, HotCache, Sink, Store


class ExactTier:
    """Entries by exact key: a hot copy in the process, the store behind it."""

    def __init__(self, store: Store, hot: HotCache[Entry], *, clock: Clock, sink: Sink) -> None:
        """Build over a store and a hot cache that nobody else writes to."""
        self._store = store
        self._hot = hot
        self._clock = clock
        self._sink = sink

    def peek(self, key: bytes) -> Entry | None:
        """The hot copy, if there is one; no I/O."""
        return self._hot.get(key, self._clock.now())

    async def find(self, key: bytes) -> Entry | None:
        """The stored entry; raises StoreError, EntryUnreadable."""
        sealed = await self._store.get(key)
        if sealed is None:
            return None
        entry = unseal(key, sealed)
        self._warm(entry, len(sealed))
        return entry

    def hold(self, entry: Entry) -> bytes:
        """Make the entry hot at once; returns its sealed form for `keep`."""
        sealed = seal(entry)
        self._warm(entry, len(sealed))
        return sealed

    async def keep(self, entry: Entry, sealed: bytes) -> None:
        """Store the entry for the longer of its two lives; raises StoreError."""
        ttl = Seconds(_end(entry) - self._clock.now())
        await self._store.put(entry.key, sealed, ttl=ttl, tags=entry.tags)

    async def forget(self, key: bytes) -> bool:
        """Remove one entry; returns whether a live one was there; raises StoreError."""
        self._hot.discard(key)
        return await self._store.delete(key)

    def cool(self) -> None:
        """Drop every hot copy, because entries were taken from the store."""
        self._hot.clear()

    def _warm(self, entry: Entry, size: int) -> None:
        # The decoded entry holds its own bytes plus as much again in objects and keys.
        left = self._hot.put(entry.key, entry, size + 512, _end(entry))
        if left:
            self._sink.emit(Evicted("hot", "capacity", left))


def _end(entry: Entry) -> float:
    return max(entry.exact_until, entry.semantic_until)
