"""The command line: reads flags and configuration, calls one function, says how it went."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from askonce.cli.flags import make_parser, settings_of
from askonce.errors import AskOnceError, MissingExtra
from askonce.settings import load_config, refuse_key_alone

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FAILED, UNUSABLE, INTERRUPTED = 1, 2, 130
"""Exit codes: it went wrong; flags, files or settings are wrong; Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    arguments = make_parser().parse_args(argv)
    try:
        return _run(arguments)
    except AskOnceError as reason:
        print(f"askonce: {reason}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    """Run a command; these need no valid configuration."""
    match arguments.command:
        case "doctor":
            from askonce.cli.doctor import doctor

            return doctor(
                arguments.config, os.environ, settings_of(arguments), as_json=arguments.json
            )
        case "kv":
            return _kv(arguments)
        case "lab":
            from askonce.cli.lab import lab

            return lab(arguments)
        case _:
            return _configured(arguments)


def _kv(arguments: argparse.Namespace) -> int:
    try:
        return _kv_action(arguments)
    except ModuleNotFoundError as absent:
        raise MissingExtra(absent.name or "xxhash", "kv") from None


def _kv_action(arguments: argparse.Namespace) -> int:
    if arguments.action == "plan":
        from askonce.cli.kv_plan import plan

        return plan(arguments)
    if arguments.action == "conformance":
        from askonce.cli.kv_conformance import conformance

        return conformance(arguments)
    from askonce.cli.kv import kv

    return kv(arguments, os.environ)


def _configured(arguments: argparse.Namespace) -> int:
    """Run a command that needs a valid configuration.

    Numpy reads at its import how many threads it may use. More than one would wait for one another,
    spinning, over products as small as ours, and none of them has the low priority of learning.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    config = load_config(arguments.config, os.environ, settings_of(arguments))
    match arguments.command:
        case "serve":
            from askonce.cli.serve import serve

            refuse_key_alone(config, os.environ)
            return serve(config)
        case "key":
            from askonce.cli.key import Caller, print_keys

            caller = Caller(arguments.namespace, arguments.authorization)
            return print_keys(config, arguments.file, arguments.other, caller)
        case "evaluate":
            from askonce.cli.evaluate import evaluate

            return evaluate(config, arguments)
        case "tune":
            from askonce.cli.traffic import tune

            return tune(config, arguments)
        case "audit":
            from askonce.cli.audit import audit

            return audit(config, arguments)
        case "invalidate":
            from askonce.cli.invalidate import invalidate

            return invalidate(config, arguments)
        case "stats":
            from askonce.cli.entries import stats

            return stats(config)
        case _:
            from askonce.cli.entries import Chosen, clear

            chosen = Chosen(arguments.exact, arguments.semantic, arguments.tag, arguments.yes)
            return clear(config, chosen)
