"""Memory after a great many requests of which no two are equal: `python -m bench.memory N DIR`."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvloop

from askonce.cache.ask import Ask, Limits
from askonce.cache.driver import Cache
from askonce.cache.parts import Parts
from askonce.cache.steps import Steps
from askonce.cache.write_back import WriteBack
from askonce.canonical.key import Scope, exact_key
from askonce.canonical.request import parse_chat
from askonce.clock import SystemClock
from askonce.config import BreakerConfig
from askonce.events import Event, StepSkipped
from askonce.flow import Plan
from askonce.stores.hot import HotEntries
from askonce.stores.sqlite.store import SqliteStore
from askonce.tiers.exact import ExactTier
from askonce.units import Seconds
from bench.report import tell
from bench.samples import answer_body, request_body
from bench.servers import spawn
from bench.stats import Bar, Report, Sample

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.canonical.entry import Entry
    from bench.options import Options

HOT_BYTES = 16 * 1024 * 1024
DISK_BYTES = 64 * 1024 * 1024
AT_ONCE = 64
WRITES = 1000
"""Writes that may wait: without HTTP before it, asking is faster than any store writes."""
STEPS = 10
FLAT = Bar("<=", 1.10)
BOUND = Bar("<=", 1.0)
FILE_BOUND = Bar("<=", 1.5)
"""What `SqliteStore` promises of its file."""


class Seen(msgspec.Struct):
    """The process after so many requests."""

    requests: int
    rss: int
    hot: int
    file: int
    skipped: int
    """Cache steps that were given up."""


class Counting:
    """A sink that counts the steps given up."""

    skipped = 0

    def emit(self, event: Event) -> None:
        """Count."""
        self.skipped += isinstance(event, StepSkipped)


class Instant:
    """An engine's answer that is there at once."""

    status = 200
    headers = ((b"content-type", b"application/json"),)

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in one piece."""
        yield self._body

    async def read(self) -> bytes:
        """The body."""
        return self._body

    async def close(self) -> None:
        """Nothing is held."""


def run(folder: Path, options: Options) -> Report:
    """Have a process of its own ask, and look at it ten times."""
    report = Report("memory", f"{options.requests:,} distinct requests, {AT_ONCE} at once")
    argv = [sys.executable, "-m", "bench.memory", str(options.requests), str(folder)]
    child = spawn(argv, None, stdout=subprocess.PIPE)
    assert child.stdout is not None
    seen = [msgspec.json.decode(line, type=Seen) for line in iter(child.stdout.readline, b"")]
    if child.wait():
        raise SystemExit(f"{argv} ended with {child.returncode}")
    for each in seen[1::2] if len(seen) > 5 else seen:
        report.add(f"RSS after {each.requests:,}", Sample((each.rss / 2**20,)), "MiB")
    half = [each.rss for each in seen if each.requests >= options.requests // 2]
    report.add("RSS, most over least in the second half", _one(max(half) / min(half)), "x", FLAT)
    last = seen[-1]
    report.add("hot bytes over their bound", _one(last.hot / HOT_BYTES), "x", BOUND)
    report.add("store's file over its bound", _one(last.file / DISK_BYTES), "x", FILE_BOUND)
    report.notes.append(
        f"bounds: hot {HOT_BYTES >> 20} MiB, store {DISK_BYTES >> 20} MiB;"
        f" {last.skipped:,} cache steps were given up"
    )
    return report


def _one(value: float) -> Sample:
    return Sample((value,))


async def ask_all(requests: int, folder: Path) -> None:
    """Ask, and print what is seen after every tenth."""
    clock, sink = SystemClock(), Counting()
    hot: HotEntries[Entry] = HotEntries(HOT_BYTES)
    path = folder / "exact.sqlite3"
    store = SqliteStore(path, clock=clock, sink=sink, max_bytes=DISK_BYTES)
    exact = ExactTier(store, hot, clock=clock, sink=sink)
    steps = Steps(BreakerConfig(), clock=clock, sink=sink)
    limits = Limits(Seconds(1), Seconds(1), Seconds(10), 2**22)
    writer = WriteBack(exact, steps, limits.write_deadline)
    cache = Cache(
        Parts(
            exact=exact,
            semantic=None,
            steps=steps,
            limits=limits,
            clock=clock,
            sink=sink,
            writer=writer,
        )
    )
    numbers = itertools.count()
    for step in range(1, STEPS + 1):
        until = requests * step // STEPS
        await asyncio.gather(*(_ask_until(cache, writer, numbers, until) for _ in range(AT_ONCE)))
        seen = Seen(until, _rss(), hot.size, _size(path), sink.skipped)
        sys.stdout.buffer.write(msgspec.json.encode(seen) + b"\n")
        sys.stdout.buffer.flush()
        tell(f"memory {until:,}: RSS {seen.rss >> 20} MiB, hot {seen.hot >> 20} MiB")
    await cache.close(10)
    await store.close()


async def _ask_until(
    cache: Cache, writer: WriteBack, numbers: itertools.count[int], until: int
) -> None:
    scope = Scope("/v1/chat/completions?", "instant", "", bytes(32))
    plan = Plan(exact_ttl=Seconds(3600))
    answer = answer_body()

    async def send() -> Instant:
        return Instant(answer)

    for number in numbers:
        call = parse_chat(request_body(0, f"What is {number} plus one?"))
        key = exact_key(scope, call)
        ask = Ask(call=call, question=None, scope=scope, key=key, plan=plan, send=send)
        async with cache.answering(ask):
            pass
        while writer.waiting > WRITES:
            await asyncio.sleep(0.001)
        if number >= until - AT_ONCE:
            return


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(path.name + "*"))


if __name__ == "__main__":
    uvloop.run(ask_all(int(sys.argv[1]), Path(sys.argv[2])))
