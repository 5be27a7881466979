"""AskOnce next to other caches of models' answers: hits, misses, wrong hits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.stats import Report

if TYPE_CHECKING:
    from pathlib import Path

    from bench.options import Options


def run(folder: Path, options: Options) -> Report:
    """Measure what can be laid and started; a note tells of the rest, and why."""
    from bench.peers import exact, meaning, places

    report = Report("peers", "next to LiteLLM's proxy, redisvl and GPTCache, on one core")
    for name in places.NAMES:
        report.notes.append(places.versions(name))
    report.notes.append(places.server_versions())
    exact.measure(folder, options, report)
    meaning.measure(folder, options, report)
    return report
