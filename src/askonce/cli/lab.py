"""`askonce lab kv`: the shared KV tier, simulated on traces."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from askonce.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from askonce.lab.kv.study import Options
    from askonce.lab.kv.traces import Trace

_UNITS = {"": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def add_lab(parser: argparse.ArgumentParser) -> None:
    """Add the simulators to `lab`."""
    commands = parser.add_subparsers(dest="lab_command", required=True, metavar="WHAT")
    about = "replay traces over replicas with a shared KV tier"
    _kv(commands.add_parser("kv", help=about, description=about))


def _kv(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "traces", nargs="*", type=Path, metavar="TRACE", help="traces; none: two made ones"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=0,
        metavar="N",
        help="requests or sessions of each; 0 takes all",
    )
    parser.add_argument(
        "--model", default="llama-8b", metavar="NAME", help="llama-8b (default) or llama-70b"
    )
    parser.add_argument(
        "--gpu", action="append", metavar="NAME", help="A100 or H100 (default both); repeatable"
    )
    parser.add_argument(
        "--link",
        action="append",
        type=float,
        metavar="GBPS",
        help="Gb/s of one replica (default 1, 10, 25, 100); repeatable",
    )
    parser.add_argument("--replicas", type=int, default=4, metavar="N", help="default 4")
    parser.add_argument(
        "--local-tokens", type=int, default=1_000_000, metavar="N", help="of each (default 1000000)"
    )
    parser.add_argument(
        "--store",
        action="append",
        type=_size,
        metavar="SIZE",
        help="the store's bytes, as 268GB (default); repeatable, the first is timed",
    )
    parser.add_argument(
        "--routing",
        action="append",
        metavar="NAME",
        help="round-robin, prefix-hash, least-loaded, prefix-aware; repeatable, the first is timed",
    )
    parser.add_argument(
        "--exchange",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="between two exchanges of what replicas saw (default 5); 0: one view for all",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where plots and page go")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON, too")


def lab(arguments: argparse.Namespace) -> int:
    """Print the study; returns the exit code."""
    from askonce.lab.kv import pages, study, tables

    report = study.run(_traces(arguments), _options(arguments), _show)
    print(tables.render(report))
    if arguments.out:
        _show(pages.write(report, arguments.out))
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.encode(report))
    return 0


def _traces(arguments: argparse.Namespace) -> list[Trace]:
    from askonce.lab.kv import synthetic
    from askonce.lab.kv.traces import read

    if arguments.limit < 0:
        raise ConfigError("--limit must not be negative")
    if not arguments.traces:
        limit = arguments.limit
        return [synthetic.chat(limit or 3000), synthetic.agents(limit or 40)]
    return [read(path, arguments.limit) for path in arguments.traces]


def _options(arguments: argparse.Namespace) -> Options:
    from askonce.lab.kv.study import Options

    if arguments.replicas < 1 or arguments.local_tokens < 1:
        raise ConfigError("--replicas and --local-tokens must be above 0")
    given = {
        "gpus": arguments.gpu,
        "gigabits": arguments.link,
        "budgets": arguments.store,
        "routings": arguments.routing,
    }
    chosen: dict[str, Any] = {name: tuple(values) for name, values in given.items() if values}
    if not all(0 < link < float("inf") for link in arguments.link or ()):
        raise ConfigError("--link must be above 0")
    if not 0 <= arguments.exchange < float("inf"):
        raise ConfigError("--exchange must not be negative")
    return Options(
        tell_every=arguments.exchange,
        model=arguments.model,
        replicas=arguments.replicas,
        local_tokens=arguments.local_tokens,
        **chosen,
    )


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(|MB|GB|TB)", text)
    if match is None:
        raise ValueError
    return int(float(match[1]) * _UNITS[match[2]])


_size.__name__ = "size"


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
