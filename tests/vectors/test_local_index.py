"""The local index: its promises, its bounds, its processes and its faults."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from askonce.errors import MissingExtra, VectorIndexError
from askonce.events import Evicted, HeldBytes
from askonce.ports import IndexedText
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.shared_vectors import check_shared_index
from askonce.testing.vectors import HERE, LONG, THERE, check_vector_index, key_of, unit
from askonce.units import UnixTime
from askonce.vectors.faiss import FaissIndex
from askonce.vectors.local import LocalIndex

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from askonce.ports import Vector

pytestmark = pytest.mark.anyio

DIM = 8
FAISS = {"kind": FaissIndex}


@pytest.fixture
def clock() -> FakeClock:
    """The clock that all indexes of a test share."""
    return FakeClock()


@pytest.fixture
def sink() -> RecordingSink:
    """The sink that all indexes of a test share."""
    return RecordingSink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file that all indexes of a test share."""
    return tmp_path / "folder" / "vectors.sqlite3"


@pytest.fixture
async def make(
    path: Path, clock: FakeClock, sink: RecordingSink
) -> AsyncIterator[Callable[..., LocalIndex]]:
    """Makes an index over the shared file; closed after the test."""
    made: list[LocalIndex] = []

    def one(
        *,
        embedder: str = "e",
        dim: int = DIM,
        max_entries: int = 1000,
        resident: int | None = None,
        graph_from: int = 10_000,
        kind: type[LocalIndex] = LocalIndex,
    ) -> LocalIndex:
        index = kind(
            path,
            embedder=embedder,
            dim=dim,
            max_entries=max_entries,
            clock=clock,
            sink=sink,
            resident=resident,
            graph_from=graph_from,
        )
        made.append(index)
        return index

    yield one
    for index in made:
        await index.close()


def item(name: str, clock: FakeClock, life: float = LONG) -> IndexedText:
    """An item that lives as long as told."""
    return IndexedText(key_of(name), name, UnixTime(clock.now() + life))


def scattered(count: int, dim: int = DIM) -> list[Vector]:
    """Unit vectors in all directions, the same each time."""
    rows = np.random.default_rng(7).standard_normal((count, dim))
    return [unit(dim, *row) for row in rows]


async def names(
    index: LocalIndex, vector: Vector, partition: bytes = HERE, k: int = 5
) -> list[str]:
    """The texts found, best first."""
    return [near.item.text for near in await index.search(partition, vector, k=k)]


@pytest.mark.parametrize("options", [{}, {"graph_from": 2}, {"graph_from": 2, **FAISS}])
async def test_it_keeps_every_promise_of_the_port(
    make: Callable[..., LocalIndex], clock: FakeClock, options: dict[str, Any]
) -> None:
    """The suite passes, with a flat scan and with a graph of either kind."""
    await check_vector_index(lambda: make(**options), clock, dim=DIM)


@pytest.mark.parametrize("options", [{}, {"graph_from": 2}, {"graph_from": 2, **FAISS}])
async def test_processes_share_it_and_mend_it(
    make: Callable[..., LocalIndex], clock: FakeClock, path: Path, options: dict[str, Any]
) -> None:
    """Indexes over one file agree, another embedder stays apart, a lost file is made anew."""

    async def drop() -> None:
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()

    await check_shared_index(
        lambda: make(**options),
        clock,
        dim=DIM,
        drop=drop,
        make_other=lambda: make(embedder="other", **options),
    )


async def test_items_outlive_the_process(make: Callable[..., LocalIndex], clock: FakeClock) -> None:
    """What one index added, a later one over the same file finds."""
    first = make()
    await first.add(HERE, item("a", clock), unit(DIM, 1.0))
    await first.close()
    assert await names(make(), unit(DIM, 1.0)) == ["a"]


async def test_others_see_what_one_adds_replaces_and_removes(
    make: Callable[..., LocalIndex], clock: FakeClock
) -> None:
    """Two indexes over one file, both warm, agree after every change."""
    one, other = make(), make()
    for index in (one, other):
        assert await names(index, unit(DIM, 1.0)) == []
    await one.add(HERE, item("a", clock), unit(DIM, 1.0))
    await other.add(HERE, item("b", clock), unit(DIM, 1.0, 0.1))
    for index in (one, other):
        assert await names(index, unit(DIM, 1.0)) == ["a", "b"]
    await other.add(THERE, item("a", clock), unit(DIM, 1.0))
    for index in (one, other):
        assert await names(index, unit(DIM, 1.0)) == ["b"]
        assert await names(index, unit(DIM, 1.0), THERE) == ["a"]
    assert await one.delete([key_of("b")]) == 1
    assert await names(other, unit(DIM, 1.0)) == []
    assert await other.clear() == 1
    assert await names(one, unit(DIM, 1.0), THERE) == []


async def test_a_large_partition_is_read_newest_first_and_then_whole(
    make: Callable[..., LocalIndex], clock: FakeClock
) -> None:
    """After a restart the newest items are found at once, and all of them soon."""
    first = make(max_entries=5000)
    vectors = scattered(1500)
    for number, vector in enumerate(vectors):
        await first.add(HERE, item(str(number), clock), vector)
    later = make(max_entries=5000)
    assert await names(later, vectors[-1], k=1) == ["1499"]
    await later.settled()
    assert await names(later, vectors[0], k=1) == ["0"]


async def test_a_full_queue_only_delays_the_background(
    make: Callable[..., LocalIndex], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While calls take every place in the queue the rest of the work waits, and is then done."""
    first = make(max_entries=5000)
    for number, vector in enumerate(scattered(1500)):
        await first.add(HERE, item(str(number), clock), vector)
    later = make(max_entries=5000)
    await names(later, scattered(1)[0], k=1)
    limit = later._worker._limit
    later._worker._limit = 0
    await asyncio.sleep(0.05)
    assert not later._settling.done()  # type: ignore[union-attr] # it was begun by the lookup
    later._worker._limit = limit
    await later.settled()
    assert not later._follower.unsettled


@pytest.mark.parametrize("options", [{}, FAISS])
async def test_a_graph_finds_what_a_scan_finds(
    make: Callable[..., LocalIndex], clock: FakeClock, options: dict[str, Any]
) -> None:
    """Once the graph is built, each vector is its own nearest, and removed ones are gone."""
    index = make(graph_from=50, **options)
    vectors = scattered(300)
    for number, vector in enumerate(vectors):
        await index.add(HERE, item(str(number), clock), vector)
        await index.search(HERE, vector, k=1)
    await index.settled()
    for number, vector in enumerate(vectors):
        assert await names(index, vector, k=1) == [str(number)]
    assert await index.delete([key_of(str(number)) for number in range(0, 300, 2)]) == 150
    assert await names(index, vectors[0], k=1) != ["0"]
    await index.settled()
    for number in range(1, 300, 2):
        assert await names(index, vectors[number], k=1) == [str(number)]
    assert index.statistics()["resident_vectors"] < 300


@pytest.mark.parametrize("options", [{}, FAISS])
async def test_a_worn_graph_is_replaced(
    make: Callable[..., LocalIndex], clock: FakeClock, options: dict[str, Any]
) -> None:
    """While the oldest keep leaving, every live vector stays its own nearest, in bounded memory."""
    index = make(graph_from=50, max_entries=100, **options)
    vectors = scattered(600)
    for number, vector in enumerate(vectors):
        await index.add(HERE, item(str(number), clock), vector)
        assert await names(index, vector, k=1) == [str(number)]
        if number % 50 == 0:
            await index.settled()
    await index.settled()
    for number in range(500, 600):
        assert await names(index, vectors[number], k=1) == [str(number)]
    assert index.statistics()["resident_vectors"] < 300


@pytest.mark.parametrize("options", [{}, FAISS])
async def test_a_question_renewed_many_times_is_found(
    make: Callable[..., LocalIndex], clock: FakeClock, options: dict[str, Any]
) -> None:
    """Its dead twins in the graph, all equally near, do not hide the living one."""
    index = make(graph_from=50, **options)
    for number, vector in enumerate(scattered(400)):
        await index.add(HERE, item(str(number), clock), vector)
    await index.search(HERE, unit(DIM, 1.0), k=1)
    await index.settled()
    for _ in range(100):
        await index.add(HERE, item("hot", clock), unit(DIM, 1.0))
        assert await names(index, unit(DIM, 1.0), k=1) == ["hot"]
        await index.settled()
    assert await names(index, unit(DIM, 1.0), k=1) == ["hot"]


async def test_the_oldest_leave_first(
    make: Callable[..., LocalIndex], clock: FakeClock, sink: RecordingSink
) -> None:
    """Past the bound, over all partitions, the oldest items leave and are counted."""
    index = make(max_entries=3)
    for number in range(5):
        await index.add(THERE if number % 2 else HERE, item(str(number), clock), unit(DIM, 1.0))
    assert await index.count() == 3
    assert await names(index, unit(DIM, 1.0)) == ["4", "2"]
    assert await names(index, unit(DIM, 1.0), THERE) == ["3"]
    assert sum(event.entries for event in sink.of(Evicted) if event.cause == "capacity") == 2
    assert sink.of(HeldBytes)[-1].entries == 3


async def test_expired_items_are_purged_by_later_adds(
    make: Callable[..., LocalIndex], clock: FakeClock, sink: RecordingSink
) -> None:
    """The file does not keep what nobody may see."""
    index = make()
    for number in range(10):
        await index.add(HERE, item(str(number), clock, life=5.0), unit(DIM, 1.0))
    clock.advance(6.0)
    await index.add(HERE, item("new", clock), unit(DIM, 1.0))
    assert sink.of(HeldBytes)[-1].entries == 1
    assert sum(event.entries for event in sink.of(Evicted) if event.cause == "expired") == 10


async def test_unused_partitions_leave_memory_and_come_back(
    make: Callable[..., LocalIndex], clock: FakeClock
) -> None:
    """Memory is bounded, and a partition that left it is read again when asked for."""
    index = make(resident=100)
    partitions = [key_of(f"partition {number}") for number in range(50)]
    for partition in partitions:
        await index.add(partition, item(partition.hex(), clock), unit(DIM, 1.0))
        await index.search(partition, unit(DIM, 1.0), k=1)
    await index.settled()
    figures = index.statistics()
    assert figures["resident_vectors"] <= 100
    assert 1 <= figures["resident_partitions"] < 50
    for partition in partitions:
        assert await names(index, unit(DIM, 1.0), partition) == [partition.hex()]


async def test_embedders_never_meet(make: Callable[..., LocalIndex], clock: FakeClock) -> None:
    """Two embedder ids in one file have their own items, also of another dimension."""
    one, other = make(embedder="one"), make(embedder="other", dim=4)
    await one.add(HERE, item("a", clock), unit(DIM, 1.0))
    await other.add(HERE, item("a", clock), unit(4, 0.0, 1.0))
    assert (await one.search(HERE, unit(DIM, 1.0), k=5))[0].score > 0.99
    assert (await other.search(HERE, unit(4, 0.0, 1.0), k=5))[0].score > 0.99
    assert await one.clear() == 1
    assert await other.count() == 1


@pytest.mark.parametrize(
    "vector",
    [
        np.ones(DIM - 1, dtype=np.float32),
        np.zeros(DIM, dtype=np.float32),
        np.full(DIM, np.nan, dtype=np.float32),
        np.ones((1, DIM), dtype=np.float32),
        unit(DIM, 1.0).astype(np.float64),
    ],
)
async def test_a_wrong_vector_is_refused(
    make: Callable[..., LocalIndex], clock: FakeClock, vector: Vector
) -> None:
    """A vector of another shape, type or length is an error both ways."""
    index = make()
    with pytest.raises(VectorIndexError):
        await index.add(HERE, item("a", clock), vector)
    with pytest.raises(VectorIndexError):
        await index.search(HERE, vector, k=1)


async def test_a_lone_surrogate_comes_back(
    make: Callable[..., LocalIndex], clock: FakeClock
) -> None:
    """Text that JSON allows and UTF-8 does not is kept."""
    index = make()
    await index.add(HERE, item("\ud800", clock), unit(DIM, 1.0))
    assert await names(index, unit(DIM, 1.0)) == ["\ud800"]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE items SET vector = x'00'",
        "UPDATE items SET vector = zeroblob(32)",
        "UPDATE items SET text = 'other'",
        "UPDATE items SET expires_at = expires_at + 1",
        "UPDATE items SET partition = x'00'",
    ],
)
async def test_a_damaged_row_is_skipped(
    make: Callable[..., LocalIndex], clock: FakeClock, path: Path, damage: str
) -> None:
    """A row whose bytes are not the ones written is never returned."""
    index = make()
    await index.add(HERE, item("a", clock), unit(DIM, 1.0))
    await index.close()
    with sqlite3.connect(path) as db:
        db.execute(damage)
    db.close()
    later = make()
    await later.add(HERE, item("b", clock), unit(DIM, 1.0))
    assert await names(later, unit(DIM, 1.0)) == ["b"]
    assert await names(later, unit(DIM, 1.0), b"\0") == []


@pytest.mark.parametrize("garbage", [b"not a database" * 1000, b"SQLite format 3\0" + b"x" * 9000])
async def test_a_file_that_is_no_index_is_set_aside(
    make: Callable[..., LocalIndex], clock: FakeClock, path: Path, garbage: bytes
) -> None:
    """A file that cannot be used is kept under another name and a new one begins."""
    write_over(path, 0, garbage)
    index = make()
    await index.add(HERE, item("a", clock), unit(DIM, 1.0))
    assert await names(index, unit(DIM, 1.0)) == ["a"]
    assert path.with_name("vectors.sqlite3.damaged").read_bytes() == garbage


async def test_somebody_elses_database_is_set_aside(
    make: Callable[..., LocalIndex], clock: FakeClock, path: Path
) -> None:
    """A database of another form is not written to."""
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE items (other)")
    db.close()
    index = make()
    await index.add(HERE, item("a", clock), unit(DIM, 1.0))
    assert path.with_name("vectors.sqlite3.damaged").exists()


async def test_damage_under_way_heals(
    make: Callable[..., LocalIndex], clock: FakeClock, path: Path
) -> None:
    """A file that breaks while in use costs an error or two, then works again, empty."""
    index = make()
    for number in range(200):
        await index.add(HERE, item(str(number), clock), unit(DIM, 1.0))
    await index.close()
    write_over(path, 4096, b"\xff" * 40_000)
    index = make()
    for number in range(20):
        try:
            await index.add(HERE, item("new", clock), unit(DIM, 1.0))
            break
        except VectorIndexError:
            assert number < 3
    assert await names(index, unit(DIM, 1.0)) == ["new"]


async def test_a_file_that_is_taken_away_is_made_anew(
    make: Callable[..., LocalIndex], clock: FakeClock, path: Path
) -> None:
    """When the file at the path is another one, the index follows that."""
    index = make()
    await index.add(HERE, item("a", clock), unit(DIM, 1.0))
    for file in path.parent.iterdir():
        file.unlink()
    assert await names(index, unit(DIM, 1.0)) == []
    await index.add(HERE, item("b", clock), unit(DIM, 1.0))
    assert await names(index, unit(DIM, 1.0)) == ["b"]


async def test_a_locked_file_is_an_error_until_it_is_free(
    make: Callable[..., LocalIndex], clock: FakeClock, path: Path
) -> None:
    """While another connection holds the write lock adds fail and searches work."""
    index = make()
    await index.add(HERE, item("a", clock), unit(DIM, 1.0))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(VectorIndexError, match="locked"):
        await index.add(HERE, item("b", clock), unit(DIM, 1.0))
    assert await names(index, unit(DIM, 1.0)) == ["a"]
    holder.execute("ROLLBACK")
    holder.close()
    await index.add(HERE, item("b", clock), unit(DIM, 1.0))
    assert await index.count() == 2


async def test_a_place_that_cannot_be_written_is_an_error(
    tmp_path: Path, clock: FakeClock, sink: RecordingSink
) -> None:
    """A path through a file fails each call with the error of its kind."""
    (tmp_path / "file").write_text("")
    index = LocalIndex(
        tmp_path / "file" / "vectors.db",
        embedder="e",
        dim=DIM,
        max_entries=10,
        clock=clock,
        sink=sink,
    )
    for _ in range(2):
        with pytest.raises(VectorIndexError):
            await index.count()
    await index.close()


async def test_without_the_driver_the_extra_is_named(
    path: Path, clock: FakeClock, sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without usearch the error says what to install."""
    for module in [name for name in sys.modules if name.startswith("askonce.vectors.")]:
        if module != "askonce.vectors.local":
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingExtra, match=r"askonce\[semantic\]"):
        LocalIndex(path, embedder="e", dim=DIM, max_entries=10, clock=clock, sink=sink)


async def test_too_many_calls_are_shed(make: Callable[..., LocalIndex]) -> None:
    """Past the bound of its queue the index answers with an error at once."""
    index = make()
    calls = [index.search(HERE, unit(DIM, 1.0), k=1) for _ in range(200)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    shed = [outcome for outcome in outcomes if isinstance(outcome, VectorIndexError)]
    assert 0 < len(shed) < 100


async def test_a_short_log_of_removals_makes_others_read_anew(
    make: Callable[..., LocalIndex], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has not read the removals that were forgotten still never returns a removed item."""
    monkeypatch.setattr("askonce.vectors.rows._GONE_KEPT", 4)
    one, other = make(), make()
    await one.add(HERE, item("a", clock), unit(DIM, 1.0))
    assert await names(other, unit(DIM, 1.0)) == ["a"]
    for _ in range(30):
        await one.add(HERE, item("a", clock), unit(DIM, 1.0, 0.1))
    await one.add(HERE, item("b", clock), unit(DIM, 1.0))
    assert await names(other, unit(DIM, 1.0)) == ["b", "a"]


def write_over(path: Path, offset: int, data: bytes) -> None:
    """Put bytes into the file, made if it is not there."""
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


WRITER = """
import asyncio, math, sys
from pathlib import Path
from askonce.ports import IndexedText
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.vectors import HERE, key_of, unit
from askonce.vectors.local import LocalIndex

async def main():
    clock = FakeClock()
    index = LocalIndex(Path(sys.argv[1]), embedder="e", dim=8, max_entries=50,
                       clock=clock, sink=RecordingSink())
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        name = f"{number % 97}"
        item = IndexedText(key_of(name), name, clock.now() + 9e5)
        angle = number % 97 * math.tau / 97
        await index.add(HERE, item, unit(8, math.cos(angle), math.sin(angle)))
        print(number, flush=True)
    await index.close()

asyncio.run(main())
"""


def write(path: Path, first: int, last: int) -> subprocess.Popen[str]:
    """Start a process that adds numbered items and says each when it is added."""
    command = [sys.executable, "-c", WRITER, str(path), str(first), str(last)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
async def test_another_process_is_followed(make: Callable[..., LocalIndex], path: Path) -> None:
    """An index that is warm sees what another process has added since."""
    index = make()
    assert await names(index, unit(DIM, 1.0)) == []
    writer = write(path, 0, 5)
    await asyncio.to_thread(writer.communicate)
    assert writer.returncode == 0
    assert await names(index, turned(3), k=1) == ["3"]
    assert await index.count() == 5


@pytest.mark.slow
async def test_a_kill_at_any_moment_leaves_a_good_index(
    make: Callable[..., LocalIndex], path: Path
) -> None:
    """Killed 20 times while adding: all starts work, what was said to be there is there."""
    for start in range(20):
        writer = write(path, start, 10**9)
        said = await asyncio.to_thread(kill_after, writer, 20 + 7 * start)
        index = make(max_entries=50)
        found = await names(index, turned(said), k=1)
        assert found == [str(said % 97)]
        assert await index.count() <= 50
        await index.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (held,) = db.execute("SELECT items = (SELECT count(*) FROM items) FROM totals").fetchone()
    db.close()
    assert held == 1


def turned(number: int) -> Vector:
    """The vector that the process gives to this number."""
    angle = number % 97 * math.tau / 97
    return unit(DIM, math.cos(angle), math.sin(angle))


def kill_after(writer: subprocess.Popen[str], lines: int) -> int:
    """Kill the process once it has said so many numbers; returns the last it said."""
    with writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(lines)]
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
    return int(said[-1])


async def test_the_file_is_its_owners_alone(make: Callable[..., LocalIndex], path: Path) -> None:
    """Database, logs and folder hold prompts, so nobody else may read them."""
    index = make()
    await index.add(HERE, IndexedText(key_of("a"), "secret", UnixTime(9e9)), unit(DIM, 1))
    modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    assert set(modes) == {path.name, f"{path.name}-wal", f"{path.name}-shm"}
    assert set(modes.values()) == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
