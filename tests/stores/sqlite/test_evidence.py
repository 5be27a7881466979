"""The evidence log: its promises, its bound, its faults, its followers in other processes."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import zlib
from typing import TYPE_CHECKING

import msgspec
import pytest
from blockbuster import blockbuster_ctx
from tests.stores.sqlite.sqlite_support import (
    MIB,
    content_of,
    limit_file,
    overwrite,
    set_aside,
)

from askonce.errors import StoreError
from askonce.stores.sqlite.evidence import SqliteEvidence, open_evidence
from askonce.stores.sqlite.store import SqliteStore
from askonce.stores.sqlite.writes import STUCK_SECONDS
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.evidence import MemoryEvidenceLog, check_evidence_log, example_evidence
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from askonce.ports import EvidenceLog

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log's file will be."""
    return tmp_path / "new" / "evidence.sqlite3"


@contextlib.asynccontextmanager
async def opened(path: Path, *, max_bytes: int = 4 * MIB) -> AsyncIterator[SqliteEvidence]:
    """An open log."""
    log = SqliteEvidence(path, clock=FakeClock(), sink=RecordingSink(), max_bytes=max_bytes)
    try:
        yield log
    finally:
        await log.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_keeps_the_promises_of_its_port(kind: str, tmp_path: Path) -> None:
    """It is an EvidenceLog."""
    count = iter(range(100))

    def make() -> EvidenceLog:
        if kind == "memory":
            return MemoryEvidenceLog(clock=FakeClock())
        return open_evidence(
            tmp_path / f"{next(count)}.sqlite3",
            clock=FakeClock(),
            sink=RecordingSink(),
            max_bytes=MIB,
        )

    await check_evidence_log(make)


async def test_outlives_its_process_part(path: Path) -> None:
    """What was appended is there when the file is opened again, and seqs go on."""
    async with opened(path) as log:
        last = await log.append([example_evidence(1)])
    async with opened(path) as log:
        assert [record.seq for record in await log.since(0, 10)] == [last]
        assert await log.append([example_evidence(2)]) > last


async def test_is_followed_by_others(path: Path) -> None:
    """A second holder of the file sees what the first appends and retracts."""
    async with opened(path) as one, opened(path) as other:
        last = await one.append([example_evidence(1)])
        assert [record.seq for record in await other.since(0, 10)] == [last]
        assert await other.retract(example_evidence(1).entry) == 1
        assert [record.retracted for record in await one.since(0, 10)] == [True, True]


async def test_lets_the_oldest_leave(path: Path) -> None:
    """Past its bound the oldest records leave, and the youngest stay."""
    async with opened(path, max_bytes=MIB) as log:
        for start in range(0, 6000, 500):
            await log.append([example_evidence(number) for number in range(start, start + 500)])
        stats = await log.stats()
        assert 500 < stats.entries < 5000
        assert stats.size <= MIB
        oldest = (await log.since(0, 1))[0]
        assert oldest.question == (6000 - stats.entries).to_bytes(32, "big")
        assert log.statistics()["evicted"] == 6000 - stats.entries
        assert log.statistics()["entries"] == stats.entries


async def test_memory_lets_the_oldest_leave() -> None:
    """The fake is bounded as well."""
    log = MemoryEvidenceLog(clock=FakeClock(), max_records=2)
    await log.append([example_evidence(number) for number in range(5)])
    assert [record.question[-1] for record in await log.since(0, 10)] == [3, 4]


async def test_seqs_grow_past_a_lost_file(path: Path) -> None:
    """Whoever follows the log misses nothing when its file is made anew."""
    async with opened(path) as log:
        last = await log.append([example_evidence(number) for number in range(3)])
        for found in path.parent.iterdir():
            found.unlink()
        assert await log.append([example_evidence(9)]) > last


async def test_a_full_disk_deletes_no_log(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However long nothing can be written, its file stays; that of the answers would go."""
    clock = FakeClock()
    large = msgspec.structs.replace(example_evidence(1), look=bytes(1_000_000))
    log = SqliteEvidence(path, clock=clock, sink=RecordingSink(), max_bytes=4 * MIB)
    try:
        await log.append([example_evidence(1)])
        file = path.stat().st_ino
        await limit_file(log, 1)
        for _ in range(3):
            with pytest.raises(StoreError, match="full"):
                await log.append([large])
            clock.advance(STUCK_SECONDS)
        assert path.stat().st_ino == file
        assert caplog.messages == []
        await limit_file(log, 1000)
        assert await log.append([large]) > 0
    finally:
        await log.close()


@pytest.mark.parametrize("call", ["since", "retract"])
async def test_sets_a_rotten_file_aside(
    path: Path, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A record with a flipped bit is a fault of the read or write that finds it, once, and told."""
    async with opened(path) as log:
        await log.append([example_evidence(1)])
    content = content_of(path)
    content[content.rindex(b"support") + 2] ^= 1
    overwrite(path, content)
    async with opened(path) as log:
        with pytest.raises(StoreError, match="not what was appended"):
            await (log.since(0, 1) if call == "since" else log.retract(example_evidence(1).entry))
        assert await log.since(0, 10) == []
        assert await log.append([example_evidence(2)]) > 0
    assert set_aside(path) == [".corrupt-1"]
    assert caplog.messages == [f"{path} cannot be used: set aside as {path.name}.corrupt-1"]


async def test_tells_of_a_file_of_another_version(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What it held is not lost in silence."""
    async with opened(path) as log:
        await log.append([example_evidence(1)])
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    async with opened(path) as log:
        assert await log.since(0, 10) == []
    assert caplog.messages == [f"{path} cannot be used: set aside as {path.name}.version-1"]


async def test_a_record_of_another_shape_is_a_fault(path: Path) -> None:
    """Bytes that are sound and no record are a fault."""
    async with opened(path) as log:
        await log.append([example_evidence(1)])
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE entry SET value = x'80', checksum = 0")
            other.create_function("crc", 1, zlib.crc32)
            other.execute("UPDATE entry SET checksum = crc(value)")
        with pytest.raises(StoreError, match="none"):
            await log.since(0, 1)


async def test_leaves_the_answers_file_alone(path: Path) -> None:
    """The file of another kind of store is not taken for a log, nor the other way round."""
    store = SqliteStore(path, clock=FakeClock(), sink=RecordingSink(), max_bytes=MIB)
    await store.put(b"k", b"v", ttl=Seconds(60.0))
    async with opened(path) as log:
        with pytest.raises(StoreError, match="another program's"):
            await log.stats()
    assert await store.get(b"k") == b"v"
    await store.close()


async def test_never_touches_the_file_on_the_loop(path: Path) -> None:
    """No call blocks the event loop."""
    with blockbuster_ctx():
        async with opened(path) as log:
            await asyncio.gather(*(log.append([example_evidence(n)]) for n in range(8)))
            await log.since(0, 10)
            await log.retract(example_evidence(1).entry)
            await log.stats()
