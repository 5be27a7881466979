"""The shared KV tier, simulated: the gate against rules that do not think, admission against LRU.

Without `$KV_TRACES`, a folder of traces, two made traces are replayed; the promise about admission
is one about Mooncake's conversations, so it is judged only where they are there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.lab.kv import study, synthetic, tables, traces, verdicts
from bench.report import tell
from bench.stats import Bar, Report, Sample

if TYPE_CHECKING:
    from bench.options import Options


_TIGHT = (67_000_000_000,)
"""A store as tight for the made traces as 268 GB are for an hour of a chat service."""


def run(folder: Path, options: Options) -> Report:
    """Replay everything once: the same seed gives the same figures."""
    del folder, options
    where = os.environ.get("KV_TRACES")
    if where:
        files = sorted(path for path in Path(where).iterdir() if path.is_file())
        found = [traces.read(path) for path in files]
    else:
        found = [synthetic.chat(6000), synthetic.agents()]
    chosen = study.Options() if where else study.Options(budgets=_TIGHT, local_tokens=500_000)
    made = study.run(found, chosen, tell)
    tell(tables.render(made))
    report = Report("kvsim", "the shared KV tier, simulated")
    for one in verdicts.regrets(made):
        what = f"gate, {one.trace}, {one.gpu}, {one.gigabits:g} Gb/s: mean TTFT over the best rule"
        report.add(what, Sample((one.ratio,)), "x", Bar("<=", verdicts.SLOWER))
    for worth in verdicts.worths(made):
        _add(report, worth)
    return report


def _add(report: Report, worth: verdicts.Worth) -> None:
    place = f"{worth.trace}, {worth.routing}"
    points = [100 * each.store / each.tokens for each in (worth.lru, worth.askonce, worth.bound)]
    if worth.reachable:
        gain = points[1] / points[0] if points[0] else float("inf")
        writes = worth.askonce.written / worth.lru.written
        report.add(f"admission, {place}: gain over LRU's", Sample((gain,)), "x", Bar(">=", 2.0))
        report.add(f"admission, {place}: writes over LRU's", Sample((writes,)), "x", Bar("<", 1.0))
    report.notes.append(
        f"{place}: the store adds {points[0]:.2f} points (LRU), {points[1]:.2f} (AskOnce), "
        f"{points[2]:.2f} (clairvoyant)"
    )
