"""Exact hits through Redis, next to the same gateway over redis-py and to an application that only
answers, and how fast changes travel."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING

from tests.servers.redis import redis

from askonce.clock import SystemClock
from askonce.stores.redis.address import read_url
from askonce.stores.redis.store import RedisStore
from askonce.testing import RecordingSink
from askonce.units import Seconds
from bench import servers
from bench.hits import CONNECTIONS
from bench.load import NUMBER, load
from bench.redis_py import ENTRY_POINT, SCHEME
from bench.report import tell
from bench.samples import answer_body, request_body
from bench.stats import Bar, Report, Sample, percentile

if TYPE_CHECKING:
    from pathlib import Path

    from bench.options import Options
    from bench.servers import Server

KEYS = 256
"""Different requests, so that those under way at once do not share one look."""
REQUEST = request_body(1000, f"When is cache {NUMBER} worth its memory?")
BARE = "bare ASGI"
"""What this machine could do at best: bars by the clock hold for one that is as fast."""
RATE = Bar(">=", 10_000)
P50 = Bar("<", 0.5)
VISIBLE = Bar("<", 1000)
NO_HOT = "[exact]\nmemory_bytes = 0\ndeadline = 0.5\nstore = "
"""A full machine is no reason to skip the step that is measured."""


def run(folder: Path, options: Options) -> Report:
    """Both gateways, and what does nothing but answer, in turn, `options.rounds` times."""
    core = servers.cores()
    about = f"exact hits through Redis over a unix socket, no hot copies, {CONNECTIONS} connections"
    report = Report("stores", about)
    (folder / "r").mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(redis("redis7", folder / "r"))
        servers.settle(core.client, server.server.pid)  # the gateway's core is its own
        origin = stack.enter_context(servers.origin(folder, answer_body(), core.client)).port
        urls = {"AskOnce": server.unix_url, "redis-py": f"{SCHEME}://{server.socket}"}
        _register(folder)
        gateways = {}
        for name, url in urls.items():
            more = f'{NO_HOT}"{url}"\n'
            gateway = servers.gateway(folder / name, origin, core.server, more=more)
            gateways[name] = stack.enter_context(gateway)
            headers, body = _fill(name, gateways[name], REQUEST)
        own = [pair for pair in headers if pair[0] not in {"date", "server"}]
        gateways[BARE] = stack.enter_context(servers.canned(folder, own, body, core.server))
        _measure(folder, gateways, options, report)
        for name, sample in asyncio.run(_changes(server.url, options)).items():
            report.add(name, sample, "ms", VISIBLE)
    return report


def _register(folder: Path) -> None:
    """Make the measure's scheme known to the processes to come."""
    info = folder / "plugin" / "bench_redis_py-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-redis-py\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINT)
    paths = [str(folder / "plugin"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def _measure(folder: Path, gateways: dict[str, Server], options: Options, report: Report) -> None:
    rates: dict[str, list[float]] = {name: [] for name in gateways}
    cores: dict[str, list[float]] = {name: [] for name in gateways}
    alone: dict[str, list[float]] = {name: [] for name in gateways}
    for turn in range(options.rounds + 1):
        for name, gateway in gateways.items():
            found = load(folder, gateway, REQUEST, CONNECTIONS, seconds=options.seconds, again=KEYS)
            single = load(folder, gateway, REQUEST, 1, seconds=1, again=KEYS)
            if turn:
                rates[name].append(found.rate)
                cores[name].append(found.per_core)
                alone[name].append(single.p50 * 1000)
                tell(f"stores {turn}/{options.rounds}: {name} {found.rate:,.0f}/s")
    for name in gateways:
        ours = name == "AskOnce"
        report.add(f"{name}, by the clock", _sample(rates[name]), "/s", RATE if ours else None)
        report.add(f"{name}, for a second of one core", _sample(cores[name]), "/s")
        what = f"{name}, one connection, p50"
        report.add(what, _sample(alone[name]), "ms", P50 if ours else None)
    for other in ("redis-py", BARE):
        ratio = _sample(cores["AskOnce"]).over(_sample(cores[other]))
        report.add(f"AskOnce over {other}, for a second of one core", ratio, "x")


def _fill(name: str, gateway: Server, request: bytes) -> tuple[list[tuple[str, str]], bytes]:
    """Ask everything once, and see that it is kept."""
    for _ in range(2):
        for number in range(KEYS):
            body = request.replace(NUMBER.encode(), b"%012d" % number)
            headers, answer = servers.ask(gateway.port, body)
        time.sleep(0.5)
    if ("x-cache", "HIT") not in headers:
        raise SystemExit(f"the second answer over {name} is no hit: {headers}")
    return headers, answer


def _sample(values: list[float]) -> Sample:
    return Sample(tuple(values))


async def _changes(url: str, options: Options) -> dict[str, Sample]:
    """Milliseconds from a call of one replica to the word of it at another."""
    one, other = (
        RedisStore(read_url(url), clock=SystemClock(), sink=RecordingSink()) for _ in range(2)
    )
    told = asyncio.Event()
    await asyncio.gather(one.stats(), other.stats())
    other.watch(lambda _: told.set())
    worst: dict[str, list[float]] = {"a put seen elsewhere, p99": [], "a clear, p99": []}
    numbers = count()
    for _ in range(options.rounds):
        took: dict[str, list[float]] = {name: [] for name in worst}
        for _ in range(100):
            for name, each in took.items():
                told.clear()
                began = time.perf_counter()
                if name.startswith("a put"):
                    key = b"%032d" % next(numbers)
                    await one.put(key, b"value", ttl=Seconds(60.0))
                else:
                    await one.clear()
                await told.wait()
                each.append((time.perf_counter() - began) * 1000)
        for name, each in took.items():
            worst[name].append(percentile(each, 0.99))
    await one.close()
    await other.close()
    return {name: _sample(values) for name, values in worst.items()}
