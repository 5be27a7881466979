"""What a store that counts by owner must do, as a suite; see `testing.stores`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Protocol

from askonce.ports import Owned, Owner, Put, Store, SupportsOwners, SupportsPutMany
from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LONG = Seconds(3600.0)


class OwnersStore(Store, SupportsPutMany, SupportsOwners, Protocol):
    """A store that counts by owner."""


async def check_store_owners(
    make_store: Callable[[], OwnersStore | Awaitable[OwnersStore]],
) -> None:
    """Hold a store against `SupportsOwners` and the shares of `Put`."""
    for check in (_owners_are_counted, _a_share_is_the_tenants_own):
        made = make_store()
        store = await made if inspect.isawaitable(made) else made
        try:
            await store.clear()
            await check(store)
            await store.clear()
        finally:
            await store.close()


def _expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not kept:
        raise AssertionError(promise)


async def _put_for(store: OwnersStore, owner: Owner, key: bytes, size: int, share: int) -> None:
    await store.put_many([Put(key, b"x" * size, LONG, (), owner, share)])


async def _owners_are_counted(store: OwnersStore) -> None:
    one, other = Owner("1"), Owner("2", "notes")
    await _put_for(store, one, b"a", 100, 0)
    await _put_for(store, one, b"a", 10, 0)
    await _put_for(store, other, b"b", 300, 0)
    await _put_for(store, other, b"c", 5, 0)
    await store.put(b"nobody's", b"x" * 1000, ttl=LONG)
    _expect(
        await store.owned(9) == [Owned(other, 2, Bytes(305)), Owned(one, 1, Bytes(10))],
        "owners are counted apart, most bytes first, and entries without one are not",
    )
    _expect(await store.owned(1) == [Owned(other, 2, Bytes(305))], "no more than asked for")
    await store.delete(b"b")
    await store.put(b"a", b"x", ttl=LONG)
    _expect(await store.owned(9) == [Owned(other, 1, Bytes(5))], "what went is not counted")
    await store.clear()
    _expect(await store.owned(9) == [], "clear forgets the owners")


async def _a_share_is_the_tenants_own(store: OwnersStore) -> None:
    mine, notes, other = Owner("1"), Owner("1", "notes"), Owner("2")
    await _put_for(store, other, b"old", 1000, 500_000)
    for number in range(8):
        owner = notes if number % 2 else mine
        await _put_for(store, owner, b"%d" % number, 100, 400)
    left = [number for number in range(8) if await store.get(b"%d" % number) is not None]
    _expect(left == [4, 5, 6, 7], "past its share a tenant's oldest leave, in any namespace")
    _expect(await store.get(b"old") is not None, "no other tenant's entries leave for it")
    await _put_for(store, mine, b"large", 401, 400)
    _expect(await store.get(b"large") is None, "what is larger than the share is not kept")
    _expect(await store.get(b"7") is not None, "and nothing leaves for it")
