"""What it costs to parse a request and to make its exact key."""

from __future__ import annotations

import timeit
from typing import TYPE_CHECKING

from askonce.canonical.key import Scope, exact_key
from askonce.canonical.request import parse_chat
from bench.report import tell
from bench.samples import long_request_body, request_body
from bench.stats import Bar, Report, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from bench.options import Options

CASES = (
    ("1 kB", request_body(1000), 2000, Bar("<=", 10)),
    ("27 kB", long_request_body(27_000), 200, Bar("<=", 100)),
)
BEST_OF = 5


def run(_folder: Path, options: Options) -> Report:
    """Each round is the best of a few, since noise only ever adds."""
    report = Report("keys", f"parse and exact key, each round the best of {BEST_OF}")
    scope = Scope("/v1/chat/completions?", "origin", "", bytes(32))
    for name, body, times, bar in CASES:

        def make(body: bytes = body) -> bytes:
            return exact_key(scope, parse_chat(body))

        rounds = [
            min(timeit.repeat(make, number=times, repeat=BEST_OF)) / times * 1e6
            for _ in range(options.rounds)
        ]
        tell(f"keys: {name} done")
        report.add(f"{name} ({len(body):,} bytes)", Sample(tuple(rounds)), "us", bar)
    return report
