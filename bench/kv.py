"""KV blocks through Redis: what sealing adds, against a bare socket, and against LMCache's pattern.

A prefix of 512 tokens of an 8B model: 32 blocks of 2 MiB. Server and client have a core each where
there are two.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.kv.block import HEADER_BYTES, BlockKey, Sealer
from askonce.kv.pool import BlockPool, PoolSettings
from askonce.kv.shelf import Shelf
from askonce.kv.transports.urls import open_transport
from askonce.units import Seconds
from bench.report import tell
from bench.servers import ROOT, cores, free_port, settle, spawn
from bench.stats import Bar, Report, Sample, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.options import Options

BLOCKS, SIZE = 32, 2 * 1024 * 1024
LOOKED_UP, LOOKUPS = 64, 400
EPOCH = 1
SPACE, GUARDED, SECRET = b"n" * 32, b"g" * 32, b"0123456789abcdef"
ADDED, REACHED, AHEAD = Bar("<=", 1.15), Bar(">=", 0.8), Bar(">=", 2.0)
QUICK = Bar("<", 1.0)
CHUNK_TOKENS, TOKENS = 256, 512


def run(folder: Path, options: Options) -> Report:
    """All figures of interleaved rounds."""
    report = Report("kv", f"{BLOCKS} blocks of {SIZE >> 20} MiB in Redis over TCP, one connection")
    if not _ahead():
        report.notes.append("other programs disturb this: the 99th of 100 lookups tells about them")
    with _server(folder) as port:
        settle(cores().client)
        bench = _Bench(port)
        rounds: dict[str, list[float]] = {name: [] for name in bench.measures}
        for number in range(options.rounds + 1):
            tell(f"kv: round {number} of {options.rounds}")
            for name, measure in bench.measures.items():
                took = measure()
                if number:
                    rounds[name].append(took)
        bench.close()
    _tell(report, {name: Sample(tuple(values)) for name, values in rounds.items()})
    return report


def _tell(report: Report, took: dict[str, Sample]) -> None:
    moved = BLOCKS * SIZE / 1e9
    bare = _sum(took["memcpy"], took["put"], took["fetch"])
    for title, kind, bar in (
        ("store and load, sealed: over memcpy, put and fetch", "", ADDED),
        ("the same with a secret", ", secret", None),
    ):
        sealed = _sum(took["memcpy"], took[f"store{kind}"], took[f"fetch, verified{kind}"])
        report.add(title, sealed.over(bare), "x", bar)
    loads = took["load"]
    fastest = _least(took["socket"], took["socket, in parts"])
    report.add("load, verified: of a bare socket's rate", fastest.over(loads), "x", REACHED)
    what = f"lookup and load: times LMCache's, chunks of {CHUNK_TOKENS} tokens"
    report.add(what, took["lmcache, chunks"].over(loads), "x", AHEAD)
    report.add("the same, where it has blocks of our size", took["lmcache"].over(loads), "x")
    gigabytes = Sample(tuple(moved / each for each in loads.values))
    report.add("load, verified", gigabytes, "GB/s")
    for name in ("memcpy", "seal", "verify", "put", "store", "fetch", "fetch, verified"):
        report.add(name, _ms(took[name]), "ms")
    report.add("bare socket, the faster of MGET in one and in 8 parts", _ms(fastest), "ms")
    report.add(f"lookup of {LOOKED_UP} blocks, p99", took["lookup"], "ms", QUICK)
    report.add("its round trip alone, p99", took["round trip"], "ms")
    report.notes.append(
        "LMCache's pattern is reproduced: EXISTS one by one, then metadata and bytes of each chunk"
        " by redis.asyncio, with hiredis where that is installed, then a copy"
    )


def _sum(*samples: Sample) -> Sample:
    return Sample(tuple(map(sum, zip(*(each.values for each in samples), strict=True))))


def _ms(seconds: Sample) -> Sample:
    return Sample(tuple(each * 1000 for each in seconds.values))


def _least(one: Sample, other: Sample) -> Sample:
    return Sample(tuple(map(min, zip(one.values, other.values, strict=True))))


class _Bench:
    """Everything that is measured, over one server."""

    def __init__(self, port: int) -> None:
        self.port = port
        url = f"redis://127.0.0.1:{port}"
        self.transport = open_transport(url)
        self.shelf = Shelf(self.transport, SPACE)
        self.guarded = Shelf(self.transport, GUARDED, secret=SECRET)
        self.sealers = {"": Sealer(SPACE), ", secret": Sealer(GUARDED, secret=SECRET)}
        self.keys = [BlockKey(os.urandom(32)) for _ in range(BLOCKS)]
        self.payloads = [memoryview(os.urandom(SIZE)) for _ in self.keys]
        room = memoryview(bytearray(BLOCKS * SIZE))
        self.views = [room[at : at + SIZE] for at in range(0, len(room), SIZE)]
        self.headers = [memoryview(bytearray(HEADER_BYTES)) for _ in self.keys]
        self.sealed: dict[str, list[bytes]] = {}
        self.names = self.shelf.names(self.keys, EPOCH)
        self.wire = socket.create_connection(("127.0.0.1", port))
        settings = PoolSettings(found_life=Seconds(0), lookup_deadline=Seconds(1))
        self.pool = BlockPool(open_transport(url), SPACE, settings=settings)
        while self.pool.epochs.current() is None:
            time.sleep(0.01)
        self.theirs = _TheirPattern(port, self.payloads, BLOCKS)
        self.chunks = _TheirPattern(port, self.payloads, TOKENS // CHUNK_TOKENS)
        self.measures: dict[str, Callable[[], float]] = {
            "memcpy": lambda: _timed(self.copy),
            "seal": lambda: _timed(lambda: self.seal("")),
            "verify": lambda: _timed(lambda: self.verify("")),
            "put": lambda: _timed(lambda: self.put("")),
            "store": lambda: _timed(lambda: self.store("")),
            "fetch": lambda: _timed(self.fetch),
            "fetch, verified": lambda: _timed(lambda: self.fetch_verified(self.shelf)),
            "store, secret": lambda: _timed(lambda: self.store(", secret")),
            "fetch, verified, secret": lambda: _timed(lambda: self.fetch_verified(self.guarded)),
            "socket": lambda: _timed(lambda: self.socket(BLOCKS)),
            "socket, in parts": lambda: _timed(lambda: self.socket(BLOCKS // 8)),
            "load": lambda: _timed(self.load),
            "lmcache": lambda: _timed(self.theirs.load),
            "lmcache, chunks": lambda: _timed(self.chunks.load),
            "lookup": self.lookup,
            "round trip": self.round_trip,
        }

    def copy(self) -> None:
        for view, payload in zip(self.views, self.payloads, strict=True):
            view[:] = payload

    def seal(self, how: str) -> None:
        sealer = self.sealers[how]
        self.sealed[how] = [
            sealer.seal(key, payload, epoch=EPOCH)
            for key, payload in zip(self.keys, self.payloads, strict=True)
        ]

    def verify(self, how: str) -> None:
        sealer = self.sealers[how]
        for key, header, view in zip(self.keys, self.sealed[how], self.payloads, strict=True):
            assert sealer.check(header, view, key, epoch=EPOCH) is None

    def put(self, how: str) -> None:
        told = self.transport.put(
            (self.guarded if how else self.shelf).names(self.keys, EPOCH),
            self.sealed[how],
            self.payloads,
            ttl=None,
            deadline=_soon(),
            replace=True,
        )
        assert set(told) == {"done"}

    def store(self, how: str) -> None:
        self.seal(how)
        self.put(how)

    def fetch(self) -> None:
        told = self.transport.fetch(self.names, self.headers, self.views, deadline=_soon())
        assert set(told) == {"done"}

    def fetch_verified(self, shelf: Shelf) -> None:
        told = shelf.load(self.keys, self.views, epoch=EPOCH, deadline=_soon())
        assert set(told) == {"done"}

    def load(self) -> None:
        """As an engine has it: what is there, then the bytes, verified."""
        assert set(self.shelf.exists(self.keys, epoch=EPOCH, deadline=_soon())) == {"done"}
        self.fetch_verified(self.shelf)

    def socket(self, at_once: int) -> None:
        """The least that a client can do: MGET, and the kernel fills the buffers."""
        for start in range(0, BLOCKS, at_once):
            self._socket(self.names[start : start + at_once], self.views[start : start + at_once])

    def _socket(self, names: Sequence[bytes], views: Sequence[memoryview]) -> None:
        words = [b"MGET", *names]
        self.wire.sendall(
            b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)
        )
        head = memoryview(bytearray(len(b"*%d\r\n" % len(names))))
        self._fill(head)
        frame = memoryview(bytearray(len(b"$%d\r\n" % (SIZE + HEADER_BYTES)) + HEADER_BYTES))
        end = memoryview(bytearray(2))
        for view in views:
            self._fill(frame)
            self._fill(view)
            self._fill(end)

    def _fill(self, view: memoryview) -> None:
        while view.nbytes:
            view = view[self.wire.recv_into(view, 0, socket.MSG_WAITALL) :]

    def lookup(self) -> float:
        """Of the whole way over the pool's thread, in milliseconds."""
        keys = [BlockKey(os.urandom(32)) for _ in range(LOOKED_UP - BLOCKS)] + self.keys
        took = []
        for _ in range(LOOKUPS):
            began = time.perf_counter()
            lookup = self.pool.begin_lookup("bench", keys)
            while self.pool.poll(lookup) is None:
                time.sleep(0.00002)
            took.append(time.perf_counter() - began)
            time.sleep(0.0002)
        return percentile(took, 0.99) * 1000

    def round_trip(self) -> float:
        """Of the transport alone, in milliseconds."""
        names = (self.names * 2)[:LOOKED_UP]
        took = []
        for _ in range(LOOKUPS):
            began = time.perf_counter()
            self.transport.exists(names, deadline=_soon())
            took.append(time.perf_counter() - began)
        return percentile(took, 0.99) * 1000

    def close(self) -> None:
        self.wire.close()
        self.pool.close()
        self.transport.close()
        self.theirs.close()
        self.chunks.close()


class _TheirPattern:
    """How LMCache reads from `redis://`: two keys a chunk, EXISTS one by one, bytes copied."""

    def __init__(self, port: int, payloads: list[memoryview], count: int) -> None:
        from redis.asyncio import Redis

        self._loop = asyncio.new_event_loop()
        self._redis = Redis(port=port)
        whole = b"".join(payloads)
        size = len(whole) // count
        self._names = [f"model@1@0@{count}@{number}" for number in range(count)]
        room = memoryview(bytearray(len(whole)))
        self._views = [room[at : at + size] for at in range(0, len(whole), size)]
        for number, name in enumerate(self._names):
            self._run(self._redis.set(f"{name}metadata", bytes(28)))
            piece = whole[number * size : (number + 1) * size]
            self._run(self._redis.set(f"{name}kv_bytes", piece))

    def load(self) -> None:
        self._run(self._load())

    async def _load(self) -> None:
        for name in self._names:
            assert await self._redis.exists(f"{name}metadata")
        for name, view in zip(self._names, self._views, strict=True):
            assert await self._redis.get(f"{name}metadata")
            view[:] = await self._redis.get(f"{name}kv_bytes")

    def _run(self, work: object) -> None:
        self._loop.run_until_complete(work)  # type: ignore[arg-type]

    def close(self) -> None:
        self._run(self._redis.aclose())
        self._loop.close()


def _ahead() -> bool:
    """Put this process and its children before all others, where that is allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except (AttributeError, OSError):
        return False
    return True


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _soon() -> Seconds:
    return Seconds(time.perf_counter() + 30)


@contextmanager
def _server(folder: Path) -> Iterator[int]:
    """A Redis or Valkey without persistence."""
    laid = Path(os.environ.get("TEST_SERVERS", ROOT / ".venv" / "servers")) / "debian" / "usr"
    program = laid / "bin" / "redis-server"
    found = str(program) if program.exists() else shutil.which("redis-server")
    if found is None:
        raise SystemExit("there is no redis-server: run `make servers`, or install it")
    libraries = {"LD_LIBRARY_PATH": str(laid / "lib" / f"{os.uname().machine}-linux-gnu")}
    port = free_port()
    quiet = ["--save", "", "--bind", "127.0.0.1", "--dir", str(folder), "--loglevel", "warning"]
    child = spawn([found, "--port", str(port), *quiet], cores().server, libraries)
    try:
        _wait_for(port)
        yield port
    finally:
        child.kill()
        child.wait()


def _wait_for(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit("redis-server does not start")
