"""`askonce evaluate`: the semantic tier's decisions on labelled sets, next to bare thresholds."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.cli.entries import NoSink
from askonce.clock import SystemClock
from askonce.errors import MissingExtra

if TYPE_CHECKING:
    from askonce.lab.evaluate import Report

if TYPE_CHECKING:
    import argparse

    from askonce.config import Config


def evaluate(config: Config, arguments: argparse.Namespace) -> int:
    """Print the report; returns the exit code."""
    try:
        from askonce.lab.table import render
    except ImportError as absent:
        raise MissingExtra(absent.name or "numpy", "semantic") from None
    report = asyncio.run(_measured(config, arguments))
    print(render(report))
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.encode(report))
    return 0


async def _measured(config: Config, arguments: argparse.Namespace) -> Report:
    from askonce.embedders.onnx import OnnxEmbedder
    from askonce.lab import evaluate as lab

    options = lab.Options(
        floors=tuple(arguments.floor or (0.85, config.semantic.floor)),
        neighbours=config.semantic.neighbours,
        limit=arguments.limit,
        cache=arguments.cache,
    )
    embedder = await OnnxEmbedder.open(
        config.semantic, data_dir=Path(config.server.data_dir), clock=SystemClock(), sink=NoSink()
    )
    try:
        return await lab.evaluate(arguments.paths, embedder, options, progress=_show)
    finally:
        await embedder.close()


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
