"""`askonce evaluate --log` and `askonce tune`: a request log, replayed."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.cli.entries import NoSink
from askonce.clock import SystemClock
from askonce.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

    from askonce.config import Config
    from askonce.embedders.onnx import OnnxEmbedder
    from askonce.lab.traffic.ingest import Traffic
    from askonce.lab.traffic.readings import KeptReadings
    from askonce.lab.traffic.report import LogOptions, LogReport
    from askonce.lab.traffic.tune import TuneReport

    Opened = tuple[OnnxEmbedder, KeptReadings] | None

NOTHING = 1
"""Exit code for a log without a single call to replay."""


def replay(config: Config, arguments: argparse.Namespace) -> int:
    """Print what each rule would have answered; returns the exit code."""
    _need_numpy()
    from askonce.lab.traffic import pages, tables

    report = asyncio.run(_replayed(config, arguments))
    print(tables.render(report))
    if not report.calls:
        return _nothing()
    if arguments.out:
        _show(pages.write(report, arguments.out))
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.encode(report))
    return 0


def tune(config: Config, arguments: argparse.Namespace) -> int:
    """Print advice, and a configuration that takes it; returns the exit code."""
    _need_numpy()
    from askonce.lab.traffic import tables, tune_page
    from askonce.lab.traffic import tune as lab

    report = asyncio.run(_tuned(config, arguments))
    print(tables.head(report.log), end="\n\n")
    if not report.log.calls:
        return _nothing()
    print(lab.render(report), end="")
    if arguments.toml:
        arguments.toml.write_text(report.toml, encoding="utf-8")
    if arguments.out:
        _show(tune_page.write(report, arguments.out))
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.encode(report))
    return 0


async def _replayed(config: Config, arguments: argparse.Namespace) -> LogReport:
    from askonce.lab.traffic import report

    options = _options(arguments)
    async with _opened(config, options, arguments.log) as (traffic, opened):
        embedder, readings = opened or (None, None)
        stage = await report.staged(traffic, readings, options, _show)
        dim = embedder.dim if embedder is not None else 0
        played = report.play_all(stage, report.jobs(config, options, dim), config, _show)
        name = embedder.id if embedder is not None else ""
        return report.reported(stage, played, options, name, config)


async def _tuned(config: Config, arguments: argparse.Namespace) -> TuneReport:
    from askonce.lab.traffic.tune import tuned

    options = _options(arguments)
    async with _opened(config, options, arguments.logs) as (traffic, opened):
        return await tuned(traffic, config, opened, options, _show)


@asynccontextmanager
async def _opened(
    config: Config, options: LogOptions, paths: list[Path]
) -> AsyncIterator[tuple[Traffic, Opened]]:
    """The calls of the logs, and what embeds their questions if there is anything to embed."""
    from askonce.lab.traffic.ingest import ingest

    traffic = ingest(paths, config, limit=options.limit, progress=_show)
    opened = None
    try:
        if traffic.partitions and config.semantic.enabled:
            opened = await _open_readings(config, options)
        yield traffic, opened
    finally:
        traffic.close()
        if opened is not None:
            await opened[0].close()
            opened[1].close()


async def _open_readings(config: Config, options: LogOptions) -> Opened:
    """None where the semantic tier cannot be opened: the rest can be replayed without it."""
    from askonce.embedders.onnx import OnnxEmbedder
    from askonce.lab.traffic.readings import KeptReadings

    data_dir = Path(config.server.data_dir)
    try:
        embedder = await OnnxEmbedder.open(
            config.semantic, data_dir=data_dir, clock=SystemClock(), sink=NoSink()
        )
    except ConfigError as reason:
        _show(f"nothing is replayed by meaning: {reason}")
        return None
    try:
        return embedder, KeptReadings(embedder, options.cache)
    except BaseException:
        await embedder.close()
        raise


def _options(arguments: argparse.Namespace) -> LogOptions:
    from askonce.lab.traffic.report import LogOptions, Prices

    given = {
        "limit": arguments.limit,
        "questions": arguments.questions,
        "cache": arguments.cache,
        "budgets": tuple(getattr(arguments, "budget", None) or ()) or None,
        "floors": tuple(getattr(arguments, "floor", None) or ()) or None,
        "prices": Prices(arguments.prompt_price, arguments.completion_price),
    }
    return LogOptions(**{name: value for name, value in given.items() if value is not None})


def _need_numpy() -> None:
    try:
        import numpy  # noqa: F401, ICN001 - only whether it is there
    except ImportError:
        raise MissingExtra("numpy", "semantic") from None


def _nothing() -> int:
    print("askonce: there is no call to replay in this log", file=sys.stderr)
    return NOTHING


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
