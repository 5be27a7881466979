"""`askonce evaluate`: the semantic tier's decisions on labelled sets, next to bare thresholds."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.cli.entries import NoSink
from askonce.clock import SystemClock
from askonce.embedders.kinds import open_embedder
from askonce.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    import argparse

    from askonce.config import Config
    from askonce.lab.evaluate import Report
    from askonce.lab.suite import Suite, SuiteOptions
    from askonce.lab.verdicts import SuiteReport
    from askonce.ports import Embedder


def evaluate(config: Config, arguments: argparse.Namespace) -> int:
    """Print the report; returns the exit code."""
    if arguments.suite:
        return _suite(config, arguments)
    if arguments.log:
        from askonce.cli.traffic import replay

        return replay(config, arguments)
    if not arguments.paths:
        raise ConfigError("name sets or folders, a folder with --suite, or a log with --log")
    try:
        from askonce.lab.table import render
    except ImportError as absent:
        raise MissingExtra(absent.name or "numpy", "semantic") from None
    report = asyncio.run(_measured(config, arguments))
    print(render(report))
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.encode(report))
    return 0


def _suite(config: Config, arguments: argparse.Namespace) -> int:
    try:
        from askonce.lab import pages
    except ImportError as absent:
        raise MissingExtra(absent.name or "numpy", "semantic") from None
    folder = _folder(arguments.suite)
    report = _replayed(config, arguments, folder)
    print(pages.render(report))
    _show(pages.write(report, arguments.out))
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.encode(report))
    return 0


def _folder(said: str) -> Path:
    """A folder of sets, or the name of one in the place for data; raises ConfigError for none."""
    if Path(said).is_dir():
        return Path(said)
    named = Path(os.environ.get("ASKONCE_DATA", "../shared/data")) / said / "semantic"
    if Path(said).name != said:
        raise ConfigError(f"no folder {said}")
    if not named.is_dir():
        raise ConfigError(f"neither a folder {said} nor {named}; see $ASKONCE_DATA")
    return named


def _replayed(config: Config, arguments: argparse.Namespace, folder: Path) -> SuiteReport:
    from askonce.lab import suite
    from askonce.lab.outcomes import SHARES

    options = suite.SuiteOptions(
        orders=arguments.orders,
        first_seed=arguments.first_seed,
        limit=10_000 if arguments.limit is None else arguments.limit,
        budgets=tuple(arguments.budget or SHARES),
        names=tuple(arguments.sets),
        neighbours=config.semantic.neighbours,
        by_meaning=config.semantic.conversations == "meaning",
        floor=config.semantic.floor,
        cache=arguments.cache,
    )
    return suite.run(asyncio.run(_read(config, folder, options)), options, _show)


async def _read(config: Config, folder: Path, options: SuiteOptions) -> Suite:
    from askonce.lab import suite

    embedder = await _opened(config)
    try:
        return await suite.read(folder, embedder, options, _show)
    finally:
        await embedder.close()


async def _opened(config: Config) -> Embedder:
    data_dir = Path(config.server.data_dir)
    return await open_embedder(
        config.semantic, data_dir=data_dir, clock=SystemClock(), sink=NoSink()
    )


async def _measured(config: Config, arguments: argparse.Namespace) -> Report:
    from askonce.lab import evaluate as lab

    options = lab.Options(
        floors=tuple(arguments.floor or (0.85, config.semantic.floor)),
        neighbours=config.semantic.neighbours,
        by_meaning=config.semantic.conversations == "meaning",
        limit=3000 if arguments.limit is None else arguments.limit,
        cache=arguments.cache,
    )
    embedder = await _opened(config)
    try:
        return await lab.evaluate(arguments.paths, embedder, options, progress=_show)
    finally:
        await embedder.close()


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
