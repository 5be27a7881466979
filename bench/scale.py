"""A million entries: how long a start takes, and what a lookup costs next to a small store."""

from __future__ import annotations

import os
import resource
import sqlite3
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from tests.servers.redis import Redis, redis, tell

from askonce.clock import SystemClock
from askonce.ports import IndexedText, Put, SupportsPutMany
from askonce.stores.urls import open_store
from askonce.units import Seconds, UnixTime
from askonce.vectors.binding import Binding
from askonce.vectors.urls import open_index
from bench import report as progress
from bench.lookup import DIM, Silent
from bench.servers import cores, settle
from bench.stats import Bar, Report, Sample, percentile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from askonce.ports import Store, VectorIndex
    from bench.options import Options

FEW, MANY = 10_000, 1_000_000
VALUE = bytes(range(256)) * 2
BATCH = 1000
LOOKUPS = 2000
PARTITION, PARTITION_SIZE = bytes(32), 2000
"""The one that is searched."""
OTHERS = 500
"""Partitions that hold the rest of the million."""
LIFE = Seconds(86400.0)
START = Bar("<", 10.0)
UNCHANGED = Bar("<=", 1.2)
ROOM = 8 << 30

Kit: dict[str, Any] = {"clock": SystemClock(), "sink": Silent()}


def run(folder: Path, options: Options) -> Report:
    """One million once; lookups before and after, `options.rounds` times each."""
    about = f"{MANY:,} entries next to {FEW:,}, medians of {LOOKUPS:,} lookups one by one"
    report = Report("scale", about)
    uvloop.run(_embedded(folder, options, report))
    with ExitStack() as stack:
        servers = []
        for name in ("r0", "r1"):
            (folder / name).mkdir()
            debug = ("--enable-debug-command", "local")
            server = stack.enter_context(redis("redis7", folder / name, arguments=debug))
            settle(cores().client, server.server.pid)  # where it runs costs more than its size
            servers.append(server)
        uvloop.run(_shared(servers, options, report))
    uvloop.run(_index(folder, options, report))
    return report


async def _embedded(folder: Path, options: Options, report: Report) -> None:
    for count, name in ((FEW, "few"), (MANY, "many")):
        store = _sqlite(folder / name)
        began = time.perf_counter()
        await _fill(store, count)
        await store.close()
        progress.tell(f"scale: {count:,} in SQLite after {time.perf_counter() - began:.0f} s")
    before, began = _resident(), time.perf_counter()
    many = _sqlite(folder / "many")
    held = await many.stats()
    report.add("SQLite, start", _one(time.perf_counter() - began), "s", START)
    few = _sqlite(folder / "few")
    pairs = [(await _gets(few, FEW), await _gets(many, MANY)) for _ in range(options.rounds)]
    _compare(report, "SQLite, lookup", pairs)
    report.add("SQLite, memory", _one((_resident() - before) / 2**20), "MiB")
    report.notes.append(f"SQLite holds {held.entries:,} entries")
    await few.close()
    await many.close()


def _sqlite(folder: Path) -> Store:
    return open_store(f"sqlite:///{folder}.db", max_bytes=ROOM, data_dir=folder.parent, **Kit)


async def _shared(servers: Sequence[Redis], options: Options, report: Report) -> None:
    few, many = (_redis(server) for server in servers)
    for store in (few, many):
        await _fill(store, FEW)
    await many.close()
    began = time.perf_counter()
    tell(servers[1].port, "DEBUG", "POPULATE", MANY, "other", len(VALUE) + 120)
    progress.tell(f"scale: {MANY:,} in Redis after {time.perf_counter() - began:.0f} s")
    began = time.perf_counter()
    many = _redis(servers[1])
    await many.stats()
    report.add("Redis, start", _one(time.perf_counter() - began), "s", START)
    pairs = [(await _gets(few, FEW), await _gets(many, FEW)) for _ in range(options.rounds)]
    _compare(report, "Redis, lookup", pairs)
    said = tell(servers[1].port, "INFO", "memory")
    used = int(said.partition("used_memory:")[2].split()[0])
    report.add("Redis, the server's memory", _one(used / 2**20), "MiB")
    await few.close()
    await many.close()


def _redis(server: Redis) -> Store:
    return open_store(server.unix_url, max_bytes=0, data_dir=Path(), **Kit)


async def _index(folder: Path, options: Options, report: Report) -> None:
    import numpy as np

    from bench.recall import near, spectrum

    rng = np.random.default_rng(0)
    vectors = spectrum(rng, PARTITION_SIZE)
    questions = near(rng, vectors[rng.integers(0, PARTITION_SIZE, LOOKUPS)])
    homes = folder / "few-vectors", folder / "many-vectors"
    for home in homes:
        home.mkdir()
    few = _local(homes[0])
    for number, vector in enumerate(vectors):
        item = IndexedText(_key(number), f"question {number}", UnixTime(time.time() + LIFE))
        await few.add(PARTITION, item, vector)
    await few.close()
    began = time.perf_counter()
    _multiply(homes[0] / "vectors.sqlite3", homes[1] / "vectors.sqlite3")
    progress.tell(f"scale: {MANY:,} vectors after {time.perf_counter() - began:.0f} s")
    before, began = _resident(), time.perf_counter()
    many = _local(homes[1])
    await many.search(PARTITION, questions[0], k=8)
    report.add("local index, start", _one(time.perf_counter() - began), "s", START)
    few = _local(homes[0])
    pairs = [
        (await _searches(few, questions), await _searches(many, questions))
        for _ in range(options.rounds)
    ]
    _compare(report, "local index, search", pairs)
    report.add("local index, memory", _one((_resident() - before) / 2**20), "MiB")
    report.notes.append(f"the local index holds {await many.count():,} vectors")
    await few.close()
    await many.close()


def _local(folder: Path) -> VectorIndex:
    binding = Binding("bench", DIM, 2 * MANY, folder)
    return open_index("local", binding=binding, **Kit)


def _multiply(few: Path, many: Path) -> None:
    """Fill other partitions with copies; nobody searches them, so their seals need not fit."""
    with sqlite3.connect(few) as source, sqlite3.connect(many) as target:
        source.backup(target)
    source.close()
    target.close()
    with sqlite3.connect(many) as db:
        db.execute("PRAGMA synchronous = OFF")
        for start in range(PARTITION_SIZE, MANY, PARTITION_SIZE):
            partition = b"%032d" % (1 + start % OTHERS)
            count = min(PARTITION_SIZE, MANY - start)
            db.execute(
                "INSERT INTO items (embedder, partition, key, text, vector, tokens, seal,"
                " expires_at) SELECT embedder, ?, randomblob(32), text, vector, tokens, seal,"
                " expires_at FROM items WHERE seq <= ?",
                (partition, count),
            )
    db.close()


async def _fill(store: Store, count: int) -> None:
    assert isinstance(store, SupportsPutMany)
    for start in range(0, count, BATCH):
        await store.put_many([Put(_key(n), VALUE, LIFE) for n in range(start, start + BATCH)])


def _key(number: int) -> bytes:
    """Spread over the whole range, as digests are."""
    return (number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big") + number.to_bytes(24, "big")


async def _gets(store: Store, count: int) -> float:
    """Seconds of the median lookup; all are found."""
    step = 7919
    keys = [_key(n * step % count) for n in range(LOOKUPS)]

    async def get(key: bytes) -> None:
        if await store.get(key) != VALUE:
            raise SystemExit("an entry is not there")

    return await _median(get, keys)


async def _searches(index: VectorIndex, questions: Sequence[Any]) -> float:
    async def search(question: Any) -> None:  # noqa: ANN401 - a vector
        if not await index.search(PARTITION, question, k=8):
            raise SystemExit("nothing is found")

    return await _median(search, questions)


async def _median(act: Callable[[Any], Awaitable[None]], over: Sequence[Any]) -> float:
    took = []
    for each in over:
        began = time.perf_counter()
        await act(each)
        took.append(time.perf_counter() - began)
    return percentile(took, 0.5)


def _compare(report: Report, what: str, pairs: list[tuple[float, float]]) -> None:
    few, many = (Sample(tuple(column)) for column in zip(*pairs, strict=True))
    report.add(f"{what} among few", Sample(tuple(v * 1e6 for v in few.values)), "us")
    report.add(f"{what} among {MANY:,}", Sample(tuple(v * 1e6 for v in many.values)), "us")
    report.add(f"{what}, ratio", many.over(few), "x", UNCHANGED)


def _one(value: float) -> Sample:
    return Sample((value,))


def _resident() -> int:
    """Bytes of memory that this process holds now; its peak where that is not told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
