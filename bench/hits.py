"""Exact hits a second of one core, next to a bare application and to nginx."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench import servers
from bench.load import has_wrk, load
from bench.report import tell
from bench.samples import answer_body, request_body
from bench.stats import Bar, Report, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from bench.load import Run
    from bench.options import Options
    from bench.servers import Server

CONNECTIONS = 32
BAR = Bar(">=", 0.6)


def run(folder: Path, options: Options) -> Report:
    """Ask all of them the same, in turn, `options.rounds` times."""
    core = servers.cores()
    report = Report(
        "hits", f"exact hits of one core, {CONNECTIONS} connections, 1 kB in, 2.2 kB out"
    )
    request = request_body(1000)
    with ExitStack() as stack:
        origin = stack.enter_context(servers.origin(folder, answer_body(), core.client)).port
        gateway = servers.gateway(folder / "gateway", origin, core.server)
        subjects = {"AskOnce": stack.enter_context(gateway)}
        servers.ask(subjects["AskOnce"].port, request)
        headers, body = servers.ask(subjects["AskOnce"].port, request)
        if ("x-cache", "HIT") not in headers:
            raise SystemExit(f"the second answer is no hit: {headers}")
        own = [pair for pair in headers if pair[0] not in {"date", "server"}]
        subjects["bare ASGI"] = stack.enter_context(servers.canned(folder, own, body, core.server))
        if servers.nginx_program():
            subjects["nginx"] = stack.enter_context(servers.nginx(folder, own, body, core.server))
        else:
            report.notes.append("nginx is not installed (Debian package nginx-light): not compared")
        if not has_wrk():
            report.notes.append("wrk is not installed (Debian package wrk): slower own client used")
        runs = measure(folder, subjects, request, options)
    cores = {name: Sample(tuple(run.per_core for run in found)) for name, found in runs.items()}
    rates = {name: Sample(tuple(run.rate for run in found)) for name, found in runs.items()}
    for name, sample in cores.items():
        report.add(f"{name}, for a second of one core", sample, "/s")
    for name, sample in rates.items():
        report.add(f"{name}, by the clock", sample, "/s")
    for other in list(runs)[1:]:
        bar = BAR if other == "bare ASGI" else None
        report.add(f"AskOnce over {other}", cores["AskOnce"].over(cores[other]), "x", bar)
        clock = rates["AskOnce"].over(rates[other])
        report.add(f"AskOnce over {other}, by the clock", clock, "x")
    return report


def measure(
    folder: Path, subjects: dict[str, Server], request: bytes, options: Options
) -> dict[str, list[Run]]:
    """The runs of each server, round by round."""
    runs: dict[str, list[Run]] = {name: [] for name in subjects}
    for turn in range(options.rounds + 1):
        for name, server in subjects.items():
            seconds = options.seconds if turn else 1
            found = load(folder, server, request, CONNECTIONS, seconds=seconds)
            if turn:
                runs[name].append(found)
                tell(f"hits {turn}/{options.rounds}: {name} {found.rate:,.0f}/s")
    return runs
