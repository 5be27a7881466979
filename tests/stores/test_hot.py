"""The in-process LRU: expiry, order, bound."""

from __future__ import annotations

import hashlib
import sys
import tracemalloc

import pytest

from askonce.stores.hot import OVERHEAD, HotEntries


def room_for(count: int, size: int) -> int:
    """A bound that holds so many values of a size."""
    return count * (size + OVERHEAD)


def test_returns_what_was_put() -> None:
    """The very object comes back, until it is replaced, discarded or cleared."""
    hot: HotEntries[object] = HotEntries(room_for(9, 10))
    first, second = object(), object()
    assert hot.get(b"k", 0) is None
    hot.put(b"k", first, 10, 5.0)
    assert hot.get(b"k", 0) is first
    hot.put(b"k", second, 8, 5.0)
    assert hot.get(b"k", 0) is second
    assert (len(hot), hot.size) == (1, 8 + OVERHEAD)
    hot.discard(b"k")
    hot.discard(b"k")
    assert (len(hot), hot.size) == (0, 0)
    hot.put(b"k", first, 10, 5.0)
    hot.put(b"l", first, 10, 5.0)
    assert hot.clear() == 2
    assert (len(hot), hot.size, hot.get(b"k", 0)) == (0, 0, None)


def test_a_life_ends_when_it_was_to() -> None:
    """A get never extends a life; at its end the entry is gone."""
    hot: HotEntries[str] = HotEntries(room_for(1, 10))
    hot.put(b"k", "v", 10, 5.0)
    assert hot.get(b"k", 4.9) == "v"
    assert hot.get(b"k", 5.0) is None
    assert (len(hot), hot.size, hot.expired) == (0, 0, 1)


def test_evicts_what_was_used_longest_ago() -> None:
    """A get makes an entry young; puts past the bound say how many left."""
    hot: HotEntries[str] = HotEntries(room_for(2, 10))
    assert hot.put(b"a", "a", 10, 9.0) == 0
    assert hot.put(b"b", "b", 10, 9.0) == 0
    hot.get(b"a", 0)
    assert hot.put(b"c", "c", 10, 9.0) == 1
    assert [hot.get(key, 0) for key in (b"a", b"b", b"c")] == ["a", None, "c"]
    assert hot.put(b"d", "d", 20 + OVERHEAD, 9.0) == 2
    assert (len(hot), hot.evicted) == (1, 3)


@pytest.mark.parametrize(("bound", "left"), [(0, 0), (room_for(1, 9), 1)])
def test_keeps_nothing_larger_than_itself(bound: int, left: int) -> None:
    """A value larger than the bound is not kept, nor is what it was to replace; without any bound
    to fill nothing leaves either."""
    hot: HotEntries[str] = HotEntries(bound)
    hot.put(b"k", "small", 1, 9.0)
    assert hot.put(b"k", "large", 10, 9.0) == left
    assert (len(hot), hot.size, hot.get(b"k", 0)) == (0, 0, None)


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 2000])
def test_its_bound_is_one_of_real_memory(size: int) -> None:
    """After four times what it holds was put, memory is within a tenth of the bound."""
    bound = 8 * 1024 * 1024
    value_size = sys.getsizeof(bytes(size))
    tracemalloc.start()
    try:
        hot: HotEntries[bytes] = HotEntries(bound)
        for number in range(4 * bound // (value_size + OVERHEAD)):
            key = hashlib.sha256(b"%d" % number).digest()
            hot.put(key, bytes(bytearray(size)), value_size, 1e9 + number)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.8 * bound < used < 1.1 * bound
