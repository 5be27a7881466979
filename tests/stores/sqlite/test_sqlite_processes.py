"""Several processes share one store file; one that is killed costs nobody an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stores.sqlite import sqlite_child
from tests.stores.sqlite.sqlite_support import (
    BOUND,
    FOLDER_BOUND,
    HOUR,
    folder_size,
    held_rightly,
    key,
    opened,
    set_aside,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SCRIPT = Path(sqlite_child.__file__)
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file that all share."""
    return tmp_path / "exact.sqlite3"


async def test_two_stores_see_each_other(path: Path) -> None:
    """What one puts, replaces or removes, the other sees at its next call."""
    async with opened(path) as one, opened(path) as other:
        before = await other.epoch()
        await one.put(b"k", b"v", ttl=HOUR, tags=("t",))
        assert await other.get(b"k") == b"v"
        assert await other.epoch() == before
        assert await other.delete_tag("t") == 1
        assert await one.get(b"k") is None
        assert await one.epoch() > before


async def test_a_healed_file_is_everybodys(path: Path) -> None:
    """When one sets a broken file aside, the other moves on to the new one with it."""
    async with opened(path) as one, opened(path) as other:
        await one.put(b"k", b"v", ttl=HOUR)
        assert await other.get(b"k") == b"v"
        before = await other.epoch()
        identity = one._file.identity()
        one._file.retire(identity)
        other._file.retire(identity)
        assert await one.get(b"k") is None
        await one.put(b"k", b"w", ttl=HOUR)
        assert await other.get(b"k") == b"w"
        assert await other.epoch() > before
        await other.put(key(1), b"x", ttl=HOUR)
    async with opened(path) as one:
        assert await one.get(b"k") == b"w"
        assert await one.get(key(1)) == b"x"
    assert set_aside(path) == [".corrupt-1"]


def test_processes_write_and_evict_together(path: Path) -> None:
    """Three writers past the bound: values and totals right, bound kept, few calls failed."""
    count = 300
    writers = [
        subprocess.Popen(
            [sys.executable, SCRIPT, "write", path, str(seed), str(count), str(BOUND)],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
        )
        for seed in range(3)
    ]
    failed = [int(writer.communicate(timeout=50)[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert sum(failed) < 3 * count / 2
    assert held_rightly(path)
    assert folder_size(path) < FOLDER_BOUND
    assert set_aside(path) == []
