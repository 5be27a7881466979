"""`askonce kv plan`: does a shared KV tier pay for this model, GPU and network?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import ConfigError
from askonce.kv.curves import TERAFLOPS, Curve
from askonce.kv.plan import LINKS, Plan, Question, planned
from askonce.kv.sizes import WIDTHS, Shape, shape_of
from askonce.lab.columns import aligned

if TYPE_CHECKING:
    import argparse


def add_plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `plan` to the subcommands of `kv`."""
    about = "say whether a shared KV tier pays for a model, GPU and network"
    parser = commands.add_parser("plan", help=about, description=about)
    parser.add_argument(
        "--model-config", type=Path, metavar="FILE", help="the model's config.json, or its folder"
    )
    parser.add_argument("--layers", type=int, metavar="N", help="layers, without a config.json")
    parser.add_argument("--kv-heads", type=int, metavar="N", help="KV heads of a layer")
    parser.add_argument("--head-dim", type=int, metavar="N", help="numbers of a head")
    parser.add_argument("--heads", type=int, metavar="N", help="attention heads of a layer")
    parser.add_argument(
        "--latent", type=int, default=0, metavar="N", help="numbers of an MLA layer and token"
    )
    parser.add_argument(
        "--parameters", type=float, metavar="N", help="active parameters in billions"
    )
    parser.add_argument(
        "--gpu", default="H100", choices=sorted(TERAFLOPS), metavar="NAME", help=_gpus()
    )
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="GPUs of one engine")
    parser.add_argument(
        "--curve",
        default="",
        metavar="NAME",
        help="a published curve: llama-8b, llama-70b, qwen3-32b",
    )
    parser.add_argument(
        "--prefill",
        nargs=3,
        type=float,
        metavar=("MS", "US", "NS"),
        help="measured: milliseconds fixed, microseconds a token, nanoseconds a token squared",
    )
    _store(parser)


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dtype",
        action="append",
        choices=sorted(WIDTHS),
        metavar="NAME",
        help="KV type as stored (default bfloat16 and fp8); repeatable",
    )
    parser.add_argument(
        "--link", action="append", type=float, metavar="GBPS", help="Gb/s; repeatable"
    )
    parser.add_argument(
        "--round-trip", type=float, default=2.0, metavar="MS", help="milliseconds (default 2)"
    )
    parser.add_argument(
        "--store-rate", type=float, default=2.0, metavar="GB", help="GB/s a shard (default 2)"
    )
    parser.add_argument(
        "--shards", type=int, default=4, metavar="N", help="of the store (default 4)"
    )
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def _gpus() -> str:
    return f"{', '.join(TERAFLOPS)} (default H100)"


def plan(arguments: argparse.Namespace) -> int:
    """Print the plan; returns the exit code."""
    found = planned(_question(arguments))
    if arguments.json:
        print(msgspec.json.encode(found).decode())
    else:
        print(render(found))
    return 0


def render(found: Plan) -> str:
    """As plain text."""
    heads = ["KV type", "Gb/s", "GB/s", "limit", "pays from"]
    heads += [f"x at {length}" for length in found.lengths]
    rows = [
        [
            *(row.dtype, f"{row.gigabits:g}", f"{row.bytes_per_second / 1e9:.2f}", row.limited_by),
            "never" if row.pays_from is None else f"{row.pays_from:,} tokens",
            *(f"{gain:.2f}" for gain in row.gains),
        ]
        for row in found.rows
    ]
    reasons = "\n".join(f"- {reason}" for reason in found.reasons)
    return (
        f"Prefill: {found.curve}\nx at N: prefill saved over load time for a prefix of N tokens; "
        f"above 1 it pays\n\n{aligned([heads, *rows], left=1)}\n\n{reasons}"
    )


def _question(arguments: argparse.Namespace) -> Question:
    for name in ("parallel", "shards", "store_rate"):
        if not 0 < getattr(arguments, name) < float("inf"):
            raise ConfigError(f"--{name.replace('_', '-')} must be above 0")
    links = tuple(arguments.link or LINKS)
    if not all(0 < link < float("inf") for link in links) or not arguments.round_trip >= 0:
        raise ConfigError("--link must be above 0, and --round-trip not below")
    return Question(
        shape=_shape(arguments),
        gpu=arguments.gpu,
        model=arguments.curve,
        parallel=arguments.parallel,
        dtypes=tuple(arguments.dtype or ("bfloat16", "fp8")),
        gigabits=links,
        round_trip=arguments.round_trip / 1e3,
        store_bytes_per_second=arguments.store_rate * 1e9,
        shards=arguments.shards,
        curve=_measured(arguments),
    )


def _measured(arguments: argparse.Namespace) -> Curve | None:
    if arguments.prefill is None:
        return None
    fixed, per_token, per_square = arguments.prefill
    finite = all(map(math.isfinite, arguments.prefill))
    if not finite or min(fixed, per_square) < 0 or not per_token > 0:
        raise ConfigError("--prefill takes three numbers that are not negative, the second above 0")
    return Curve(
        name="as given",
        fixed=fixed / 1e3,
        per_token=per_token / 1e6,
        per_square=per_square / 1e9,
        points=(fixed / 1e3,),
    )


def _shape(arguments: argparse.Namespace) -> Shape:
    if arguments.model_config is not None:
        return shape_of(_read(arguments.model_config))
    named = (arguments.layers, arguments.kv_heads, arguments.head_dim)
    if any(value is None or value < 1 for value in named):
        raise ConfigError("give --model-config, or --layers, --kv-heads and --head-dim")
    told = (arguments.heads, arguments.parameters)
    if arguments.latent < 0 or not all(n is None or 0 < n < math.inf for n in told):
        raise ConfigError("--heads and --parameters must be above 0, and --latent not below")
    heads = arguments.heads or 4 * arguments.kv_heads
    hidden = heads * arguments.head_dim
    guessed = 12 * arguments.layers * hidden**2 / 1e9
    return Shape(
        layers=arguments.layers,
        kv_heads=arguments.kv_heads,
        head_dim=arguments.head_dim,
        heads=heads,
        latent=arguments.latent,
        parameters=(arguments.parameters or guessed) * 1e9,
    )


def _read(path: Path) -> dict[str, object]:
    path = path / "config.json" if path.is_dir() else path
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as reason:
        raise ConfigError(f"{path}: {reason}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: not an object")
    return found
