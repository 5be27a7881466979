"""The suites for stores catch a store that breaks a promise."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from askonce.ports import StoreStats
from askonce.stores.memory import MemoryStore
from askonce.testing import (
    FakeClock,
    RecordingSink,
    check_store,
    check_store_epoch,
    check_store_tags,
)
from askonce.units import Bytes, Seconds, UnixTime

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio


class Sound(MemoryStore):
    """A store that keeps its promises."""

    def __init__(self, clock: FakeClock) -> None:
        """Hold up to 64 MiB."""
        super().__init__(clock=clock, sink=RecordingSink(), max_bytes=64 * 1024 * 1024)


class Slides(Sound):
    """Extends a life at each get."""

    async def get(self, key: bytes) -> bytes | None:
        """Put again what was found."""
        value = await super().get(key)
        if value is not None:
            await super().put(key, value, ttl=Seconds(4))
        return value


class Strips(Sound):
    """Takes zeros at the end of a value for padding."""

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Strip, then put."""
        await super().put(key, value.rstrip(b"\x00"), ttl=ttl, tags=tags)


class FoldsKeys(Sound):
    """Takes keys for text in any case."""

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Put in lower case."""
        await super().put(key.lower(), value, ttl=ttl, tags=tags)

    async def get(self, key: bytes) -> bytes | None:
        """Get in lower case."""
        return await super().get(key.lower())


class ZeroIsForever(Sound):
    """Takes no life for an endless one."""

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Put for ever when there is no life."""
        await super().put(key, value, ttl=ttl or Seconds(1e9), tags=tags)


class KeepsEarlier(Sound):
    """Does not replace."""

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Put where nothing is."""
        if ttl <= 0 or await self.get(key) is None:
            await super().put(key, value, ttl=ttl, tags=tags)


class CountsTheDead(Sound):
    """Counts what was put, dead or alive."""

    async def stats(self) -> StoreStats:
        """Count all."""
        return StoreStats(entries=len(self._kept), size=Bytes(self._values))


class AlwaysDeleted(Sound):
    """Says that every delete found something."""

    async def delete(self, key: bytes) -> bool:
        """Delete, and say so."""
        await super().delete(key)
        return True


class Tears(Sound):
    """Writes a value in two halves."""

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Put the first half, then the whole, and let others in between."""
        await super().put(key, value, ttl=ttl, tags=tags)
        if len(value) == 50_000:
            await super().put(key, value[:100], ttl=ttl, tags=tags)
            await asyncio.sleep(0)


class NeverCloses(Sound):
    """Goes on after close."""

    async def close(self) -> None:
        """Do nothing."""


class KeepsTags(Sound):
    """Adds tags instead of replacing them."""

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Put with the earlier tags as well."""
        earlier = self._kept[key].tags if key in self._kept else ()
        await super().put(key, value, ttl=ttl, tags=(*tags, *earlier))


class TagsByPrefix(Sound):
    """Compares the beginning of a tag."""

    async def delete_tag(self, tag: str) -> int:
        """Delete every tag that begins so."""
        removed = 0
        for known in [known for known in self._tagged if known.startswith(tag)]:
            removed += await super().delete_tag(known)
        return removed


class EpochOfPuts(Sound):
    """Moves the epoch at each put."""

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Put, and move it."""
        self._epoch += 1
        await super().put(key, value, ttl=ttl, tags=tags)


class EpochOfFinds(Sound):
    """Moves the epoch only when a delete found something."""

    async def delete(self, key: bytes) -> bool:
        """Delete, and move it when something was there."""
        before = self._epoch
        found = await super().delete(key)
        self._epoch = before + found
        return found


class Ticking(FakeClock):
    """The real clock, where a fake one is expected."""

    def now(self) -> UnixTime:
        """Seconds by the loop."""
        return UnixTime(asyncio.get_running_loop().time())


async def test_a_sound_store_passes() -> None:
    """A store that keeps its promises passes every suite."""
    clock = FakeClock()
    await check_store(lambda: Sound(clock), clock)
    await check_store_tags(lambda: Sound(clock), clock)
    await check_store_epoch(lambda: Sound(clock), clock)


async def test_a_store_may_take_time_to_open() -> None:
    """The maker may be asynchronous."""
    clock = FakeClock()

    async def make() -> Sound:
        await asyncio.sleep(0)
        return Sound(clock)

    await check_store_epoch(make, clock)


async def test_waits_where_it_cannot_move_the_clock() -> None:
    """Without a fake clock the suite lets real time pass, by the tick."""
    await check_store_epoch(lambda: Sound(Ticking()), tick=0.02)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Slides, "get never extends a life"),
        (Strips, "comes back exactly as put"),
        (FoldsKeys, "is its own, byte by byte"),
        (ZeroIsForever, r"put with ttl=0\.0 deletes"),
        (KeepsEarlier, "put replaces the value"),
        (CountsTheDead, "stats leave out expired entries"),
        (AlwaysDeleted, "delete of an unknown key is False"),
        (Tears, "a value is whole"),
        (NeverCloses, "raises StoreError after close"),
    ],
)
async def test_check_store_catches(broken: type[Sound], promise: str) -> None:
    """Each broken promise is named."""
    clock = FakeClock()
    with pytest.raises(AssertionError, match=promise):
        await check_store(lambda: broken(clock), clock)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (KeepsTags, "put replaces the tags"),
        (TagsByPrefix, "how many entries were live"),
        (NeverCloses, "raises StoreError after close"),
    ],
)
async def test_check_store_tags_catches(broken: type[Sound], promise: str) -> None:
    """Each broken promise about tags is named."""
    clock = FakeClock()
    with pytest.raises(AssertionError, match=promise):
        await check_store_tags(lambda: broken(clock), clock)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (EpochOfPuts, "do not move the epoch"),
        (EpochOfFinds, "even if the delete found nothing"),
        (NeverCloses, "raises StoreError after close"),
    ],
)
async def test_check_store_epoch_catches(broken: type[Sound], promise: str) -> None:
    """Each broken promise about epochs is named."""
    clock = FakeClock()
    with pytest.raises(AssertionError, match=promise):
        await check_store_epoch(lambda: broken(clock), clock)
