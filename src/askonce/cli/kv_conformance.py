"""`askonce kv conformance`: does a connector of vLLM keep apart what must not be shared?"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    import argparse


_OWN = "askonce.kv.vllm:AskOnceConnector"


def add_conformance(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], store: argparse.ArgumentParser
) -> None:
    """Add `conformance` to the subcommands of `kv`."""
    about = "try a connector of vLLM for what it must keep apart"
    parser = commands.add_parser("conformance", parents=[store], help=about, description=about)
    any_one = "any connector of vLLM (default AskOnce's own)"
    parser.add_argument("--connector", default=_OWN, metavar="MODULE:CLASS", help=any_one)
    extra = "its kv_connector_extra_config; --url is added"
    parser.add_argument("--extra", default="{}", metavar="JSON", help=extra)


def conformance(arguments: argparse.Namespace) -> int:
    """Print a verdict for each dimension; 1 if anything leaks or could not be tried."""
    if ":" not in arguments.connector:
        raise ConfigError("--connector is `module:Class`")
    try:
        extra = json.loads(arguments.extra)
    except ValueError as reason:
        raise ConfigError(f"--extra is no JSON: {reason}") from None
    if not isinstance(extra, dict):
        raise ConfigError("--extra is a JSON object")
    if arguments.url:
        extra["url"] = arguments.url
    if arguments.connector == _OWN:
        extra.setdefault("gate", "off")  # a block that does not pay would pass for one kept apart
        extra.setdefault("audit", 0)  # and so would one that is audited
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    try:
        from askonce.kv.vllm.conformance import check
    except ImportError:
        raise MissingExtra("vllm", "kv, beside a vLLM of yours") from None
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        for each in check(arguments.connector, extra, Path(folder)):
            print(f"{each.dimension:24} {each.verdict:10} {each.told}", flush=True)
            fine = fine and each.fine
    return int(not fine)
