"""Whatever becomes of the cache's parts in mid-run, every request is answered."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.house import body_of, marks, open_house

from askonce.errors import EmbedderError
from askonce.testing.embedders import HashingEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.gateway.house import House

    from askonce.ports import Vector

pytestmark = pytest.mark.anyio

QUICK: dict[str, Any] = {
    "exact": {"deadline": 0.3, "memory_bytes": 0},
    "breaker": {"failures": 2, "cooldown": 0.3},
}


def databases(data_dir: Path) -> list[Path]:
    return [path for path in data_dir.iterdir() if ".sqlite3" in path.name and path.is_file()]


@contextmanager
def garbage(data_dir: Path) -> Iterator[None]:
    """The files are overwritten in place with nonsense."""
    for path in databases(data_dir):
        path.write_bytes(os.urandom(40_000))
    yield


@contextmanager
def replaced(data_dir: Path) -> Iterator[None]:
    """Other files stand where they were."""
    for path in databases(data_dir):
        path.unlink()
        path.write_bytes(b"not a database " * 1000)
    yield


@contextmanager
def deleted(data_dir: Path) -> Iterator[None]:
    """The files are gone."""
    for path in databases(data_dir):
        path.unlink()
    yield


@contextmanager
def locked(data_dir: Path, *, readers_too: bool = False) -> Iterator[None]:
    """Another process holds the lock of all writers; before anybody is there, of readers too."""
    code = (
        "import sqlite3, sys\n"
        "held = [sqlite3.connect(path, isolation_level=None) for path in sys.argv[2:]]\n"
        "[c.execute('PRAGMA locking_mode = ' + sys.argv[1]).fetchone() for c in held]\n"
        "[c.execute('BEGIN EXCLUSIVE') for c in held]\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    mode = "EXCLUSIVE" if readers_too else "NORMAL"
    mains = [str(path) for path in databases(data_dir) if path.suffix == ".sqlite3"]
    with subprocess.Popen(
        [sys.executable, "-c", code, mode, *mains],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(5)


@contextmanager
def a_folder(data_dir: Path) -> Iterator[None]:
    """A folder stands in each file's place, so that no new one can be made."""
    mains = [path for path in databases(data_dir) if path.suffix == ".sqlite3"]
    for path in mains:
        path.unlink()
        path.mkdir()
    yield
    for path in mains:
        path.rmdir()


async def answered(house: House, text: str) -> list[str]:
    """Ask, and see that the answer is right; its marks."""
    answer = await house.ask(body_of(text))
    assert answer.status == 200
    assert str(answer.json["choices"][0]["message"]["content"]).endswith(text)
    return marks(answer)


@pytest.mark.parametrize("breaks", [garbage, replaced, deleted, locked, a_folder])
async def test_a_broken_database_costs_no_answer_and_heals(
    tmp_path: Path, breaks: Callable[[Path], AbstractContextManager[None]]
) -> None:
    """While the files are broken all is answered rightly in time; then hits come back."""
    async with open_house(tmp_path, embedder=HashingEmbedder(), **QUICK) as house:
        await answered(house, "before")
        assert (await answered(house, "before"))[1] == "hit"
        with breaks(tmp_path):
            for i in range(12):
                started = time.monotonic()
                assert (await answered(house, f"during {i}"))[1] in {"fwd=miss", "fwd=bypass"}
                assert time.monotonic() - started < 5
        healed: list[str] = []
        async with asyncio.timeout(10):
            while "hit" not in healed:
                await asyncio.sleep(0.05)
                healed = await answered(house, "after")


class Failing(HashingEmbedder):
    """An embedder that raises or hangs."""

    def __init__(self, *, hangs: bool) -> None:
        super().__init__()
        self.works = False
        self._hangs = hangs

    async def embed(self, text: str) -> Vector:
        if self.works:
            return await super().embed(text)
        if self._hangs:
            await asyncio.Event().wait()
        raise EmbedderError("dead")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_dead_embedder_costs_its_deadline_at_most(tmp_path: Path, *, hangs: bool) -> None:
    """Answers come without meaning, the breaker shows in marks and metrics, then it heals."""
    embedder = Failing(hangs=hangs)
    sections: dict[str, Any] = {
        "semantic": {"deadline": 0.2},
        "breaker": {"failures": 3, "cooldown": 1.0},
    }
    async with open_house(tmp_path, embedder=embedder, **sections) as house:
        state = 'askonce_breaker_state{part="semantic"}'
        seen = []
        for i in range(5):
            body = body_of(f"question {i}", stream=i % 2 == 0)
            answer = await asyncio.wait_for(house.send_only(body), 5)
            assert answer.status == 200
            seen.append(marks(answer)[-1])
        cause = "deadline" if hangs else "error"
        assert seen == [f'detail="semantic_{cause}"'] * 3 + ['detail="semantic_breaker"'] * 2
        assert await house.metric(state) == 2
        skipped = f'askonce_steps_skipped_total{{cause="{cause}",part="semantic"}}'
        assert await house.metric(skipped) == 3
        assert (await house.ask(body_of("question 0"))).headers["x-cache"] == "HIT"
        embedder.works = True
        await asyncio.sleep(1.0)
        await house.ask(body_of("question 0?"))
        assert await house.metric(state) == 0


async def test_a_locked_database_does_not_hold_up_the_start(tmp_path: Path) -> None:
    """A gateway that starts beside a locked database answers at once, without it."""
    async with open_house(tmp_path, **QUICK) as house:
        await answered(house, "before")
    with locked(tmp_path, readers_too=True):
        started = time.monotonic()
        async with open_house(tmp_path, **QUICK) as house:
            assert time.monotonic() - started < 4
            answer = await house.send_only(body_of("during"))
    assert (answer.status, marks(answer)[-1]) == (200, 'detail="store_deadline"')
    async with open_house(tmp_path, **QUICK) as house:
        assert (await answered(house, "before"))[1] == "hit"
