"""Bytes by key, and what stores can do beside that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import msgspec

from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class StoreStats(msgspec.Struct, frozen=True):
    """What a store holds."""

    entries: int
    size: Bytes


class Store(Protocol):
    """Bytes by key, each with an absolute end of life.

    A key is at most 64 bytes. Every call is atomic. Values come back exactly as put or not at all.
    """

    async def get(self, key: bytes) -> bytes | None:
        """Return the live value, or None; never mutates, never extends a life."""
        ...

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Set the value, its tags and its end of life, replacing all three; ttl <= 0 deletes."""
        ...

    async def delete(self, key: bytes) -> bool:
        """Remove one entry; returns whether a live one was there."""
        ...

    async def clear(self) -> int:
        """Remove every entry of this store's namespace; returns how many were live."""
        ...

    async def stats(self) -> StoreStats:
        """Count live entries and the bytes of their values."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent; later calls raise StoreError."""
        ...


@runtime_checkable
class SupportsTags(Protocol):
    """A store that can remove by tag."""

    async def delete_tag(self, tag: str) -> int:
        """Remove every entry that carries the tag; returns how many were live."""
        ...


@runtime_checkable
class SupportsEpoch(Protocol):
    """A store shared by processes that can tell them when entries were taken away."""

    async def epoch(self) -> int:
        """A number that grows with every delete, tag delete and clear by any process.

        Holders of copies drop them when it moves; puts do not move it.
        """
        ...


@runtime_checkable
class SupportsWatch(Protocol):
    """A store shared by processes that says at once what others change."""

    def watch(self, changed: Callable[[Sequence[bytes] | None], None]) -> None:
        """From now on tell keys that were put or taken away; None when any may have been.

        Own calls are told as well, those that take away before they return. While it cannot know
        what others do it says None at least once a second. One watcher; synchronous.
        """
        ...


@runtime_checkable
class SupportsAbsence(Protocol):
    """A store that can often tell without I/O that there is no entry."""

    def surely_absent(self, key: bytes) -> bool:
        """True when `get` would find nothing; False says nothing. Synchronous, never raises."""
        ...


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Whom an entry is counted for."""

    tenant: str
    """The caller's partition in hexadecimal digits, or the beginning of it."""
    namespace: str = ""


class Owned(msgspec.Struct, frozen=True):
    """What a store holds of one owner."""

    owner: Owner
    entries: int
    size: Bytes


class Put(msgspec.Struct, frozen=True):
    """One entry to be put."""

    key: bytes
    value: bytes
    ttl: Seconds
    """More than 0."""
    tags: tuple[str, ...] = ()
    owner: Owner | None = None
    """Whom it is counted for, where the store counts."""
    share: int = 0
    """Bytes that the owner's tenant may have; past it the oldest of its own leave. 0: any."""


@runtime_checkable
class SupportsPutMany(Protocol):
    """A store in which many puts at once cost less than each alone."""

    async def put_many(self, puts: Sequence[Put]) -> None:
        """Put all, in order, or none."""
        ...


@runtime_checkable
class SupportsOwners(Protocol):
    """A store that counts by owner, and keeps the shares of `Put`."""

    async def owned(self, limit: int) -> list[Owned]:
        """Owners with most bytes first; entries without an owner are not among them."""
        ...


V = TypeVar("V")


class HotCache(Protocol[V]):
    """A bounded cache inside the process, in front of a store; synchronous and without I/O."""

    def get(self, key: bytes, now: float) -> V | None:
        """The live value, or None; marks it as used."""

    def put(self, key: bytes, value: V, size: int, expires_at: float) -> int:
        """Keep a value of that many bytes; returns how many others had to leave."""

    def discard(self, key: bytes) -> None:
        """Drop one key; nothing happens when it is not there."""

    def clear(self) -> int:
        """Drop everything; returns how many entries there were."""
