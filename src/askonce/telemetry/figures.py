"""Running totals of one process, and their sum over the processes of one server."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)
"""Upper bounds in seconds: a hit in the process takes 100 us, a long answer two minutes."""

Series = tuple[str, ...]
"""A metric's name, then the values of its labels."""


class Histogram(msgspec.Struct):
    """How many observations fell into each bucket, the last being without bound."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(BUCKETS, value)] += 1
        self.total += value

    def add(self, other: Histogram) -> None:
        """Count another's observations as well."""
        self.counts = [
            mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)
        ]
        self.total += other.total


class Figures(msgspec.Struct, omit_defaults=True):
    """All totals; `counters` and `histograms` grow, `gauges` are the latest."""

    counters: dict[Series, float] = {}
    gauges: dict[Series, float] = {}
    histograms: dict[Series, Histogram] = {}


class Snapshot(msgspec.Struct):
    """Figures as a file holds them."""

    pid: int
    counters: list[tuple[Series, float]]
    gauges: list[tuple[Series, float]]
    histograms: list[tuple[Series, Histogram]]


def snapshot(figures: Figures) -> Snapshot:
    """Copy figures that another thread may be changing."""
    return Snapshot(
        os.getpid(),
        list(figures.counters.copy().items()),
        list(figures.gauges.copy().items()),
        [
            (series, Histogram(list(each.counts), each.total))
            for series, each in figures.histograms.copy().items()
        ],
    )


def total(snapshots: Iterable[Snapshot], *, is_shared: Callable[[Series], bool]) -> Figures:
    """Sum up; a gauge of something that all processes share is the greatest, not the sum."""
    figures = Figures()
    for each in snapshots:
        for series, value in each.counters:
            figures.counters[series] = figures.counters.get(series, 0.0) + value
        for series, value in each.gauges:
            known = figures.gauges.get(series, 0.0)
            figures.gauges[series] = max(known, value) if is_shared(series) else known + value
        for series, histogram in each.histograms:
            figures.histograms.setdefault(series, Histogram()).add(histogram)
    return figures


def write_snapshot(directory: Path, taken: Snapshot) -> None:
    """Publish this process's figures to the others; replaces the file in one step."""
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / f".{taken.pid}"
    draft.write_bytes(msgspec.json.encode(taken))
    draft.replace(directory / f"{taken.pid}.json")


def read_snapshots(directory: Path, *, but: int) -> list[Snapshot]:
    """The other processes' figures; of one that has ended, what it counted, but no gauges."""
    found = []
    for path in sorted(directory.glob("*.json")):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            each = msgspec.json.decode(path.read_bytes(), type=Snapshot)
            if not is_running(each.pid):
                each.gauges = []
            if each.pid != but:
                found.append(each)
    return found


def is_running(pid: int) -> bool:
    """Whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def run_directory(data_dir: Path) -> Path:
    """Where the workers of one server, children of one process, publish their figures."""
    return data_dir / "run" / str(os.getppid())


def sweep_runs(data_dir: Path) -> None:
    """Remove what servers left that run no longer."""
    for directory in (data_dir / "run").glob("[0-9]*"):
        if directory.name.isdigit() and not is_running(int(directory.name)):
            for path in directory.iterdir():
                path.unlink(missing_ok=True)
            directory.rmdir()
