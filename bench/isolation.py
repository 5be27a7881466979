"""Exact hits while the semantic tier has more to do than it can."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench import servers
from bench.client import Job, Stream
from bench.load import NUMBER, run_job
from bench.report import tell
from bench.samples import answer_body, raw_request, request_body
from bench.stats import Bar, Report, Sample, percentile

if TYPE_CHECKING:
    from pathlib import Path

    from bench.client import Outcome
    from bench.options import Options

HITS = 250
"""Requests a second, far below what the gateway can serve."""
QUESTIONS = 250
"""New questions a second, about three times what one core embeds."""
SECONDS = 4
BAR = Bar("<=", 5)
TEXT = (
    f"How many of the {NUMBER} visitors that came to the old museum in the spring of last year "
    "bought a ticket for the new exhibition as well?"
)


def run(folder: Path, options: Options) -> Report:
    """The same open stream of hits alone, then beside new questions, in turn."""
    about = f"p99 of {HITS} exact hits/s, idle and beside {QUESTIONS} new questions/s"
    report = Report("isolation", about)
    cores = servers.cores()
    with ExitStack() as stack:
        origin = stack.enter_context(servers.origin(folder, answer_body(), cores.client)).port
        gateway = servers.gateway(folder / "gateway", origin, cores.server, semantic=True)
        port = stack.enter_context(gateway).port
        state = servers.semantic_state(port)
        if state != "on":
            report.notes.append(f"semantic tier {state}: not measured")
            return report
        measure(report, port, options)
        report.notes.append(_skipped(port))
    return report


def measure(report: Report, port: int, options: Options) -> None:
    """Add the rows of all rounds."""
    hot = request_body(1000)
    servers.ask(port, hot)
    hits = Stream(raw_request(hot, port).decode(), connections=16, rate=HITS)
    p50: dict[str, list[float]] = {}
    p99: dict[str, list[float]] = {}
    for turn in range(options.rounds):
        for name, beside in _beside(port, turn).items():
            outcome = run_job(Job(port, SECONDS, [hits, *beside]), servers.cores().client)
            _check(outcome)
            spans = [latency * 1e3 for latency in outcome[0].latencies]
            p50.setdefault(name, []).append(percentile(spans, 0.5))
            p99.setdefault(name, []).append(percentile(spans, 0.99))
            tell(f"isolation {turn + 1}/{options.rounds}: {name} p99 {p99[name][-1]:.2f} ms")
    for name, found in p50.items():
        report.add(f"hits p50, {name}", Sample(tuple(found)), "ms")
        report.add(f"hits p99, {name}", Sample(tuple(p99[name])), "ms")
    idle, busy = Sample(tuple(p99["idle"])), Sample(tuple(p99["semantic tier saturated"]))
    report.add("hits p99, saturated over idle", busy.over(idle), "x", BAR)


def _beside(port: int, turn: int) -> dict[str, list[Stream]]:
    """What runs beside the hits; the same questions without meaning show the misses' own share."""
    question = request_body(600, TEXT)
    meant = raw_request(question, port)
    exact_only = raw_request(question, port, {"X-AskOnce-Semantic": "off"})
    first = turn * 10_000_000
    return {
        "idle": [],
        "the same misses, semantic off": [
            Stream(exact_only.decode(), 64, QUESTIONS, first_number=first)
        ],
        "semantic tier saturated": [
            Stream(meant.decode(), 64, QUESTIONS, first_number=first + 5_000_000)
        ],
    }


def _check(outcomes: list[Outcome]) -> None:
    errors = sum(outcome.errors for outcome in outcomes)
    if errors:
        raise SystemExit(f"{errors} requests failed under load")


def _skipped(port: int) -> str:
    """How much of the semantic work was shed, from the gateway's own figures."""
    page = servers.page(port, "/metrics")
    lines = [
        line.removeprefix("askonce_")
        for line in page.splitlines()
        if line.startswith(("askonce_steps_skipped_total{", "askonce_embedding_seconds_count"))
    ]
    return "the gateway counted " + "; ".join(lines)
