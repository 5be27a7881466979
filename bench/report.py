"""The report as a table for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.stats import Line, Report

HEAD = ("", "median", "min - max", "bar", "")


def tell(message: str) -> None:
    """Progress, beside the report."""
    print(message, file=sys.stderr, flush=True)


def machine() -> str:
    """Where this ran, in one line."""
    load = os.getloadavg()[0]
    return (
        f"{_processor()}, {os.cpu_count()} cores, load {load:.1f} at start;"
        f" Python {platform.python_version()}, {', '.join(map(_version, _PARTS))}"
    )


_PARTS = ("uvicorn", "uvloop", "aiohttp", "msgspec")


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def table(reports: Iterable[Report]) -> str:
    """All reports, their columns aligned."""
    blocks = [(report, [_row(line) for line in report.lines]) for report in reports]
    rows = [HEAD, *(row for _, found in blocks for row in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    text = [_aligned(HEAD, widths)]
    for report, found in blocks:
        text += ["", f"{report.name}: {report.about}"]
        text += [_aligned(row, widths) for row in found]
        text += [f"  note: {note}" for note in report.notes]
    return "\n".join(text)


def _row(line: Line) -> tuple[str, ...]:
    sample, unit, bar = line.sample, line.unit, line.bar
    spread = f"{number(sample.low)} - {number(sample.high)}"
    median = f"{number(sample.median)} {unit}"
    if bar is None:
        return line.what, median, spread, "", ""
    verdict = "PASS" if bar.cleared_by(sample) else "MISS"
    return line.what, median, spread, f"{bar.relation} {number(bar.limit)}", verdict


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    what, *figures = row
    cells = [figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True)]
    return "  ".join(["  " + what.ljust(widths[0]), *cells]).rstrip()


def number(value: float) -> str:
    """Three digits that count, thousands apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def as_json(reports: Iterable[Report], where: str) -> dict[str, Any]:
    """Everything that was measured, round by round."""
    return {
        "machine": where,
        "reports": {
            report.name: {
                "about": report.about,
                "notes": report.notes,
                "lines": [_line(line) for line in report.lines],
            }
            for report in reports
        },
    }


def _line(line: Line) -> dict[str, Any]:
    bar = line.bar
    judged = (
        {}
        if bar is None
        else {
            "bar": f"{bar.relation} {bar.limit}",
            "pass": bar.cleared_by(line.sample),
        }
    )
    sample = line.sample
    return {
        "what": line.what,
        "unit": line.unit,
        "median": sample.median,
        "min": sample.low,
        "max": sample.high,
        "rounds": list(sample.values),
        **judged,
    }
