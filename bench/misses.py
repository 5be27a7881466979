"""What a miss costs, next to a bare pass-through; every request is like no other."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench import servers
from bench.load import NUMBER, load
from bench.report import tell
from bench.samples import answer_body, request_body
from bench.stats import Bar, Report, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from bench.load import Run
    from bench.options import Options
    from bench.servers import Server

CONNECTIONS = 32
LATENCY = Bar("<=", 1.5)
RATE = Bar(">=", 3000)
SATURATED = "AskOnce, semantic tier saturated"


def run(folder: Path, options: Options) -> Report:
    """Measure direct, bare and AskOnce in turn, at 1 connection and at 32."""
    report = Report("misses", "distinct requests before an engine that answers at once, one core")
    core = servers.cores()
    with ExitStack() as stack:
        engine = stack.enter_context(servers.origin(folder, answer_body(), core.client))
        origin = engine.port
        subjects = {"direct": engine}
        subjects["bare aiohttp"] = stack.enter_context(servers.relay(origin, core.server))
        plain = servers.gateway(folder / "plain", origin, core.server)
        subjects["AskOnce"] = stack.enter_context(plain)
        semantic = servers.gateway(folder / "semantic", origin, core.server, semantic=True)
        server = stack.enter_context(semantic)
        state = servers.semantic_state(server.port)
        if state == "on":
            subjects[SATURATED] = server
        else:
            report.notes.append(f"semantic tier {state}: not measured with it")
        alone = measure(folder, subjects, 1, options)
        crowd = measure(folder, subjects, CONNECTIONS, options)
    _latencies(report, alone)
    _rates(report, crowd)
    return report


def measure(
    folder: Path, subjects: dict[str, Server], connections: int, options: Options
) -> dict[str, list[Run]]:
    """The runs of each server, round by round."""
    body = request_body(1000, f"What is {NUMBER} plus one?")
    runs: dict[str, list[Run]] = {name: [] for name in subjects}
    for turn in range(options.rounds + 1):
        for name, server in subjects.items():
            seconds = options.seconds if turn else 1
            found = load(folder, server, body, connections, seconds=seconds)
            if turn:
                runs[name].append(found)
                tell(
                    f"misses at {connections} {turn}/{options.rounds}: {name}"
                    f" {found.rate:,.0f}/s, p50 {found.p50 * 1e3:.2f} ms"
                )
    return runs


def _latencies(report: Report, runs: dict[str, list[Run]]) -> None:
    p50 = {name: Sample(tuple(run.p50 * 1e6 for run in found)) for name, found in runs.items()}
    added = {name: each.minus(p50["direct"]) for name, each in p50.items() if name != "direct"}
    report.add("direct, p50 at 1 connection", p50["direct"], "us")
    for name, each in added.items():
        report.add(f"{name}, added", each, "us")
    for name, found in runs.items():
        if name != "direct":
            cost = Sample(tuple(run.cpu * 1e6 for run in found))
            report.add(f"{name}, processor an answer", cost, "us")
    ratio = added["AskOnce"].over(added["bare aiohttp"])
    report.add("AskOnce over bare aiohttp, added", ratio, "x", LATENCY)


def _rates(report: Report, runs: dict[str, list[Run]]) -> None:
    proxies = {name: found for name, found in runs.items() if name != "direct"}
    for name, found in proxies.items():
        rate = Sample(tuple(run.per_core for run in found))
        bar = RATE if name == "AskOnce" else None
        report.add(f"{name}, at {CONNECTIONS}, for a second of one core", rate, "/s", bar)
    for name, found in runs.items():
        rate = Sample(tuple(run.rate for run in found))
        report.add(f"{name}, at {CONNECTIONS}, by the clock", rate, "/s")
