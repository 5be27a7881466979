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

    from bench.options import Options

CONNECTIONS = 32
BAR = Bar(">=", 0.6)


def run(folder: Path, options: Options) -> Report:
    """Ask all of them the same, in turn, `options.rounds` times."""
    cores = servers.cores()
    report = Report("hits", f"exact hits of one core, {CONNECTIONS} connections, 1 kB in, 2.2 kB out")
    request = request_body(1000)
    with ExitStack() as stack:
        origin = stack.enter_context(servers.origin(folder, answer_body(), cores.client))
        gateway = servers.gateway(folder / "gateway", origin, cores.server)
        ports = {"AskOnce": stack.enter_context(gateway)}
        servers.ask(ports["AskOnce"], request)
        headers, body = servers.ask(ports["AskOnce"], request)
        if ("x-cache", "HIT") not in headers:
            raise SystemExit(f"the second answer is no hit: {headers}")
        own = [pair for pair in headers if pair[0] not in {"date", "server"}]
        ports["bare ASGI"] = stack.enter_context(servers.canned(folder, own, body, cores.server))
        if servers.nginx_program():
            ports["nginx"] = stack.enter_context(servers.nginx(folder, own, body, cores.server))
        else:
            report.notes.append("nginx is not installed (Debian package nginx-light): not compared")
        if not has_wrk():
            report.notes.append("wrk is not installed (Debian package wrk): slower own client used")
        runs = measure(folder, ports, request, options)
    for name, sample in runs.items():
        report.add(f"{name}, answers", sample, "/s")
    report.add("AskOnce over bare ASGI", runs["AskOnce"].over(runs["bare ASGI"]), "x", BAR)
    if "nginx" in runs:
        report.add("AskOnce over nginx", runs["AskOnce"].over(runs["nginx"]), "x")
    return report


def measure(
    folder: Path, ports: dict[str, int], request: bytes, options: Options
) -> dict[str, Sample]:
    """Answers a second of each server, round by round."""
    core = servers.cores().client
    rates: dict[str, list[float]] = {name: [] for name in ports}
    for turn in range(options.rounds + 1):
        for name, port in ports.items():
            seconds = options.seconds if turn else 1
            rate = load(folder, port, request, CONNECTIONS, seconds, core).rate
            if turn:
                rates[name].append(rate)
                tell(f"hits {turn}/{options.rounds}: {name} {rate:,.0f}/s")
    return {name: Sample(tuple(found)) for name, found in rates.items()}
