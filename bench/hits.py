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
    cores = servers.cores()
    report = Report(
        "hits", f"exact hits of one core, {CONNECTIONS} connections, 1 kB in, 2.2 kB out"
    )
    request = request_body(1000)
    with ExitStack() as stack:
        origin = stack.enter_context(servers.origin(folder, answer_body(), cores.client)).port
        gateway = servers.gateway(folder / "gateway", origin, cores.server)
        subjects = {"AskOnce": stack.enter_context(gateway)}
        servers.ask(subjects["AskOnce"].port, request)
        headers, body = servers.ask(subjects["AskOnce"].port, request)
        if ("x-cache", "HIT") not in headers:
            raise SystemExit(f"the second answer is no hit: {headers}")
        own = [pair for pair in headers if pair[0] not in {"date", "server"}]
        subjects["bare ASGI"] = stack.enter_context(servers.canned(folder, own, body, cores.server))
        if servers.nginx_program():
            subjects["nginx"] = stack.enter_context(servers.nginx(folder, own, body, cores.server))
        else:
            report.notes.append("nginx is not installed (Debian package nginx-light): not compared")
        if not has_wrk():
            report.notes.append("wrk is not installed (Debian package wrk): slower own client used")
        runs = measure(folder, subjects, request, options)
    rates = {name: Sample(tuple(run.rate for run in found)) for name, found in runs.items()}
    costs = {name: Sample(tuple(run.cpu * 1e6 for run in found)) for name, found in runs.items()}
    for name in runs:
        report.add(f"{name}, answers", rates[name], "/s")
        report.add(f"{name}, processor an answer", costs[name], "us")
    report.add(
        "AskOnce over bare ASGI, answers", rates["AskOnce"].over(rates["bare ASGI"]), "x", BAR
    )
    report.add("bare ASGI over AskOnce, processor", costs["bare ASGI"].over(costs["AskOnce"]), "x")
    if "nginx" in runs:
        report.add("AskOnce over nginx, answers", rates["AskOnce"].over(rates["nginx"]), "x")
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
