"""`python -m bench [names]`: measure, print a table, and say which bars are cleared."""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.options import Options
from bench.report import as_json, machine, table, tell
from bench.servers import cores, settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.stats import Report

ALONE = ("keys", "hits", "misses", "lookup", "decide", "isolation", "memory")
NAMES = (*ALONE, "stores", "fleet", "vectors", "memcached", "kvsim")
"""The last ones need servers, which `make servers` lays."""
ON_REQUEST = ("kv", "peers")
"""Not among all: `kv` needs a store of its own, `peers` what scripts/peers.py lays."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all; with --strict returns how many bars were missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = [*NAMES, *ON_REQUEST]
    parser.add_argument("names", nargs="*", choices=[*known, []], metavar="|".join(known))
    parser.add_argument("--rounds", type=int, default=Options.rounds)
    parser.add_argument("--seconds", type=int, default=Options.seconds, help="of one load")
    parser.add_argument("--requests", type=int, default=Options.requests, help="of `memory`")
    parser.add_argument("--json", type=Path, help="also write every round to this file")
    parser.add_argument("--strict", action="store_true", help="fail where a bar is missed")
    chosen = parser.parse_args(argv)
    options = Options(chosen.rounds, chosen.seconds, chosen.requests)
    settle(None)
    where = machine()
    tell(where)
    if cores().server == cores().client:
        tell("server and client share a core: absolute figures will be low")
    reports = [_run(name, options) for name in chosen.names or ALONE]
    print(f"{where}\nmedian of {options.rounds} interleaved rounds\n")
    print(table(reports), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(as_json(reports, where), indent=1))
    missed = sum(
        line.bar is not None and not line.bar.cleared_by(line.sample)
        for report in reports
        for line in report.lines
    )
    return missed if chosen.strict else 0


def _run(name: str, options: Options) -> Report:
    with tempfile.TemporaryDirectory(prefix="askonce-bench-") as folder:
        report: Report = importlib.import_module(f"bench.{name}").run(Path(folder), options)
        return report


if __name__ == "__main__":
    raise SystemExit(main())
