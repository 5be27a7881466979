"""The SQLite store under bad files, full disks, locks and bounds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import stat
from typing import TYPE_CHECKING

import pytest
from blockbuster import blockbuster_ctx

from askonce.errors import ConfigError, StoreError
from askonce.events import Evicted, HeldBytes
from askonce.stores import sqlite_writes
from askonce.stores.sqlite import SqliteStore, open_sqlite
from askonce.stores.sqlite_file import SCHEMA_VERSION
from askonce.testing import FakeClock, RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

HOUR = Seconds(3600.0)
MIB = 1024 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store's file will be, in a folder that is not there yet."""
    return tmp_path / "new" / "exact.sqlite3"


@contextlib.asynccontextmanager
async def opened(
    path: Path,
    *,
    clock: FakeClock | None = None,
    sink: RecordingSink | None = None,
    max_bytes: int = 64 * MIB,
) -> AsyncIterator[SqliteStore]:
    """An open store."""
    store = SqliteStore(
        path, clock=clock or FakeClock(), sink=sink or RecordingSink(), max_bytes=max_bytes
    )
    try:
        yield store
    finally:
        await store.close()


def key(number: int) -> bytes:
    """A key as long as real ones."""
    return number.to_bytes(32, "big")


def held_rightly(path: Path) -> bool:
    """Whether the running totals in the file are what the entries add up to."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        held = connection.execute("SELECT entries, size, cost FROM held").fetchone()
        counted = connection.execute(
            "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(cost), 0) FROM entry"
        ).fetchone()
        orphans = connection.execute(
            "SELECT count(*) FROM tag WHERE entry NOT IN (SELECT id FROM entry)"
        ).fetchone()[0]
    return bool(held == counted and orphans == 0)


def set_aside(path: Path) -> list[str]:
    """Names of the files that were set aside."""
    return sorted(
        found.name.removeprefix(path.name)
        for found in path.parent.iterdir()
        if ".corrupt-" in found.name or ".version-" in found.name
    )


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
    before = path.stat().st_size
    async with opened(path, max_bytes=4 * MIB) as store:
        for number in range(100):
            await store.put(b"k", b"%d" % number, ttl=HOUR)
        assert (await store.stats()).size <= 4 * MIB
    assert path.stat().st_size < before / 2


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


@pytest.mark.parametrize("garbage", [b"not a database at all" * 500, b"SQLite format 3\x00" * 300])
async def test_sets_garbage_aside_at_start(path: Path, garbage: bytes) -> None:
    """A file that is no database is set aside, once, and a new one serves at once."""
    for turn in (1, 2):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(garbage)
        async with opened(path) as store:
            await store.put(b"k", b"v", ttl=HOUR)
            assert await store.get(b"k") == b"v"
            assert store.statistics()["files_set_aside"] == 1
        assert set_aside(path) == [f".corrupt-{turn}"]
        assert path.with_name(f"{path.name}.corrupt-{turn}").read_bytes() == garbage


async def test_heals_from_garbage_pages_at_run_time(path: Path) -> None:
    """Pages that turn to garbage cost the call that finds them; then a new file serves."""
    await fill_then_damage(path)
    async with opened(path) as store:
        outcomes = [await answer(store, key(number)) for number in range(300)]
        assert outcomes == ["StoreError"] + [None] * 299
        await store.put(b"k", b"v", ttl=HOUR)
        assert await store.get(b"k") == b"v"
    assert set_aside(path) == [".corrupt-1"]


async def test_heals_from_garbage_found_by_a_write(path: Path) -> None:
    """A write that finds garbage fails, the next succeeds, and holders of copies are told."""
    await fill_then_damage(path)
    async with opened(path) as store:
        before = await store.epoch()
        with pytest.raises(StoreError, match="malformed"):
            await store.put(key(7), b"w", ttl=HOUR)
        assert await store.epoch() > before
        await store.put(key(7), b"w", ttl=HOUR)
        assert await store.get(key(7)) == b"w"
    assert set_aside(path) == [".corrupt-1"]


async def test_never_returns_a_rotten_value(path: Path) -> None:
    """A bit that flips inside a value, where SQLite sees nothing, is a fault and not an answer."""
    value = b"the whole truth " * 1000
    async with opened(path) as store:
        await store.put(b"k", value, ttl=HOUR)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"truth")] ^= 1
    path.write_bytes(content)
    async with opened(path) as store:
        with pytest.raises(StoreError, match="not what was put"):
            await store.get(b"k")
        assert await store.get(b"k") is None
    assert set_aside(path) == [".corrupt-1"]


async def test_the_epoch_grows_past_a_broken_file(path: Path) -> None:
    """A file made anew starts past every epoch that this process has seen."""
    async with opened(path) as store:
        for _ in range(3):
            await store.delete(b"k")
        before = await store.epoch()
        for found in path.parent.iterdir():
            found.unlink()
        assert await store.epoch() > before


async def test_sets_another_version_aside(path: Path) -> None:
    """A file of another schema version is set aside whole, and one is kept."""
    for turn in (1, 2):
        async with opened(path) as store:
            await store.put(b"k", b"v", ttl=HOUR)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        async with opened(path) as store:
            assert await store.get(b"k") is None
        assert set_aside(path) == [f".version-{turn}"]


async def test_sets_a_file_without_its_tables_aside(path: Path) -> None:
    """A database with our mark and without our tables is broken."""
    async with opened(path) as store:
        await store.put(b"k", b"v", ttl=HOUR)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE entry")
    async with opened(path) as store:
        assert await store.get(b"k") is None
    assert set_aside(path) == [".corrupt-1"]


async def test_leaves_a_stranger_alone(path: Path) -> None:
    """Another program's database is neither used nor moved."""
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    async with opened(path) as store:
        with pytest.raises(StoreError, match="another program's"):
            await store.get(b"k")
        with pytest.raises(StoreError, match="another program's"):
            await store.put(b"k", b"v", ttl=HOUR)
    assert path.read_bytes() == before


async def test_goes_on_when_its_file_is_taken_away(path: Path) -> None:
    """A file that is deleted or replaced beneath the store costs its entries only."""
    async with opened(path) as store:
        await store.put(b"k", b"v", ttl=HOUR)
        for found in path.parent.iterdir():
            found.unlink()
        assert await store.get(b"k") is None
        await store.put(b"k", b"w", ttl=HOUR)
        assert await store.get(b"k") == b"w"


async def test_fails_fast_when_it_cannot_be_opened(tmp_path: Path) -> None:
    """A path that cannot be a file is a fault of each call, not a crash."""
    (tmp_path / "file").write_bytes(b"")
    async with opened(tmp_path / "file" / "exact.sqlite3") as store:
        with pytest.raises(StoreError, match="cannot open"):
            await store.get(b"k")
        with pytest.raises(StoreError, match="cannot open"):
            await store.put(b"k", b"v", ttl=HOUR)


async def test_a_locked_file_fails_writes_fast_and_serves_reads(path: Path) -> None:
    """While another holds the write lock, puts fail together and soon, gets work, then all does."""
    async with opened(path) as store:
        await store.put(b"k", b"v", ttl=HOUR)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(1):
                outcomes = await asyncio.gather(
                    *(store.put(key(number), b"w", ttl=HOUR) for number in range(100)),
                    return_exceptions=True,
                )
            assert {type(outcome) for outcome in outcomes} == {StoreError}
            assert await store.get(b"k") == b"v"
            other.execute("ROLLBACK")
        await store.put(b"k", b"w", ttl=HOUR)
        assert await store.get(b"k") == b"w"


async def test_a_full_disk_fails_puts_and_heals(path: Path) -> None:
    """A put for which there is no page fails, gets work, and eviction makes room for the next."""
    sink = RecordingSink()
    async with opened(path, sink=sink) as store:
        for number in range(60):
            await store.put(key(number), bytes(50_000), ttl=HOUR)
        await limit_file(store, path.stat().st_size // 8192 + 1)
        outcomes = [await put_outcome(store, number) for number in range(60, 160)]
        assert "StoreError" in outcomes
        assert outcomes.count("ok") > 50
        assert await store.get(key(59 + 100)) == bytes(50_000)
        assert sink.of(Evicted)
    assert held_rightly(path)


async def test_a_full_disk_with_nothing_to_evict_stays_a_fault(path: Path) -> None:
    """Where no eviction can help, every put fails and every get still answers."""
    async with opened(path) as store:
        await store.put(b"k", b"v", ttl=HOUR)
        await limit_file(store, 1)
        for number in range(3):
            assert await put_outcome(store, number) == "StoreError"
        assert await store.get(b"k") in {b"v", None}


async def test_a_write_that_is_refused_leaves_reads_alone(path: Path) -> None:
    """A file that may not be written fails puts and serves gets."""
    async with opened(path) as store:
        await store.put(b"k", b"v", ttl=HOUR)
        await store._writer.run(
            lambda: store._writing.connection().execute("PRAGMA query_only = 1").fetchone()
        )
        with pytest.raises(StoreError, match="readonly"):
            await store.put(b"k", b"w", ttl=HOUR)
        assert await store.get(b"k") == b"v"
        await store.put(b"k", b"w", ttl=HOUR)
        assert await store.get(b"k") == b"w"


async def test_sheds_when_too_many_wait(path: Path) -> None:
    """Calls past the queue's bound raise StoreError at once and harm no other."""
    store = SqliteStore(path, clock=FakeClock(), sink=RecordingSink(), max_bytes=64 * MIB, queue=2)
    outcomes = await asyncio.gather(
        *(store.put(key(number), b"v", ttl=HOUR) for number in range(10)), return_exceptions=True
    )
    assert outcomes[:2] == [None, None]
    assert {type(outcome) for outcome in outcomes[2:]} == {StoreError}
    await store.close()


async def test_sheds_when_too_many_bytes_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that wait to be written take a bounded amount of memory."""
    monkeypatch.setattr("askonce.stores.sqlite.WAITING_BYTES", 3 * MIB)
    async with opened(path) as store:
        outcomes = await asyncio.gather(
            *(store.put(key(number), bytes(MIB), ttl=HOUR) for number in range(5)),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [type(None)] * 3 + [StoreError] * 2
        assert store.statistics()["bytes_waiting"] == 0


async def test_an_entry_costs_what_it_weighs(path: Path) -> None:
    """The file of many small entries stays near what the store believes it holds."""
    async with opened(path) as store:
        await asyncio.gather(*(store.put(os.urandom(32), b"v" * 20, ttl=HOUR) for _ in range(4000)))
    cost = 4000 * sqlite_writes.cost_of(b"v" * 20, ())
    assert path.stat().st_size < 1.25 * cost


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


async def fill_then_damage(path: Path) -> None:
    """Leave a file whose first pages are sound and whose others are noise."""
    async with opened(path) as store:
        for number in range(300):
            await store.put(key(number), bytes([number % 256]) * 3000, ttl=HOUR)
    content = bytearray(path.read_bytes())
    content[20 * 8192 :] = os.urandom(len(content) - 20 * 8192)
    path.write_bytes(content)


async def answer(store: SqliteStore, wanted: bytes) -> bytes | str | None:
    """What a get comes to."""
    try:
        return await store.get(wanted)
    except StoreError:
        return "StoreError"


async def put_outcome(store: SqliteStore, number: int) -> str:
    """What a put of 50 kB comes to."""
    try:
        await store.put(key(number), bytes(50_000), ttl=HOUR)
    except StoreError:
        return "StoreError"
    return "ok"


async def limit_file(store: SqliteStore, pages: int) -> None:
    """Let the file have no more pages, as a full disk would."""
    await store._writer.run(
        lambda: store._writing.connection().execute(f"PRAGMA max_page_count = {pages}").fetchone()
    )
