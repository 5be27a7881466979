"""Flags of `askonce kv`."""

from __future__ import annotations

import argparse
from pathlib import Path

from askonce.cli.kv_conformance import add_conformance
from askonce.cli.kv_plan import add_plan


def add_kv(parser: argparse.ArgumentParser) -> None:
    """Its commands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    add_plan(commands)
    store, model = _store(), _model()
    said = "say how the store is, and a model's epoch"
    stat = commands.add_parser("stat", parents=[store, model], help=said)
    pages = "an engine's `/metrics`, for what sharing saved and what audits found; may be repeated"
    stat.add_argument("--metrics", action="append", metavar="URL", help=pages)
    inspect = commands.add_parser("inspect", parents=[store], help="read a block's header")
    inspect.add_argument("key", nargs="?", help="a block's key as the store has it")
    bench = commands.add_parser("bench", parents=[store], help="measure the store from here")
    bench.add_argument("--blocks", type=int, default=32, metavar="N", help="default 32")
    size = "of one block (default 2 MiB)"
    bench.add_argument("--block-bytes", type=int, default=2 << 20, metavar="N", help=size)
    told = "take a model's blocks back, on every replica"
    commands.add_parser("invalidate", parents=[store, model], help=told)
    add_conformance(commands, store)


def _store() -> argparse.ArgumentParser:
    store = argparse.ArgumentParser(add_help=False)
    where = "the store, `redis://host:6379`; else ASKONCE_KV_URL"
    store.add_argument("--url", metavar="URL", help=where)
    return store


def _model() -> argparse.ArgumentParser:
    model = argparse.ArgumentParser(add_help=False)
    model.add_argument("--model", type=Path, metavar="DIR", help="the folder with its weights")
    scope = "the scope that an engine printed, instead of a model"
    model.add_argument("--scope", metavar="HEX", help=scope)
    return model
