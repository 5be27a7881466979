"""Files whose change takes answers back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.policy.test_revocation import ENTRY

from askonce.errors import StoreError
from askonce.invalidation.desk import InvalidationDesk
from askonce.invalidation.files import FileWatch, follow_files
from askonce.invalidation.watch import Watch
from askonce.ports import Selector
from askonce.stores.memory import MemoryRevocations, MemoryStore
from askonce.testing import FakeClock, RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Replica:
    """One of several over one log."""

    def __init__(self, log: MemoryRevocations, clock: FakeClock) -> None:
        store = MemoryStore(clock=clock, sink=RecordingSink(), max_bytes=1 << 20)
        self.watch = Watch(log, clock=clock, patience=Seconds(5))
        self.desk = InvalidationDesk(self.watch, store, None, None, clock=clock)


async def test_a_change_is_taken_note_of_once(tmp_path: Path) -> None:
    """By whichever replica sees it first; the others only learn of it."""
    clock, path = FakeClock(), tmp_path / "model-version"
    log = MemoryRevocations(clock=clock)
    one, other = Replica(log, clock), Replica(log, clock)
    file = FileWatch("weights", path, Selector(model="m"))
    assert not await file.look(one.watch, one.desk)
    path.write_text("1")
    assert await file.look(one.watch, one.desk)
    assert not await file.look(one.watch, one.desk)
    assert not await file.look(other.watch, other.desk)
    entry = replace(ENTRY, stamp=other.watch.stamp)
    path.write_text("2")
    assert await file.look(other.watch, other.desk)
    assert not other.watch.serves(entry)
    assert not await file.look(one.watch, one.desk)
    assert not one.watch.serves(entry)


async def test_files_are_followed_through_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A log that fails is asked again."""
    monkeypatch.setattr("askonce.invalidation.files.INTERVAL", 0)
    clock, path = FakeClock(), tmp_path / "policy.md"
    path.write_text("old")
    log = MemoryRevocations(clock=clock)
    replica = Replica(log, clock)
    append = log.append
    failed: list[object] = []

    async def fails_once(rule: object) -> int:
        if not failed:
            failed.append(rule)
            raise StoreError("gone")
        return await append(rule)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "append", fails_once)
    files = {"policy": FileWatch("policy", path, Selector(tag="policy"))}
    task = asyncio.create_task(follow_files(files, replica.watch, replica.desk))
    async with asyncio.timeout(5):
        while replica.watch.said_by("file policy") is None:
            await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "policy changed" in caplog.text
