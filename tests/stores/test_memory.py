"""The memory store: its bound, its order, its bookkeeping."""

from __future__ import annotations

import pytest

from askonce.events import Evicted, HeldBytes
from askonce.stores.memory import OVERHEAD, MemoryStore
from askonce.testing import FakeClock, RecordingSink
from askonce.units import Seconds

pytestmark = pytest.mark.anyio

HOUR = Seconds(3600.0)


def make(
    count: int, size: int, *, clock: FakeClock | None = None, sink: RecordingSink | None = None
) -> MemoryStore:
    """A store with room for so many values of a size."""
    return MemoryStore(
        clock=clock or FakeClock(),
        sink=sink or RecordingSink(),
        max_bytes=count * (size + OVERHEAD),
    )


async def test_evicts_what_was_used_longest_ago() -> None:
    """A get makes an entry young; what leaves is told, with what is held after."""
    sink = RecordingSink()
    store = make(2, 10, sink=sink)
    await store.put(b"a", bytes(10), ttl=HOUR)
    await store.put(b"b", bytes(10), ttl=HOUR)
    await store.get(b"a")
    await store.put(b"c", bytes(10), ttl=HOUR)
    assert await store.get(b"b") is None
    assert await store.get(b"a") is not None
    assert sink.of(Evicted) == [Evicted(part="store", cause="capacity", entries=1)]
    assert sink.of(HeldBytes)[-1].entries == 2
    assert store.statistics()["evicted"] == 1


async def test_keeps_nothing_larger_than_itself() -> None:
    """A value larger than the bound is not kept, nor is what it was to replace."""
    store = make(1, 10)
    await store.put(b"k", bytes(10), ttl=HOUR)
    await store.put(b"k", bytes(11), ttl=HOUR)
    assert await store.get(b"k") is None


async def test_the_expired_make_room_first() -> None:
    """An expired entry leaves before a live one that was used longer ago."""
    clock, sink = FakeClock(), RecordingSink()
    store = make(2, 10, clock=clock, sink=sink)
    await store.put(b"a", bytes(10), ttl=HOUR)
    await store.put(b"b", bytes(10), ttl=Seconds(1))
    clock.advance(1)
    await store.put(b"c", bytes(10), ttl=HOUR)
    assert await store.get(b"a") is not None
    assert sink.of(Evicted) == [Evicted(part="store", cause="expired", entries=1)]


async def test_its_bookkeeping_does_not_grow() -> None:
    """Putting one key for ever takes no more memory than putting it a few times."""
    store = make(10, 10)
    for _ in range(1000):
        await store.put(b"k", b"v", ttl=HOUR, tags=("t",))
    assert len(store._ends) < 100
    await store.delete(b"k")
    assert store._tagged == {}
