"""What every store must do, as suites that any store's author can run; no test framework needed.

    clock = FakeClock()
    await check_store(lambda: MyStore(clock=clock), clock)

Each suite raises AssertionError with the broken promise in plain words.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from askonce.errors import StoreError
from askonce.ports import Store, SupportsEpoch, SupportsTags
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.testing.clock import FakeClock


class TaggedStore(Store, SupportsTags, Protocol):
    """A store that can remove by tag."""


class EpochStore(Store, SupportsEpoch, Protocol):
    """A store that tells when entries were taken away."""


S = TypeVar("S", bound=Store)
Make = Callable[[], S | Awaitable[S]]
"""Makes a new store, open; it may hold entries of an earlier one, which the suite clears."""

LONG = Seconds(3600.0)
LARGEST = 4 * 1024 * 1024


class _Passage:
    """Lets time pass by the fake clock, or by waiting when the store's clock is not ours."""

    def __init__(self, clock: FakeClock | None, tick: float) -> None:
        self._clock = clock
        self._tick = tick

    def ticks(self, count: float) -> Seconds:
        return Seconds(count * self._tick)

    async def __call__(self, count: float) -> None:
        if self._clock is None:
            await asyncio.sleep(self.ticks(count))
        else:
            self._clock.advance(self.ticks(count))


Check = Callable[[S, _Passage], Awaitable[None]]


async def check_store(
    make_store: Make[Store], clock: FakeClock | None = None, *, tick: float = 1.0
) -> None:
    """Hold a store against every sentence of `Store`.

    clock: the one the store was made with; without it the suite waits in real time.
    tick: the shortest life, in seconds, that the store can tell from none.
    """
    await _run(_STORE_CHECKS, make_store, _Passage(clock, tick))
    await _check_close(make_store, ())


async def check_store_tags(
    make_store: Make[TaggedStore], clock: FakeClock | None = None, *, tick: float = 1.0
) -> None:
    """Hold a store against `SupportsTags`; see `check_store`."""
    await _run(_TAG_CHECKS, make_store, _Passage(clock, tick))
    await _check_close(make_store, (lambda store: store.delete_tag("t"),))


async def check_store_epoch(
    make_store: Make[EpochStore], clock: FakeClock | None = None, *, tick: float = 1.0
) -> None:
    """Hold a store against `SupportsEpoch`; see `check_store`."""
    await _run(_EPOCH_CHECKS, make_store, _Passage(clock, tick))
    await _check_close(make_store, (lambda store: store.epoch(),))


async def _run(checks: tuple[Check[S], ...], make_store: Make[S], passage: _Passage) -> None:
    for check in checks:
        store = await _made(make_store)
        try:
            await store.clear()
            await check(store, passage)
            await store.clear()
        finally:
            await store.close()


async def _made(make_store: Make[S]) -> S:
    made = make_store()
    return await made if inspect.isawaitable(made) else made


def _expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not kept:
        raise AssertionError(promise)


async def _values_are_exact(store: Store, _: _Passage) -> None:
    values = [b"", b"\x00", bytes(range(256)), "é\u2028".encode(), b"x" * LARGEST]
    for number, value in enumerate(values):
        key = number.to_bytes(32, "big")
        await store.put(key, value, ttl=LONG)
        got = await store.get(key)
        _expect(
            got == value and type(got) is bytes,
            f"a value of {len(value)} bytes comes back exactly as put, as bytes",
        )


async def _keys_are_exact(store: Store, _: _Passage) -> None:
    keys = [b"a", b"a\x00", b"A", b"\x00", b"a:b", b" \r\n", b"\xff" * 32, b"k" * 63, b"k" * 64]
    for key in keys:
        await store.put(key, b"of " + key, ttl=LONG)
    for key in keys:
        _expect(await store.get(key) == b"of " + key, f"the key {key!r} is its own, byte by byte")


async def _unknown_is_none(store: Store, _: _Passage) -> None:
    _expect(await store.get(b"unknown") is None, "get of an unknown key is None")
    _expect(await store.delete(b"unknown") is False, "delete of an unknown key is False")
    _expect(await store.clear() == 0, "clear of an empty store is 0")


async def _put_replaces(store: Store, pass_time: _Passage) -> None:
    await store.put(b"k", b"first, and longer", ttl=pass_time.ticks(2))
    await store.put(b"k", b"second", ttl=pass_time.ticks(6))
    _expect(await store.get(b"k") == b"second", "put replaces the value")
    _expect((await store.stats()).entries == 1, "put under a known key adds no entry")
    await pass_time(3)
    _expect(await store.get(b"k") == b"second", "put replaces the end of life by a later one")
    await store.put(b"k", b"third", ttl=pass_time.ticks(1))
    await pass_time(2)
    _expect(await store.get(b"k") is None, "put replaces the end of life by an earlier one")


async def _no_life_deletes(store: Store, _: _Passage) -> None:
    for ttl in (Seconds(0.0), Seconds(-1.0)):
        await store.put(b"k", b"v", ttl=LONG)
        await store.put(b"k", b"w", ttl=ttl)
        _expect(await store.get(b"k") is None, f"put with ttl={ttl} deletes")
        _expect((await store.stats()).entries == 0, f"put with ttl={ttl} leaves nothing behind")


async def _life_is_absolute(store: Store, pass_time: _Passage) -> None:
    await store.put(b"k", b"v", ttl=pass_time.ticks(4))
    for _ in range(3):
        _expect(await store.get(b"k") == b"v", "an entry lives until its end")
        await pass_time(0.9)
    await pass_time(2)
    _expect(await store.get(b"k") is None, "get never extends a life")
    _expect(await store.delete(b"k") is False, "delete of an expired entry is False")
    _expect(await store.clear() == 0, "clear does not count expired entries")


async def _delete_removes_one(store: Store, _: _Passage) -> None:
    await store.put(b"k", b"v", ttl=LONG)
    await store.put(b"other", b"v", ttl=LONG)
    _expect(await store.delete(b"k") is True, "delete of a live entry is True")
    _expect(await store.get(b"k") is None, "delete removes the entry")
    _expect(await store.delete(b"k") is False, "a second delete is False")
    _expect(await store.get(b"other") == b"v", "delete removes no other entry")
    await store.put(b"k", b"again", ttl=LONG)
    _expect(await store.get(b"k") == b"again", "a deleted key can be put again")


async def _clear_removes_all(store: Store, pass_time: _Passage) -> None:
    await store.put(b"short", b"v", ttl=pass_time.ticks(1))
    for number in range(5):
        await store.put(b"%d" % number, b"v", ttl=LONG)
    await pass_time(2)
    _expect(await store.clear() == 5, "clear returns how many live entries there were")
    _expect(await store.get(b"0") is None, "clear removes every entry")
    await store.put(b"0", b"again", ttl=LONG)
    _expect(await store.get(b"0") == b"again", "a cleared store can be filled again")


async def _stats_count_the_living(store: Store, pass_time: _Passage) -> None:
    stats = await store.stats()
    _expect((stats.entries, stats.size) == (0, 0), "an empty store holds 0 entries, 0 bytes")
    await store.put(b"a", b"x" * 100, ttl=LONG)
    await store.put(b"a", b"x" * 10, ttl=LONG)
    await store.put(b"b", b"", ttl=LONG)
    await store.put(b"short", b"x" * 1000, ttl=pass_time.ticks(1))
    stats = await store.stats()
    _expect((stats.entries, stats.size) == (3, 1010), "stats count entries and bytes of values")
    await pass_time(2)
    stats = await store.stats()
    _expect((stats.entries, stats.size) == (2, 10), "stats leave out expired entries")


async def _calls_together(store: Store, _: _Passage) -> None:
    keys = [number.to_bytes(32, "big") for number in range(64)]
    await asyncio.gather(*(store.put(key, key * 8, ttl=LONG) for key in keys))
    got = await asyncio.gather(*(store.get(key) for key in keys))
    _expect(got == [key * 8 for key in keys], "puts at one time all take effect")
    whole = [bytes([number]) * 50_000 for number in range(8)]
    await store.put(b"k", whole[0], ttl=LONG)
    seen = await asyncio.gather(*(_put_then_get(store, value) for value in whole))
    _expect(all(value in whole for value in seen), "a value is whole while others put the same key")


async def _put_then_get(store: Store, value: bytes) -> bytes | None:
    await store.put(b"k", value, ttl=LONG)
    return await store.get(b"k")


_STORE_CHECKS: tuple[Check[Store], ...] = (
    _values_are_exact,
    _keys_are_exact,
    _unknown_is_none,
    _put_replaces,
    _no_life_deletes,
    _life_is_absolute,
    _delete_removes_one,
    _clear_removes_all,
    _stats_count_the_living,
    _calls_together,
)


async def _tag_removes_its_own(store: TaggedStore, pass_time: _Passage) -> None:
    await store.put(b"a", b"v", ttl=LONG, tags=("red", "round"))
    await store.put(b"b", b"v", ttl=LONG, tags=("red",))
    await store.put(b"c", b"v", ttl=LONG, tags=("reddish", "round"))
    await store.put(b"d", b"v", ttl=LONG)
    await store.put(b"short", b"v", ttl=pass_time.ticks(1), tags=("red",))
    await pass_time(2)
    _expect(await store.delete_tag("red") == 2, "delete_tag returns how many entries were live")
    _expect(await store.get(b"a") is None, "delete_tag removes entries with other tags as well")
    _expect(await store.get(b"b") is None, "delete_tag removes every entry of the tag")
    _expect(await store.get(b"c") == b"v", "a tag is compared whole")
    _expect(await store.get(b"d") == b"v", "delete_tag leaves entries without tags")
    _expect(await store.delete_tag("red") == 0, "a second delete_tag finds nothing")
    _expect(await store.delete_tag("round") == 1, "an entry's other tags go with it")


async def _tags_are_replaced(store: TaggedStore, _: _Passage) -> None:
    await store.put(b"k", b"v", ttl=LONG, tags=("old", "kept"))
    await store.put(b"k", b"w", ttl=LONG, tags=("kept", "new"))
    _expect(await store.delete_tag("old") == 0, "put replaces the tags")
    _expect(await store.get(b"k") == b"w", "a tag that was replaced removes nothing")
    _expect(await store.delete_tag("new") == 1, "put sets the new tags")
    await store.put(b"k", b"v", ttl=LONG, tags=("old",))
    await store.delete(b"k")
    await store.put(b"k", b"w", ttl=LONG)
    _expect(await store.delete_tag("old") == 0, "a deleted entry's tags do not come back")


async def _tags_are_exact(store: TaggedStore, _: _Passage) -> None:
    tags = ["a", "A", "é", "e\u0301", "a*", "a b", "a,b", "model:x/y@1", "\x00", "t" * 256]
    for tag in tags:
        await store.put(tag.encode()[:64], b"v", ttl=LONG, tags=(tag, tag))
    for tag in tags:
        _expect(await store.delete_tag(tag) == 1, f"the tag {tag!r} is its own, and counts once")


async def _clear_forgets_tags(store: TaggedStore, _: _Passage) -> None:
    await store.put(b"k", b"v", ttl=LONG, tags=("t",))
    await store.clear()
    await store.put(b"k", b"v", ttl=LONG)
    _expect(await store.delete_tag("t") == 0, "clear forgets the tags")


_TAG_CHECKS: tuple[Check[TaggedStore], ...] = (
    _tag_removes_its_own,
    _tags_are_replaced,
    _tags_are_exact,
    _clear_forgets_tags,
)


async def _epoch_moves_with_removals(store: EpochStore, _: _Passage) -> None:
    await store.put(b"k", b"v", ttl=LONG)
    before = await store.epoch()
    await store.delete(b"k")
    after_delete = await store.epoch()
    _expect(after_delete > before, "the epoch grows with a delete")
    await store.delete(b"gone from here, maybe held elsewhere")
    after_idle_delete = await store.epoch()
    _expect(after_idle_delete > after_delete, "the epoch grows even if the delete found nothing")
    await store.clear()
    _expect(await store.epoch() > after_idle_delete, "the epoch grows with a clear")


async def _epoch_moves_with_tags(store: EpochStore, _: _Passage) -> None:
    delete_tag = getattr(store, "delete_tag", None)
    if delete_tag is None:
        return
    before = await store.epoch()
    await delete_tag("t")
    _expect(await store.epoch() > before, "the epoch grows with a tag delete")


async def _epoch_rests_otherwise(store: EpochStore, pass_time: _Passage) -> None:
    before = await store.epoch()
    await store.put(b"k", b"v", ttl=pass_time.ticks(1))
    await store.put(b"k", b"w", ttl=pass_time.ticks(1))
    await store.get(b"k")
    await store.stats()
    await pass_time(2)
    await store.get(b"k")
    _expect(await store.epoch() == before, "puts, gets and expiry do not move the epoch")


_EPOCH_CHECKS: tuple[Check[EpochStore], ...] = (
    _epoch_moves_with_removals,
    _epoch_moves_with_tags,
    _epoch_rests_otherwise,
)


async def _check_close(
    make_store: Make[S], further: tuple[Callable[[S], Awaitable[object]], ...]
) -> None:
    store = await _made(make_store)
    await store.close()
    await store.close()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "get": lambda: store.get(b"k"),
        "put": lambda: store.put(b"k", b"v", ttl=LONG),
        "put without life": lambda: store.put(b"k", b"v", ttl=Seconds(0.0)),
        "delete": lambda: store.delete(b"k"),
        "clear": store.clear,
        "stats": store.stats,
    }
    for call in further:
        calls["the further ability"] = lambda call=call: call(store)  # type: ignore[misc]
    for name, act in calls.items():
        _expect(await _refuses(act), f"{name} raises StoreError after close")


async def _refuses(act: Callable[[], Awaitable[object]]) -> bool:
    try:
        await act()
    except StoreError:
        return True
    return False
