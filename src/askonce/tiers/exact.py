"""Tier 2: the answer to the very same request."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from askonce.canonical.entry import Entry, seal, unseal
from askonce.events import Evicted
from askonce.ports import Owner, Put, SupportsAbsence, SupportsPutMany
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from askonce.ports import Clock, HotCache, Sink, Store


class ExactTier:
    """Entries by exact key: a hot copy in the process, the store behind it."""

    def __init__(
        self,
        store: Store,
        hot: HotCache[Entry],
        *,
        clock: Clock,
        sink: Sink,
        serves: Callable[[Entry], bool] | None = None,
        tenant_bytes: int = 0,
    ) -> None:
        """Build over a store and a hot cache that nobody else writes to.

        serves: whether nobody has taken an entry back; what was is as good as not there.
        tenant_bytes: of one tenant's entries at most, where the store counts them; 0 is no bound.
        """
        self._store = store
        self._hot = hot
        self._clock = clock
        self._sink = sink
        self._serves = serves or _always
        self._changes = 0
        self._tenant_bytes = tenant_bytes
        self._absent = store.surely_absent if isinstance(store, SupportsAbsence) else _perhaps_there

    @property
    def takes_many(self) -> bool:
        """Whether `keep_many` costs less than as many `keep`."""
        return isinstance(self._store, SupportsPutMany)

    def surely_absent(self, key: bytes) -> bool:
        """Whether `find` would find nothing; no I/O."""
        return self._absent(key)

    def peek(self, key: bytes) -> Entry | None:
        """The hot copy, if there is one; no I/O."""
        entry = self._hot.get(key, self._clock.now())
        return entry if entry is None or self._serves(entry) else None

    async def find(self, key: bytes) -> Entry | None:
        """The stored entry; raises StoreError, EntryUnreadable."""
        changes = self._changes
        sealed = await self._store.get(key)
        if sealed is None:
            return None
        entry = unseal(key, sealed)
        if not self._serves(entry):
            return None
        if changes == self._changes:  # else it may have been read before the change
            hot = self.peek(key)
            if hot is None or hot.created_at <= entry.created_at:
                self._warm(entry, len(sealed))
        return entry

    def serves(self, entry: Entry) -> bool:
        """Whether nobody has taken the entry back."""
        return self._serves(entry)

    def hold(self, entry: Entry) -> None:
        """Make the entry hot at once."""
        # Sealed, an entry is about as long as its answer and its question.
        self._warm(entry, len(entry.answer.rest) + len(entry.question) + _SEAL)

    async def keep(self, entry: Entry) -> None:
        """Store the entry for the longer of its two lives; raises StoreError."""
        ttl = Seconds(_end(entry) - self._clock.now())
        await self._store.put(entry.key, seal(entry), ttl=ttl, tags=entry.tags)

    async def keep_many(self, entries: Iterable[Entry]) -> None:
        """Store all or none; only where `takes_many`; raises StoreError."""
        store, now = cast("SupportsPutMany", self._store), self._clock.now()
        await store.put_many(
            [
                Put(
                    entry.key,
                    seal(entry),
                    Seconds(_end(entry) - now),
                    entry.tags,
                    Owner(entry.origin.tenant[:_TENANT], entry.origin.namespace),
                    self._tenant_bytes,
                )
                for entry in entries
                if _end(entry) > now
            ]
        )

    def cool(self) -> None:
        """Drop every hot copy, because entries were taken from the store."""
        self._changes += 1
        self._hot.clear()

    def changed(self, keys: Sequence[bytes] | None) -> None:
        """Drop the hot copies of what others changed; see `SupportsWatch`."""
        if keys is None:
            self.cool()
            return
        self._changes += 1
        for key in keys:
            self._hot.discard(key)

    def _warm(self, entry: Entry, size: int) -> None:
        # The decoded entry holds its own bytes plus as much again in objects and keys.
        left = self._hot.put(entry.key, entry, size + 512, _end(entry))
        if left:
            self._sink.emit(Evicted("hot", "capacity", left))


_TENANT = 16
"""Digits of a tenant's partition that a store counts it by."""
_SEAL = 256
"""Bytes of a sealed entry besides answer and question, about."""


def _always(_entry: Entry) -> bool:
    return True


def _perhaps_there(_key: bytes) -> bool:
    return False


def _end(entry: Entry) -> float:
    return max(entry.exact_until, entry.semantic_until)
