"""What a store surely lacks: known without reading it, and never wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.stores.sqlite import sqlite_child
from tests.stores.sqlite.sqlite_support import HOUR, MIB, key, opened

from askonce.ports import Put, SupportsAbsence, SupportsPutMany
from askonce.stores.memory import MemoryStore
from askonce.stores.sqlite import keys as sqlite_keys
from askonce.testing import FakeClock, RecordingSink

if TYPE_CHECKING:
    from askonce.stores.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The database."""
    return tmp_path / "exact.sqlite3"


def map_of(path: Path) -> Path:
    """The map beside it."""
    return sqlite_keys.path_beside(path)


async def proves(store: SqliteStore) -> bool:
    """Whether the store can prove anything, once a read has looked."""
    await store.get(b"nobody's")
    return store.surely_absent(b"nobody's")


async def test_an_unknown_key_is_surely_absent_and_a_known_one_is_not(path: Path) -> None:
    """From the first entry on the store tells without reading what it lacks."""
    async with opened(path) as store:
        assert isinstance(store, SupportsAbsence)
        assert isinstance(store, SupportsPutMany)
        assert not await proves(store)
        await store.put_many([Put(key(number), b"v", HOUR) for number in range(500)])
        assert await proves(store)
        assert not any(store.surely_absent(key(number)) for number in range(500))
        assert sum(store.surely_absent(key(number)) for number in range(500, 1500)) > 950
    assert not store.surely_absent(key(2000))


async def test_a_store_in_memory_knows_exactly() -> None:
    """It lacks what it does not hold; closed it proves nothing."""
    store = MemoryStore(clock=FakeClock(), sink=RecordingSink(), max_bytes=MIB)
    await store.put(b"a", b"v", ttl=HOUR)
    assert store.surely_absent(b"b")
    assert not store.surely_absent(b"a")
    await store.close()
    assert not store.surely_absent(b"b")


async def test_what_another_process_wrote_is_found_by_the_next_lookup(path: Path) -> None:
    """However sure one process is, an entry that another has put is not absent for it."""
    async with opened(path) as store:
        await store.put(b"first", b"v", ttl=HOUR)
        assert await proves(store)
        keys = [sqlite_child.key_of(number) for number in range(20)]
        assert any(store.surely_absent(each) for each in keys)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        script = [sys.executable, sqlite_child.__file__, "write", str(path), "1", "2000"]
        child = await asyncio.create_subprocess_exec(*script, str(64 * MIB), env=environment)
        assert await child.wait() == 0
        for each in keys:
            found = await store.get(each)
            assert (found is not None) <= (not store.surely_absent(each))
        assert await proves(store)


async def test_two_stores_keep_each_other_right(path: Path) -> None:
    """Puts in turn are seen by the other at once, and both stay able to prove."""
    async with opened(path) as one, opened(path) as other:
        for number in range(50):
            writer, reader = (one, other) if number % 2 else (other, one)
            await writer.put(key(number), b"v", ttl=HOUR)
            assert not reader.surely_absent(key(number))
            assert await reader.get(key(number)) == b"v"
        assert await proves(one)
        assert await proves(other)


async def test_a_database_without_a_map_gets_one_in_slices(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until every key has been read into a new map, nothing is proven."""
    async with opened(path) as store:
        await store.put_many([Put(key(number), b"v", HOUR) for number in range(100)])
    map_of(path).unlink()
    monkeypatch.setattr(sqlite_keys, "SLICE", 40)
    async with opened(path) as store:
        for number in range(100, 102):
            await store.put(key(number), b"v", ttl=HOUR)
            assert not await proves(store)
        await store.put(key(102), b"v", ttl=HOUR)
        assert await proves(store)
        assert not any(store.surely_absent(key(number)) for number in range(103))


def overwrite(path: Path) -> None:
    """Nonsense in place."""
    path.write_bytes(b"x" * path.stat().st_size)


def replace(path: Path) -> None:
    """Another file in its place."""
    path.unlink()
    path.write_bytes(b"other")


def of_another_boot(path: Path) -> None:
    """Cells may have been lost when the machine stopped."""
    with path.open("r+b") as file:
        file.seek(24)
        file.write(struct.pack("@Q", 7))


@pytest.mark.parametrize("harm", [Path.unlink, overwrite, replace, of_another_boot])
async def test_a_map_that_came_to_harm_is_made_anew(path: Path, harm: object) -> None:
    """Deleted, replaced or garbage: no entry is called absent once a call has been made."""
    async with opened(path) as one, opened(path) as other:
        await one.put(b"a", b"v", ttl=HOUR)
        assert await proves(other)
        harm(map_of(path))  # type: ignore[operator] # a function of a path
        await one.put(b"b", b"v", ttl=HOUR)
        await other.epoch()
        for store in (one, other):
            assert not store.surely_absent(b"a")
            assert not store.surely_absent(b"b")
            assert await proves(store)


async def test_the_map_of_a_file_set_aside_proves_nothing(path: Path) -> None:
    """With a new database comes a new map; the old one is trusted by nobody from that moment."""
    async with opened(path) as one, opened(path) as other:
        await one.put(b"old", b"v", ttl=HOUR)
        assert await proves(other)
        one._file.retire(one._file.identity())
        assert not other.surely_absent(b"nobody's")
        await one.put(b"new", b"v", ttl=HOUR)
        assert not other.surely_absent(b"new")
        assert await other.get(b"new") == b"v"
        assert await proves(other)
        one._file.drop(one._file.identity())
        assert not other.surely_absent(b"nobody's")


async def test_a_writer_that_dies_before_its_commit_harms_nobody(path: Path) -> None:
    """Cells are set before the commit, so what was not committed is at worst looked up."""
    async with opened(path) as store:
        await store.put(b"a", b"v", ttl=HOUR)
        assert await proves(store)
        record = sqlite_keys.KeyRecord(path, max_bytes=64 * MIB)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            record.begin(connection, store._file.identity())
            record.add(b"b")
            connection.rollback()
        assert not store.surely_absent(b"b")
        assert await store.get(b"b") is None
        assert await proves(store)


async def test_a_worn_map_is_made_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that left make a map say perhaps too often, so it starts again from those there."""
    monkeypatch.setattr(sqlite_keys, "LEAST_CELLS", 64)
    monkeypatch.setattr(sqlite_keys, "BYTES_PER_CELL", MIB)
    async with opened(path) as store:
        for number in range(200):
            await store.put(key(number), b"v", ttl=HOUR)
            await store.delete(key(number))
        await store.put(b"a", b"v", ttl=HOUR)
        assert not store.surely_absent(b"a")
        assert await proves(store)
        assert sum(store.surely_absent(key(number)) for number in range(200)) > 100


async def test_without_a_map_all_is_looked_up(path: Path) -> None:
    """Where no map can be made the store works as before."""
    map_of(path).with_name(map_of(path).name + ".new").mkdir()
    async with opened(path) as store:
        await store.put(b"a", b"v", ttl=HOUR)
        await store.put(b"b", b"v", ttl=HOUR)
        assert not await proves(store)
        assert await store.get(b"a") == b"v"


async def test_many_puts_are_one_transaction(path: Path) -> None:
    """A batch replaces, keeps tags, and leaves out what is larger than the bound."""
    async with opened(path, max_bytes=MIB) as store:
        puts = [
            Put(b"a", b"1", HOUR, ("t",)),
            Put(b"b", bytes(2 * MIB), HOUR),
            Put(b"a", b"2", HOUR),
        ]
        await store.put_many(puts)
        assert await store.get(b"a") == b"2"
        assert await store.get(b"b") is None
        assert await store.delete_tag("t") == 0
