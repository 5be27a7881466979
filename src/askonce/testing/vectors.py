"""What every vector index must do, as a suite that any author can run; no test framework needed.

    clock = FakeClock()
    await check_vector_index(lambda: MyIndex(dim=8, clock=clock), clock, dim=8)

It raises AssertionError with the broken promise in plain words.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import numpy as np

from askonce.errors import VectorIndexError
from askonce.ports import IndexedText, SupportsPartitionDrop, SupportsSearchAll, VectorIndex
from askonce.units import Cosine, Seconds, UnixTime

if TYPE_CHECKING:
    from askonce.ports import Neighbour, Vector
    from askonce.testing.clock import FakeClock

MakeIndex = Callable[[], VectorIndex | Awaitable[VectorIndex]]
"""Makes a new index, open; it may hold items of an earlier one, which the suite clears."""

LONG = Seconds(3600.0)
HERE = hashlib.sha256(b"here").digest()
THERE = hashlib.sha256(b"there").digest()


async def check_vector_index(make_index: MakeIndex, clock: FakeClock, *, dim: int) -> None:
    """Hold an index against every sentence of `VectorIndex`.

    clock: the one the index was made with. dim: of its vectors, 4 at least.
    """
    for check in _CHECKS:
        index = await made(make_index)
        try:
            await index.clear()
            await check(Bench(index, clock, dim))
            await index.clear()
        finally:
            await index.close()
    await _check_close(await made(make_index), dim)


def unit(dim: int, *components: float) -> Vector:
    """A unit vector with these first components, scaled, and zeros."""
    vector = np.zeros(dim, dtype=np.float32)
    vector[: len(components)] = components
    scaled: Vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return scaled


def key_of(name: str) -> bytes:
    """A key of 32 bytes."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


class Bench:
    """An index with the words the checks use."""

    def __init__(self, index: VectorIndex, clock: FakeClock, dim: int) -> None:
        """Over an open index."""
        self.index = index
        self.clock = clock
        self.dim = dim

    def item(self, name: str, life: float = LONG) -> IndexedText:
        """An item of that name."""
        return IndexedText(key_of(name), f"text of {name}", UnixTime(self.clock.now() + life))

    async def add(
        self, name: str, *components: float, partition: bytes = HERE, life: float = LONG
    ) -> None:
        """Add an item whose vector begins with these components."""
        await self.index.add(partition, self.item(name, life), unit(self.dim, *components))

    async def found(
        self, *components: float, partition: bytes = HERE, k: int = 10
    ) -> list[Neighbour]:
        """What is near the vector that begins with these components."""
        return await self.index.search(partition, unit(self.dim, *components), k=k)

    async def names(self, *components: float, partition: bytes = HERE, k: int = 10) -> list[str]:
        """Names of what is found, best first."""
        found = await self.found(*components, partition=partition, k=k)
        return [neighbour.item.text.removeprefix("text of ") for neighbour in found]


async def made(make_index: MakeIndex) -> VectorIndex:
    """A new index, whichever way it is made."""
    index = make_index()
    return await index if inspect.isawaitable(index) else index


def expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    """Raise AssertionError with the promise unless it is kept."""
    if not kept:
        raise AssertionError(promise)


async def _empty_is_empty(bench: Bench) -> None:
    expect(await bench.found(1.0) == [], "an unknown partition gives an empty list")
    expect(await bench.index.count() == 0, "an empty index counts 0")
    expect(await bench.index.clear() == 0, "clear of an empty index is 0")
    expect(await bench.index.delete([key_of("a")]) == 0, "delete of an unknown key is 0")
    expect(await bench.index.delete([]) == 0, "delete of no keys is 0")


async def _items_come_back_whole(bench: Bench) -> None:
    texts = ["", "plain", "é\u2028\x00😀", "x" * 100_000]
    for number, text in enumerate(texts):
        end = UnixTime(bench.clock.now() + 10.5 + number)
        item = IndexedText(key_of(text), text, end, bytes(range(256))[: 100 * number])
        partition = key_of(f"partition {number}")
        await bench.index.add(partition, item, unit(bench.dim, 1.0))
        found = await bench.index.search(partition, unit(bench.dim, 1.0), k=1)
        expect(
            [near.item for near in found] == [item], "key, text, end of life and tokens come back"
        )
        vectors = {near.vector for near in found}
        expect(vectors <= {b"", unit(bench.dim, 1.0).tobytes()}, "a vector comes back exactly")


async def _best_comes_first(bench: Bench) -> None:
    await bench.add("far", 0.0, 1.0)
    await bench.add("same", 1.0, 0.0)
    await bench.add("near", 1.0, 0.5)
    await bench.add("opposite", -1.0, 0.0)
    expect((await bench.names(1.0))[:3] == ["same", "near", "far"], "search gives the best first")
    expect(await bench.names(1.0, k=2) == ["same", "near"], "search gives k items at most")
    scores = [near.score for near in await bench.found(1.0)]
    expect(all(0.0 <= score <= 1.0 for score in scores), "scores are cosines clamped to 0..1")
    for score, right in zip(scores, [1.0, 1.0 / 1.25**0.5, 0.0, 0.0], strict=True):
        expect(abs(score - right) < 1e-3, "scores are cosines")


async def _added_is_seen_at_once(bench: Bench) -> None:
    for number in range(20):
        await bench.add(str(number), 1.0, number / 20)
        seen = await bench.names(1.0, number / 20, k=1)
        expect(seen == [str(number)], "an added item is visible to the next search")


async def _partitions_are_apart(bench: Bench) -> None:
    await bench.add("here", 1.0)
    await bench.add("there", 1.0, 0.1, partition=THERE)
    expect(await bench.names(1.0) == ["here"], "a partition never sees another's vectors")
    expect(await bench.names(1.0, partition=THERE) == ["there"], "each partition has its own")
    expect(await bench.names(1.0, partition=HERE[:-1] + b"\xff") == [], "partitions are exact")
    expect(await bench.index.count() == 2, "count is over all partitions")


async def _key_is_unique(bench: Bench) -> None:
    await bench.add("a", 1.0)
    await bench.add("a", 0.0, 1.0, life=10.0)
    found = await bench.found(0.0, 1.0)
    expect(len(found) == 1, "a second add with the same key replaces the first")
    expect(found[0].score > 0.99, "a second add replaces the vector")
    expect(found[0].item == bench.item("a", 10.0), "a second add replaces the item")
    await bench.add("a", 1.0, partition=THERE)
    expect(await bench.names(1.0) == [], "a key moves out of its old partition")
    expect(await bench.names(1.0, partition=THERE) == ["a"], "a key moves to its new partition")
    expect(await bench.index.count() == 1, "a replaced item is counted once")


async def _life_ends(bench: Bench) -> None:
    for number in range(30):
        await bench.add(f"short {number}", 1.0, number / 1000, life=5.0)
    await bench.add("long", 0.0, 1.0)
    await bench.add("dead", 1.0, life=0.0)
    expect(await bench.index.count() == 31, "count leaves out what is expired when added")
    bench.clock.advance(4.0)
    expect(len(await bench.found(1.0, k=40)) == 31, "an item lives until its end")
    bench.clock.advance(2.0)
    expect(await bench.names(1.0, k=1) == ["long"], "expired items do not hide live ones")
    expect(await bench.index.count() == 1, "count leaves out expired items")
    expect(await bench.index.delete([key_of("short 1")]) == 0, "delete does not count expired")
    expect(await bench.index.clear() == 1, "clear does not count expired items")


async def _delete_removes(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        await bench.add(name, 1.0)
    await bench.add("d", 1.0, partition=THERE)
    wanted = [key_of(name) for name in ("a", "d", "unknown", "a")]
    expect(await bench.index.delete(wanted) == 2, "delete counts what was there, once")
    expect(sorted(await bench.names(1.0)) == ["b", "c"], "delete removes these and no others")
    expect(await bench.names(1.0, partition=THERE) == [], "delete reaches every partition")
    await bench.add("a", 1.0)
    expect(sorted(await bench.names(1.0)) == ["a", "b", "c"], "a deleted key can be added again")


async def _clear_removes_all(bench: Bench) -> None:
    await bench.add("a", 1.0)
    await bench.add("b", 1.0, partition=THERE)
    expect(await bench.index.clear() == 2, "clear returns how many items there were")
    expect(await bench.index.count() == 0, "a cleared index counts 0")
    expect(await bench.names(1.0) == [], "clear removes everything")
    expect(await bench.names(1.0, partition=THERE) == [], "clear reaches every partition")
    await bench.add("a", 1.0)
    expect(await bench.names(1.0) == ["a"], "a cleared index can be filled again")


async def _calls_may_overlap(bench: Bench) -> None:
    await asyncio.gather(*(bench.add(str(n), 1.0, n / 10) for n in range(30)))
    expect(await bench.index.count() == 30, "adds that run at once all count")
    found = await asyncio.gather(*(bench.names(1.0, n / 10, k=1) for n in range(30)))
    expect(found == [[str(n)] for n in range(30)], "searches that run at once each get theirs")


async def _wrong_vectors_are_refused(bench: Bench) -> None:
    wrong = np.ones(bench.dim + 1, dtype=np.float32)
    try:
        await bench.index.add(HERE, bench.item("a"), wrong)
    except VectorIndexError:
        expect(await bench.index.count() == 0, "a refused vector leaves nothing behind")
        return
    raise AssertionError("a vector of another dimension raises VectorIndexError")


async def _a_partition_drops_at_once(bench: Bench) -> None:
    if not isinstance(bench.index, SupportsPartitionDrop):
        return
    for number in range(5):
        await bench.add(f"here {number}", 1.0)
    await bench.add("dying", 1.0, life=5.0)
    await bench.add("there", 1.0, partition=THERE)
    bench.clock.advance(6.0)
    drop = bench.index.drop_partition
    expect(await drop(HERE) == 5, "drop_partition returns how many live items there were")
    expect(await bench.names(1.0) == [], "drop_partition removes the partition")
    expect(await bench.names(1.0, partition=THERE) == ["there"], "drop_partition leaves others")
    expect(await bench.index.count() == 1, "what was dropped counts no more")
    expect(await drop(HERE) == 0, "drop_partition of an unknown one is 0")
    await bench.add("here 1", 1.0)
    expect(await bench.names(1.0) == ["here 1"], "a dropped partition can be filled again")


async def _all_partitions_can_be_searched(bench: Bench) -> None:
    if not isinstance(bench.index, SupportsSearchAll):
        return
    await bench.add("here", 1.0)
    await bench.add("there", 1.0, 0.1, partition=THERE)
    await bench.add("far", 1.0, 1.0)
    await bench.add("dying", 1.0, life=5.0)
    bench.clock.advance(6.0)
    for limit, names in ((10, ["here", "there"]), (1, ["here"])):
        found = await bench.index.search_all(unit(bench.dim, 1.0), floor=Cosine(0.9), limit=limit)
        texts = [near.item.text.removeprefix("text of ") for near in found]
        expect(texts == names, "search_all gives live items of all partitions, best first")


async def _check_close(index: VectorIndex, dim: int) -> None:
    await index.close()
    await index.close()
    vector = unit(dim, 1.0)
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: index.add(HERE, IndexedText(key_of("a"), "a", UnixTime(0.0)), vector),
        lambda: index.search(HERE, vector, k=1),
        lambda: index.delete([key_of("a")]),
        index.clear,
        index.count,
    )
    for call in calls:
        try:
            await call()
        except VectorIndexError:
            continue
        raise AssertionError("calls after close raise VectorIndexError")


_CHECKS: tuple[Callable[[Bench], Awaitable[None]], ...] = (
    _empty_is_empty,
    _items_come_back_whole,
    _best_comes_first,
    _added_is_seen_at_once,
    _partitions_are_apart,
    _key_is_unique,
    _life_ends,
    _delete_removes,
    _clear_removes_all,
    _calls_may_overlap,
    _wrong_vectors_are_refused,
    _a_partition_drops_at_once,
    _all_partitions_can_be_searched,
)
