"""A process that is killed while it writes costs nobody an answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.stores.sqlite import sqlite_child
from tests.stores.sqlite.sqlite_child import KEYS, is_right, key_of, open_at
from tests.stores.sqlite.sqlite_support import (
    BOUND,
    FOLDER_BOUND,
    HOUR,
    folder_size,
    held_rightly,
    set_aside,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

KILLS = 200
KILLS_IN_COMPANY = 20

SCRIPT = Path(sqlite_child.__file__)
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file that all use."""
    return tmp_path / "exact.sqlite3"


@pytest.mark.timeout(180)
def test_a_kill_at_any_moment_harms_nothing(path: Path) -> None:
    """Killed 200 times while writing: no wrong value, no lost start, no growth."""
    chance = random.Random(4)
    found = 0
    with nursery(path) as ask:
        for kill in range(KILLS):
            child = int(ask(str(kill)))
            time.sleep(chance.uniform(0.0, 0.12))
            os.kill(child, signal.SIGKILL)
            assert ask(None) == "ended"
            found = asyncio.run(check(path))
            assert held_rightly(path)
            assert folder_size(path) < FOLDER_BOUND
    assert found > 0
    assert set_aside(path) == []


@pytest.mark.timeout(120)
def test_a_kill_harms_no_one_who_goes_on(path: Path) -> None:
    """Killed beside a process that writes on: its values, its totals and its file stay right."""
    chance = random.Random(5)
    with nursery(path) as ask, nursery(path) as ask_other:
        other = int(ask_other("1000"))
        for kill in range(KILLS_IN_COMPANY):
            child = int(ask(str(kill)))
            time.sleep(chance.uniform(0.0, 0.12))
            os.kill(child, signal.SIGKILL)
            assert ask(None) == "ended"
            asyncio.run(read_all(path))
            assert held_rightly(path)
        os.kill(other, signal.SIGKILL)
        assert ask_other(None) == "ended"
    assert asyncio.run(check(path)) > 0
    assert folder_size(path) < FOLDER_BOUND
    assert set_aside(path) == []


@contextlib.contextmanager
def nursery(path: Path) -> Iterator[Ask]:
    """A process that forks writers; yields a way to talk to it."""
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "nursery", path, str(BOUND)],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Ask(process)
    finally:
        process.communicate(timeout=10)


class Ask:
    """Lines to and from a process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Talk to this one."""
        self._process = process

    def __call__(self, line: str | None) -> str:
        """Send a line if there is one, and return the next that comes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if line is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return self._process.stdout.readline().strip()


async def check(path: Path) -> int:
    """Read every key, put one; returns how many values there were."""
    found = await read_all(path)
    store = open_at(path, BOUND)
    await store.put(b"alive", b"yes", ttl=HOUR)
    assert await store.get(b"alive") == b"yes"
    await store.close()
    return found


async def read_all(path: Path) -> int:
    """Open the store and read every key; returns how many values there were."""
    store = open_at(path, BOUND)
    values = [(key_of(number), await store.get(key_of(number))) for number in range(KEYS)]
    await store.close()
    assert all(value is None or is_right(wanted, value) for wanted, value in values)
    return sum(value is not None for _, value in values)
