"""What a vector index that replicas share must do beside `check_vector_index`.

    await check_shared_index(make_index, clock, dim=8, drop=drop_the_table)

It raises AssertionError with the broken promise in plain words.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from askonce.testing.vectors import HERE, THERE, Bench, expect, key_of, made

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from askonce.testing.clock import FakeClock
    from askonce.testing.vectors import MakeIndex


async def check_shared_index(
    make_index: MakeIndex,
    clock: FakeClock,
    *,
    dim: int,
    drop: Callable[[], Awaitable[object]] | None = None,
    make_other: MakeIndex | None = None,
) -> None:
    """Hold two open indexes over one place against each other.

    drop: take everything away behind the clients' backs, as an operator or a flush does.
    make_other: as make_index, in the same place, but bound to another embedder's id.
    """
    for check in (_others_see_changes, _adds_may_collide, _items_outlive_the_client):
        async with _pair(make_index, clock, dim) as (one, other):
            await check(one, other)
    if drop is not None:
        for act in (_search_after_drop, _add_after_drop, _count_after_drop):
            async with _pair(make_index, clock, dim) as (one, other):
                await _filled(one, other)
                await drop()
                await act(one, other)
    if make_other is not None:
        await _embedders_are_apart(make_index, make_other, clock, dim)


@contextlib.asynccontextmanager
async def _pair(
    make_one: MakeIndex, clock: FakeClock, dim: int, make_other: MakeIndex | None = None
) -> AsyncIterator[tuple[Bench, Bench]]:
    one, other = await made(make_one), await made(make_other or make_one)
    try:
        await one.clear()
        yield Bench(one, clock, dim), Bench(other, clock, dim)
        await other.clear()
    finally:
        await one.close()
        await other.close()


async def _others_see_changes(one: Bench, other: Bench) -> None:
    expect(await other.names(1.0) == [], "both begin empty")
    await one.add("a", 1.0)
    await other.add("b", 1.0, 0.1)
    for bench in (one, other):
        expect(await bench.names(1.0) == ["a", "b"], "each finds what the other added")
        expect(await bench.index.count() == 2, "each counts what the other added")
    await other.add("a", 0.0, 1.0)
    found = [near.score for near in await one.found(0.0, 1.0, k=1)]
    expect(found[0] > 0.99, "each sees what the other replaced")
    await other.add("a", 1.0, partition=THERE)
    expect(await one.names(1.0) == ["b"], "each sees what the other moved")
    expect(await one.index.delete([key_of("b")]) == 1, "each removes what the other added")
    expect(await other.names(1.0) == [], "each misses what the other removed")
    expect(await one.index.clear() == 1, "each clears what the other added")
    expect(await other.index.count() == 0, "nothing is left after the other's clear")


async def _adds_may_collide(one: Bench, other: Bench) -> None:
    await asyncio.gather(*(bench.add("same", 1.0) for _ in range(10) for bench in (one, other)))
    expect(await one.names(1.0) == ["same"], "adds of one key at once leave one item")
    expect(await other.index.count() == 1, "adds of one key at once count once")
    places = (HERE, THERE)
    benches = [(at, bench) for at in places for bench in (one, other)] * 5
    await asyncio.gather(*(bench.add("moved", 1.0, partition=at) for at, bench in benches))
    found = [await one.names(1.0, partition=at) for at in places]
    expect(sum(names.count("moved") for names in found) == 1, "a key is in one partition alone")


async def _items_outlive_the_client(one: Bench, other: Bench) -> None:
    await one.add("a", 1.0)
    await one.index.close()
    expect(await other.names(1.0) == ["a"], "what a client added outlives it")


async def _filled(one: Bench, other: Bench) -> None:
    await one.add("a", 1.0)
    await other.add("b", 1.0, partition=THERE)


async def _search_after_drop(one: Bench, other: Bench) -> None:
    for bench in (one, other):
        expect(await bench.names(1.0) == [], "a search in what was dropped finds nothing")
    await other.add("c", 1.0)
    expect(await one.names(1.0) == ["c"], "what was dropped can be filled again")


async def _add_after_drop(one: Bench, other: Bench) -> None:
    await asyncio.gather(*(bench.add(f"new {n}", 1.0) for n, bench in enumerate((one, other))))
    expect(len(await one.names(1.0)) == 2, "an add makes anew what was dropped")
    expect(await other.index.count() == 2, "what was dropped counts no more")


async def _count_after_drop(one: Bench, other: Bench) -> None:
    expect(await one.index.count() == 0, "what was dropped counts 0")
    expect(await one.index.delete([key_of("a")]) == 0, "there is nothing to delete after a drop")
    expect(await other.index.clear() == 0, "there is nothing to clear after a drop")


async def _embedders_are_apart(
    make_one: MakeIndex, make_other: MakeIndex, clock: FakeClock, dim: int
) -> None:
    async with _pair(make_one, clock, dim, make_other) as (one, other):
        await other.index.clear()
        await one.add("a", 1.0)
        expect(await other.names(1.0) == [], "vectors of two embedders never meet")
        await other.add("a", 0.0, 1.0)
        expect(await one.index.count() == 1, "each embedder has a count of its own")
        expect(await other.index.clear() == 1, "clear is of one embedder")
        expect(await one.names(1.0) == ["a"], "clear leaves other embedders alone")
        await one.index.clear()
