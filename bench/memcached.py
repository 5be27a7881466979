"""Exact hits through Memcached: gets of this client next to others', and hits of one core."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import servers
from bench.load import load
from bench.report import tell
from bench.samples import answer_body, request_body
from bench.stats import Bar, Report, Sample

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from bench.options import Options

    Get = Callable[[bytes], Awaitable[object]]

CONNECTIONS = 32
BAR = Bar(">=", 8000)
TASKS = 64
VALUE = 4096
KEYS = 1000
GETS = 6000
LAID = Path(os.environ.get("TEST_SERVERS", ".venv/servers"))


def run(folder: Path, options: Options) -> Report:
    """Measure both, in turn."""
    report = Report("memcached", f"exact hits through Memcached, {CONNECTIONS} connections")
    if program() is None:
        report.notes.append("there is no memcached (`make servers` lays one): not measured")
        return report
    core = servers.cores()
    with memcached(core.client) as port:
        rates = asyncio.run(clients(port, options, report))
        hits = gateway_hits(folder, port, options)
    for name, sample in rates.items():
        report.add(f"gets of 4 kB by {TASKS} tasks, {name}", sample, "/s")
    for name in list(rates)[1:]:
        report.add(f"AskOnce over {name}", rates["AskOnce"].over(rates[name]), "x")
    report.add("hits for a second of one core, no copy in process", hits, "/s", BAR)
    return report


def program() -> str | None:
    """Where Memcached is, if it is."""
    laid = LAID / "debian/usr/bin/memcached"
    return str(laid) if laid.exists() else shutil.which("memcached")


@contextlib.contextmanager
def memcached(core: int | None) -> Iterator[int]:
    """A server on a free port."""
    libraries = LAID / f"debian/usr/lib/{os.uname().machine}-linux-gnu"
    port = servers.free_port()
    user = ["-u", "nobody"] if os.getuid() == 0 else []
    argv = [str(program()), "-l", "127.0.0.1", "-p", str(port), "-m", "256", "-t", "2", *user]
    with servers.running(argv, port, core, {"LD_LIBRARY_PATH": str(libraries)}):
        yield port


async def clients(port: int, options: Options, report: Report) -> dict[str, Sample]:
    """Gets a second of each client that is installed, interleaved."""
    from askonce.clock import SystemClock
    from askonce.stores.memcached.ring import parse_url
    from askonce.stores.memcached.store import MemcachedStore
    from askonce.testing import RecordingSink
    from askonce.units import Seconds

    url = parse_url(f"memcached://127.0.0.1:{port}?namespace=bench")
    store = MemcachedStore(url, clock=SystemClock(), sink=RecordingSink())
    keys = [number.to_bytes(32, "big") for number in range(KEYS)]
    for key in keys:
        await store.put(key, os.urandom(VALUE), ttl=Seconds(3600))
    subjects: dict[str, Get] = {"AskOnce": store.get}
    names = [key.hex().encode() for key in keys]
    for name in ("aiomcache", "emcache"):
        try:
            subjects[name] = await _other(name, port, names)
        except ImportError:
            report.notes.append(f"{name} is not installed: not compared")
    rates: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(options.rounds + 1):
        for name, get in subjects.items():
            rate = await _rate(get, keys if name == "AskOnce" else names)
            if turn:
                rates[name].append(rate)
                tell(f"memcached {turn}/{options.rounds}: {name} {rate:,.0f} gets/s")
    await store.close()
    return {name: Sample(tuple(found)) for name, found in rates.items()}


async def _other(name: str, port: int, names: list[bytes]) -> Get:
    module = importlib.import_module(name)
    if name == "aiomcache":
        client = module.Client("127.0.0.1", port, pool_size=8)
    else:
        client = await module.create_client([module.MemcachedHostAddress("127.0.0.1", port)])
    for each in names:
        await client.set(each, os.urandom(VALUE))
    get: Get = client.get
    return get


async def _rate(get: Get, keys: list[bytes]) -> float:
    left = iter(range(GETS))

    async def ask() -> None:
        for number in left:
            if await get(keys[number % len(keys)]) is None:
                raise SystemExit("a value that was put is not there")

    began = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(TASKS)))
    return GETS / (time.perf_counter() - began)


def gateway_hits(folder: Path, port: int, options: Options) -> Sample:
    """Hits of a gateway that keeps no copy of its own."""
    core = servers.cores()
    more = f'[exact]\nstore = "memcached://127.0.0.1:{port}"\nmemory_bytes = 0\ndeadline = 0.1\n'
    request = request_body(1000)
    found = []
    with (
        servers.origin(folder, answer_body(), core.client) as origin,
        servers.gateway(folder / "gateway", origin.port, core.server, more=more) as gateway,
    ):
        servers.ask(gateway.port, request)
        time.sleep(0.5)
        headers, _ = servers.ask(gateway.port, request)
        if ("x-cache", "HIT") not in headers:
            raise SystemExit(f"the second answer is no hit: {headers}")
        for turn in range(options.rounds + 1):
            done = load(folder, gateway, request, CONNECTIONS, seconds=options.seconds)
            if turn:
                found.append(done.per_core)
                tell(f"memcached {turn}/{options.rounds}: {done.rate:,.0f} hits/s by the clock")
    return Sample(tuple(found))
