"""The SQLite store under bad files, full disks, locks and too much work."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from tests.stores.sqlite.sqlite_support import (
    HOUR,
    MIB,
    content_of,
    held_rightly,
    key,
    limit_file,
    opened,
    overwrite,
    set_aside,
    size_of,
)

from askonce.errors import StoreError
from askonce.events import Evicted
from askonce.stores.sqlite import file as sqlite_file
from askonce.stores.sqlite import writes as sqlite_writes
from askonce.stores.sqlite.file import SCHEMA_VERSION
from askonce.stores.sqlite.store import SqliteStore
from askonce.testing import FakeClock, RecordingSink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store's file will be, in a folder that is not there yet."""
    return tmp_path / "new" / "exact.sqlite3"


@pytest.mark.parametrize("garbage", [b"not a database at all" * 500, b"SQLite format 3\x00" * 300])
async def test_sets_garbage_aside_at_start(path: Path, garbage: bytes) -> None:
    """A file that is no database is set aside, once, and a new one serves at once."""
    for turn in (1, 2):
        overwrite(path, garbage)
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
    content = content_of(path)
    content[content.rindex(b"truth")] ^= 1
    overwrite(path, content)
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
    before = content_of(path)
    async with opened(path) as store:
        with pytest.raises(StoreError, match="another program's"):
            await store.get(b"k")
        with pytest.raises(StoreError, match="another program's"):
            await store.put(b"k", b"v", ttl=HOUR)
    assert content_of(path) == before


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
        await limit_file(store, size_of(path) // 8192 + 1)
        outcomes = [await put_outcome(store, number) for number in range(60, 160)]
        assert "StoreError" in outcomes
        assert outcomes.count("ok") > 50
        assert await store.get(key(59 + 100)) == bytes(50_000)
        assert sink.of(Evicted)
    assert held_rightly(path)


async def test_a_full_disk_that_no_eviction_helps_heals_in_the_end(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While nothing can be written, puts fail and gets answer; then the file goes, and is told."""
    clock = FakeClock()
    async with opened(path, clock=clock) as store:
        await store.put(b"k", b"v", ttl=HOUR)
        before = await store.epoch()
        await limit_file(store, 1)
        for number in range(3):
            assert await put_outcome(store, number) == "StoreError"
            assert await store.get(b"k") in {b"v", None}
        clock.advance(sqlite_writes.STUCK_SECONDS)
        assert await put_outcome(store, 4) == "StoreError"
        assert await put_outcome(store, 5) == "ok"
        assert await store.get(key(5)) == bytes(50_000)
        assert await store.epoch() > before
        assert set_aside(path) == []
        assert caplog.messages == [f"{path} had no room for too long: deleted"]


async def test_does_not_wait_for_ever_to_open(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hangs while it holds the lock file costs the others a fault, not a hang."""
    monkeypatch.setattr(sqlite_file, "OPEN_BUSY_SECONDS", 0.02)
    async with opened(path) as store:
        with lock_held(path), pytest.raises(StoreError, match="cannot open"):
            await store.get(b"k")
        assert await store.get(b"k") is None


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


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everything")
async def test_heals_when_its_file_may_be_written_again(path: Path) -> None:
    """A file that is read-only for a time fails puts and serves gets; then all is well."""
    async with opened(path) as store:
        await store.put(b"k", b"v", ttl=HOUR)
    path.chmod(0o400)
    async with opened(path) as store:
        with pytest.raises(StoreError, match="readonly"):
            await store.put(b"k", b"w", ttl=HOUR)
        assert await store.get(b"k") == b"v"
    path.chmod(0o600)
    async with opened(path) as store:
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
    monkeypatch.setattr("askonce.stores.sqlite.store.WAITING_BYTES", 3 * MIB)
    async with opened(path) as store:
        outcomes = await asyncio.gather(
            *(store.put(key(number), bytes(MIB), ttl=HOUR) for number in range(5)),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [type(None)] * 3 + [StoreError] * 2
        assert store.statistics()["bytes_waiting"] == 0


async def fill_then_damage(path: Path) -> None:
    """Leave a file whose first pages are sound and whose others are noise."""
    async with opened(path) as store:
        for number in range(300):
            await store.put(key(number), bytes([number % 256]) * 3000, ttl=HOUR)
    content = content_of(path)
    content[20 * 8192 :] = os.urandom(len(content) - 20 * 8192)
    overwrite(path, content)


@contextlib.contextmanager
def lock_held(path: Path) -> Iterator[None]:
    """Hold the lock file, as a process that opens the store does."""
    path.parent.mkdir()
    with path.with_name(f"{path.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
