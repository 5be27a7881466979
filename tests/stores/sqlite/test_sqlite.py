"""The SQLite store: its files, its bounds, its URL."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

import pytest
from blockbuster import blockbuster_ctx
from tests.stores.sqlite.sqlite_support import (
    HOUR,
    MIB,
    held_rightly,
    key,
    opened,
    size_of,
)

from askonce.errors import ConfigError
from askonce.events import Evicted, HeldBytes
from askonce.stores.sqlite import writes as sqlite_writes
from askonce.stores.sqlite.store import open_sqlite
from askonce.testing import FakeClock, RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store's file will be, in a folder that is not there yet."""
    return tmp_path / "new" / "exact.sqlite3"


async def test_keeps_its_files_private(path: Path) -> None:
    """The folder is made for its owner alone, and so is every file in it."""
    async with opened(path) as store:
        await store.put(b"k", b"v", ttl=HOUR)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert {stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()} == {0o600}


async def test_outlives_its_process_part(path: Path) -> None:
    """What was put is there when the file is opened again."""
    async with opened(path) as store:
        await store.put(b"k", b"v", ttl=HOUR)
    async with opened(path) as store:
        assert await store.get(b"k") == b"v"


async def test_never_touches_the_file_on_the_loop(path: Path) -> None:
    """Opening, every call and closing leave the event loop free."""
    with blockbuster_ctx():
        async with opened(path) as store:
            await store.put(b"k", b"v", ttl=HOUR, tags=("t",))
            assert await store.get(b"k") == b"v"
            assert await store.delete_tag("t") == 1
            await store.epoch()
            await store.stats()
            await store.clear()


async def test_evicts_the_oldest_past_its_bound(path: Path) -> None:
    """Past the bound those put longest ago leave, the youngest stay, and it is told."""
    sink = RecordingSink()
    async with opened(path, sink=sink, max_bytes=MIB) as store:
        for number in range(400):
            await store.put(key(number), bytes(10_000), ttl=HOUR)
        stats = await store.stats()
        assert MIB // 2 < stats.size <= MIB
        assert await store.get(key(0)) is None
        assert await store.get(key(399)) == bytes(10_000)
        evicted = sum(event.entries for event in sink.of(Evicted))
        assert evicted == 400 - stats.entries
        assert {event.cause for event in sink.of(Evicted)} == {"capacity"}
        assert sink.of(HeldBytes)[-1] == HeldBytes(
            part="store", size=stats.size, entries=stats.entries
        )
        assert store.statistics()["evicted"] == evicted
    assert held_rightly(path)


async def test_evicts_the_expired_first(path: Path) -> None:
    """An expired entry makes room before an older live one does."""
    clock, sink = FakeClock(), RecordingSink()
    async with opened(path, clock=clock, sink=sink, max_bytes=MIB) as store:
        await store.put(key(0), bytes(300_000), ttl=HOUR)
        await store.put(key(1), bytes(300_000), ttl=Seconds(1))
        await store.put(key(2), bytes(300_000), ttl=HOUR)
        clock.advance(2)
        await store.put(key(3), bytes(300_000), ttl=HOUR)
        assert await store.get(key(0)) == bytes(300_000)
        assert sink.of(Evicted) == [Evicted(part="store", cause="expired", entries=1)]


async def test_keeps_nothing_larger_than_itself(path: Path) -> None:
    """A value larger than the bound is not kept, nor is what it was to replace."""
    sink = RecordingSink()
    async with opened(path, sink=sink, max_bytes=MIB) as store:
        await store.put(b"other", b"v", ttl=HOUR)
        await store.put(b"k", b"v", ttl=HOUR)
        await store.put(b"k", bytes(MIB), ttl=HOUR)
        assert await store.get(b"k") is None
        assert await store.get(b"other") == b"v"
        assert sink.of(Evicted) == [Evicted(part="store", cause="capacity", entries=1)]


async def test_shrinks_to_a_smaller_bound(path: Path) -> None:
    """A file from a time of a larger bound is brought within the new one, step by step."""
    async with opened(path, max_bytes=48 * MIB) as store:
        for number in range(40):
            await store.put(key(number), bytes(MIB), ttl=HOUR)
    before = size_of(path)
    async with opened(path, max_bytes=4 * MIB) as store:
        for number in range(100):
            await store.put(b"k", b"%d" % number, ttl=HOUR)
        assert (await store.stats()).size <= 4 * MIB
    assert size_of(path) < before / 2


async def test_purges_the_expired_bit_by_bit(path: Path) -> None:
    """Each write takes some expired entries with it, so that none stay for ever."""
    clock = FakeClock()
    async with opened(path, clock=clock) as store:
        for number in range(100):
            await store.put(key(number), b"v", ttl=Seconds(1))
        clock.advance(2)
        await store.put(b"a", b"v", ttl=HOUR)
        await store.put(b"b", b"v", ttl=HOUR)
        await store.put(b"c", b"v", ttl=HOUR)
        assert store.statistics()["entries"] == 3


async def test_an_entry_costs_what_it_weighs(path: Path) -> None:
    """The file of many small entries stays near what the store believes it holds."""
    async with opened(path) as store:
        await asyncio.gather(*(store.put(os.urandom(32), b"v" * 20, ttl=HOUR) for _ in range(4000)))
    cost = 4000 * sqlite_writes.cost_of(b"v" * 20, ())
    assert size_of(path) < 1.25 * cost


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("sqlite", "{data}/exact.sqlite3"),
        ("sqlite://", "{data}/exact.sqlite3"),
        ("sqlite:///var/lib/a%20b.db", "/var/lib/a b.db"),
    ],
)
async def test_reads_its_url(url: str, place: str, tmp_path: Path) -> None:
    """A URL with a path means that path; without one, a file in the data folder."""
    store = open_sqlite(
        url, clock=FakeClock(), sink=RecordingSink(), max_bytes=MIB, data_dir=tmp_path
    )
    assert str(store._file.path) == place.format(data=tmp_path)
    await store.close()


@pytest.mark.parametrize("url", ["sqlite://cache.db", "sqlite:///x?mode=ro", "sqlite:///x#y"])
async def test_refuses_a_url_it_would_misread(url: str, tmp_path: Path) -> None:
    """A host, a query or a fragment is a mistake, and is said so."""
    with pytest.raises(ConfigError, match="sqlite:///absolute/path"):
        open_sqlite(url, clock=FakeClock(), sink=RecordingSink(), max_bytes=MIB, data_dir=tmp_path)
