"""Logs of what was taken back."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from askonce.errors import StoreError
from askonce.ports import Revocation, Selector
from askonce.stores.memory import MemoryRevocations
from askonce.stores.sqlite.revocations import SqliteRevocations
from askonce.stores.urls import open_revocations
from askonce.testing import FakeClock, RecordingSink, check_revocations
from askonce.units import UnixTime

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

RULE = Revocation(what=Selector(tag="old"), at=UnixTime(1.0))


def sqlite_log(folder: Path, max_bytes: int = 1 << 20) -> SqliteRevocations:
    """A log in a file of this folder."""
    path = folder / "revocations.sqlite3"
    return SqliteRevocations(path, clock=FakeClock(), sink=RecordingSink(), max_bytes=max_bytes)


async def test_memory_keeps_the_promises() -> None:
    """It is a RevocationLog of one process."""
    await check_revocations(lambda: MemoryRevocations(clock=FakeClock()), shared=False)


async def test_sqlite_keeps_the_promises(tmp_path: Path) -> None:
    """It is a RevocationLog that processes share."""
    await check_revocations(lambda: sqlite_log(tmp_path))


async def test_rules_that_left_take_all_that_is_as_old_with_them(tmp_path: Path) -> None:
    """Past its bound a log is born later than it was."""
    log = sqlite_log(tmp_path, max_bytes=2000)
    birth = (await log.read(0, 0)).birth
    for _ in range(60):
        last = await log.append(RULE)
    page = await log.read(0, 1000)
    assert birth < page.birth < last
    assert [rule.seq for rule in page.rules] == list(range(page.birth + 1, last + 1))
    await log.close()


async def test_a_lost_file_is_born_past_all_it_said(tmp_path: Path) -> None:
    """What older entries are stamped with is below a new log's birth."""
    log = sqlite_log(tmp_path)
    last = await log.append(RULE)
    for file in tmp_path.glob("revocations.sqlite3*"):
        file.unlink()
    assert (await log.read(0, 0)).birth > last
    await log.close()


@pytest.mark.parametrize("damage", ["UPDATE entry SET checksum = 0", "no rule"])
async def test_a_damaged_rule_makes_the_log_begin_anew(tmp_path: Path, damage: str) -> None:
    """Rules that cannot be read are no reason to serve what they took back."""
    log = sqlite_log(tmp_path)
    last = await log.append(RULE)
    with sqlite3.connect(tmp_path / "revocations.sqlite3") as file:
        if damage == "no rule":
            file.execute("UPDATE entry SET value = x'c0', checksum = ?", (0x8FE62D23,))
            (value,) = file.execute("SELECT value FROM entry").fetchone()
            import zlib

            file.execute("UPDATE entry SET checksum = ?", (zlib.crc32(value),))
        else:
            file.execute(damage)
    with pytest.raises(StoreError):
        await log.read(0, 10)
    assert (await log.read(0, 10)).birth > last
    await log.close()


async def test_it_stands_beside_the_store(tmp_path: Path) -> None:
    """A store's URL says where its log is."""
    clock, sink, data = FakeClock(), RecordingSink(), tmp_path / "data"
    for url, where in {
        "sqlite": data,
        "third-party://host": data,
        f"sqlite://{tmp_path}/other/exact.sqlite3": tmp_path / "other",
    }.items():
        log = open_revocations(url, clock=clock, sink=sink, data_dir=data)
        await log.append(RULE)
        assert (where / "revocations.sqlite3").exists()
        await log.close()
    memory = open_revocations("memory", clock=clock, sink=sink, data_dir=data)
    assert isinstance(memory, MemoryRevocations)
