"""Commands and flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from askonce import __version__
from askonce.cli.kv_flags import add_kv
from askonce.cli.lab import add_lab
from askonce.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "host": ("server", "host"),
    "port": ("server", "port"),
    "workers": ("server", "workers"),
    "data_dir": ("server", "data_dir"),
    "upstream": ("upstream", 0, "url"),
}
"""Flags that set one key of the configuration each."""


def make_parser() -> argparse.ArgumentParser:
    """All commands with their flags."""
    parser = argparse.ArgumentParser(
        prog="askonce", description="An inference cache: a gateway that asks the model once."
    )
    parser.add_argument("--version", action="version", version=f"askonce {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = _shared()
    commands.add_parser("serve", parents=[shared], help="start the gateway")
    _key(commands.add_parser("key", parents=[shared], help="print a request's exact key"))
    doctor = commands.add_parser("doctor", parents=[shared], help="say what is wrong")
    doctor.add_argument("--json", action="store_true", help="print findings as JSON")
    commands.add_parser("stats", parents=[shared], help="print what the cache holds and saves")
    _clear(commands.add_parser("clear", parents=[shared], help="remove entries"))
    _invalidate(
        commands.add_parser("invalidate", parents=[shared], help="take answers back everywhere")
    )
    evidence = "look at the evidence, judge answers, retract entries"
    _audit(commands.add_parser("audit", parents=[shared], help=evidence))
    measure = "measure the tiers on labelled sets, or on a log of requests"
    _evaluate(commands.add_parser("evaluate", parents=[shared], help=measure))
    advise = "advise settings from a log of requests, with the evidence"
    _tune(commands.add_parser("tune", parents=[shared], help=advise))
    add_kv(commands.add_parser("kv", help="the shared KV tier: size it, look at its store"))
    add_lab(commands.add_parser("lab", help="simulate the tiers on traces"))
    return parser


def _shared() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    group = shared.add_argument_group("configuration, over file and environment")
    group.add_argument("--config", type=Path, metavar="FILE", help="the TOML file")
    group.add_argument("--host", help="address to listen at")
    group.add_argument("--port", help="port to listen at; 0 takes a free one")
    group.add_argument("--workers", metavar="N", help="server processes")
    group.add_argument("--data-dir", metavar="DIR", help="where databases live")
    group.add_argument("--upstream", metavar="URL", help="the only engine to ask, up to /v1")
    return shared


def _key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a request body as JSON; - is standard input")
    parser.add_argument("other", metavar="FILE2", nargs="?", help="another to tell it from")
    parser.add_argument("--namespace", default="", metavar="NAME", help="as X-AskOnce-Namespace")
    parser.add_argument(
        "--authorization", default="", metavar="VALUE", help="the caller's Authorization header"
    )


def _clear(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--exact", action="store_true", help="the exact tier only")
    parser.add_argument("--semantic", action="store_true", help="the semantic tier only")
    parser.add_argument("--tag", metavar="NAME", help="only entries that carry the tag")
    parser.add_argument("--yes", action="store_true", help="do not ask first")


def _invalidate(parser: argparse.ArgumentParser) -> None:
    named = parser.add_argument_group("which answers; all that is named must fit")
    named.add_argument("--all", action="store_true", help="every answer")
    named.add_argument("--key", metavar="KEY", help="one entry, by its exact key")
    named.add_argument("--model", metavar="NAME", help="of requests for this model")
    # Not `--upstream`, which sets the only engine to ask.
    named.add_argument("--of-upstream", metavar="NAME", help="of this upstream")
    named.add_argument("--revision", metavar="LABEL", help="of this revision of an upstream")
    named.add_argument("--namespace", metavar="NAME", help="of this namespace")
    named.add_argument("--tenant", metavar="DIGEST", help="of this caller's partition")
    named.add_argument("--prompt", metavar="FILE", help="under the system prompt in this file")
    named.add_argument("--tag", metavar="NAME", help="with this tag")
    named.add_argument(
        "--older-than", metavar="AGE", help="given before that long: 90s, 5m, 2h, 7d"
    )
    alike = parser.add_argument_group("by meaning")
    alike.add_argument("--like", metavar="TEXT", help="to questions that mean about the same")
    alike.add_argument(
        "--floor", type=_floor, default=0.85, metavar="F", help="least similarity (default 0.85)"
    )
    alike.add_argument("--dry-run", action="store_true", help="with --like: only list them")
    parser.add_argument("--list", action="store_true", help="print what was taken back so far")
    parser.add_argument("--why", default="", metavar="TEXT", help="a reason for the log")
    parser.add_argument("--yes", action="store_true", help="do not ask first")


def _audit(parser: argparse.ArgumentParser) -> None:
    actions = "list, show, judge (a request's answer) or retract (an entry)"
    parser.add_argument("action", choices=("list", "show", "judge", "retract"), help=actions)
    parser.add_argument("id", nargs="?", help="a request id, or an entry's key in full")
    parser.add_argument(
        "verdict", nargs="?", choices=("right", "wrong"), help="for judge: what the answer was"
    )
    parser.add_argument(
        "--only", choices=("same", "different", "unsure"), help="list these verdicts alone"
    )
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="how many to list")


def _evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="sets, or folders")
    parser.add_argument(
        "--floor",
        action="append",
        type=_floor,
        metavar="F",
        help="similarity floor from 0 to 1; repeatable",
    )
    parser.add_argument(
        "--limit",
        type=_number,
        metavar="N",
        help="rows of each set (default 3000, with --suite 10000), or calls (100000); 0 takes all",
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keeps embeddings between runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON, too")
    _suite(parser.add_argument_group("all promises, measured in one run"))
    group = parser.add_argument_group("a log of requests, replayed")
    group.add_argument(
        "--log", action="append", type=Path, metavar="FILE", help="replay this log; repeatable"
    )
    _replay(group)


def _tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="logs, oldest first")
    parser.add_argument(
        "--limit", type=_number, metavar="N", help="calls to read (default 100000); 0 takes all"
    )
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keeps embeddings between runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all as JSON, too")
    parser.add_argument("--toml", type=Path, metavar="FILE", help="write the settings as TOML")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where plots and page go")
    _replay(parser.add_argument_group("replay"))


def _replay(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--questions",
        type=_number,
        metavar="N",
        help="different questions to embed (default 5000); 0 takes all",
    )
    group.add_argument(
        "--prompt-price", type=_price, default=0.0, metavar="USD", help="of a million prompt tokens"
    )
    group.add_argument(
        "--completion-price",
        type=_price,
        default=0.0,
        metavar="USD",
        help="of a million completion tokens",
    )


def _suite(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--suite",
        metavar="DIR",
        help="replay the sets in this folder under budgets, next to other rules;"
        " a bare name is NAME/semantic in $ASKONCE_DATA, or in ../shared/data",
    )
    group.add_argument(
        "--orders",
        type=_count,
        default=10,
        metavar="N",
        help="random orders of each set (default 10)",
    )
    group.add_argument(
        "--first-seed",
        type=_number,
        default=0,
        metavar="N",
        help="seed of the first order (default 0), so that orders not seen before can be taken",
    )
    group.add_argument(
        "--budget",
        action="append",
        type=_share,
        metavar="B",
        help="share of the hits that may be wrong, as 0.01; repeatable",
    )
    group.add_argument("--sets", nargs="+", default=(), metavar="NAME", help="only these sets")
    group.add_argument(
        "--out",
        type=Path,
        default=Path("suite-report"),
        metavar="FOLDER",
        help="where plots and page go (default suite-report)",
    )


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_count.__name__ = "count"


def _number(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


_number.__name__ = "number"


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 0.5:
        raise ValueError
    return value


_share.__name__ = "share"


def _price(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


_price.__name__ = "price"


def _floor(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


_floor.__name__ = "similarity"


def settings_of(arguments: argparse.Namespace) -> Iterator[Setting]:
    """The configuration that flags give."""
    for flag, path in SETTINGS.items():
        value = getattr(arguments, flag, None)
        if value is not None:
            name = f"--{flag.replace('_', '-')}"
            yield Setting(path, value, name, text=True, alone=flag == "upstream")
