"""Does a shared KV tier pay for this model, GPU and network? Arithmetic with its reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from askonce.errors import ConfigError
from askonce.kv.curves import TERAFLOPS, Curve, estimated, known, published
from askonce.kv.sizes import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LENGTHS = (512, 2048, 8192, 32768)
LINKS = (1.0, 10.0, 25.0, 100.0, 400.0)
_LINE = 0.9
"""Share of a link's rate that payload gets."""
_TAIL = 128
"""Tokens behind the prefix that are computed in any case."""
_LONGEST = 1 << 17


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be planned."""

    shape: Shape
    gpu: str
    model: str = ""
    """A published curve's, `llama-8b`; empty for an estimate."""
    parallel: int = 1
    dtypes: tuple[str, ...] = ("bfloat16", "fp8")
    gigabits: tuple[float, ...] = LINKS
    round_trip: float = 0.002
    store_bytes_per_second: float = 2e9
    """Of one shard of the store; about what one Redis thread sends."""
    shards: int = 4
    curve: Curve | None = None
    """Measured, instead of what is published or estimated."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One link and KV type."""

    dtype: str
    gigabits: float
    bytes_per_second: float
    """End to end: link or store, whichever is slower."""
    limited_by: str
    pays_from: int | None
    """Tokens of the shortest prefix that pays on an idle engine; None: none does."""
    gains: tuple[float, ...]
    """Prefill saved over load time at LENGTHS; above 1 it pays."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    curve: str
    bytes_per_token: dict[str, int]
    parity: dict[str, float]
    """Bytes a second end to end from which loading keeps up with prefill at 8k tokens."""
    lengths: tuple[int, ...]
    rows: tuple[Row, ...]
    reasons: tuple[str, ...]


def planned(question: Question) -> Plan:
    """Work it out; raises ConfigError for an unknown GPU, curve or KV type."""
    curve = question.curve or _curve(question)
    sizes = {dtype: question.shape.bytes_per_token(dtype) for dtype in question.dtypes}
    rows = [
        _row(question, curve, dtype, gigabits)
        for dtype in question.dtypes
        for gigabits in question.gigabits
    ]
    saved = _saved(curve, 8192)
    parity = {dtype: size * 8192 / saved for dtype, size in sizes.items()}
    return Plan(
        curve=curve.name,
        bytes_per_token=sizes,
        parity=parity,
        lengths=LENGTHS,
        rows=tuple(rows),
        reasons=tuple(_reasons(question, curve, rows, parity)),
    )


def _curve(question: Question) -> Curve:
    if question.gpu not in TERAFLOPS:
        raise ConfigError(f"unknown GPU {question.gpu}; known: {', '.join(TERAFLOPS)}")
    if question.model:
        found = published(question.gpu, question.model, question.parallel)
        if found is None:
            raise ConfigError(f"no such curve was published; known: {', '.join(known())}")
        return found
    return estimated(
        question.gpu,
        question.parallel,
        parameters=question.shape.parameters,
        attention=question.shape.attention,
    )


def _saved(curve: Curve, tokens: int) -> float:
    return curve.seconds(tokens + _TAIL) - curve.seconds(_TAIL)


def _row(question: Question, curve: Curve, dtype: str, gigabits: float) -> Row:
    link = gigabits * 1e9 / 8 * _LINE
    store = question.store_bytes_per_second * question.shards
    rate = min(link, store)
    size = question.shape.bytes_per_token(dtype)

    def gain(tokens: int) -> float:
        return _saved(curve, tokens) / (question.round_trip + tokens * size / rate)

    return Row(
        dtype=dtype,
        gigabits=gigabits,
        bytes_per_second=rate,
        limited_by="link" if link <= store else "store",
        pays_from=_first(gain),
        gains=tuple(gain(tokens) for tokens in LENGTHS),
    )


def _first(gain: Callable[[int], float]) -> int | None:
    """The shortest prefix that pays, to 16 tokens: gains grow with length."""
    if gain(_LONGEST) < 1:
        return None
    low, high = 0, _LONGEST // 16
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if gain(16 * middle) >= 1 else (middle, high)
    return 16 * high


def _reasons(
    question: Question, curve: Curve, rows: Sequence[Row], parity: dict[str, float]
) -> Iterator[str]:
    shape = question.shape
    for dtype, needed in parity.items():
        size = shape.bytes_per_token(dtype)
        yield (
            f"{dtype}: {size:,} bytes a token ({shape.formula(dtype)}); prefill takes "
            f"{1e6 * _saved(curve, 8192) / 8192:.1f} us a token at 8k, so loading keeps up from "
            f"{needed / 1e9:.1f} GB/s ({needed * 8 / 1e9 / _LINE:.0f} Gb/s) end to end"
        )
    if not curve.points:
        yield (
            "the prefill curve is an estimate, good to a factor of two: measure yours and give it "
            "with --prefill"
        )
    if shape.other_layers:
        yield (
            f"{shape.other_layers} layers have a window or a state: their KV does not grow with "
            "the prefix and is left out"
        )
    if any(row.limited_by == "store" for row in rows):
        rate = question.store_bytes_per_second * question.shards
        yield (
            f"fast links wait for the store: {question.shards} shards of "
            f"{question.store_bytes_per_second / 1e9:.1f} GB/s give {rate / 1e9:.1f} GB/s"
        )
    if all(row.pays_from is None for row in rows):
        yield (
            "an idle engine never gains: a tier helps here only where engines queue, or where a "
            "GPU second is worth more than a link second"
        )
    yield (
        "with the gate on, what does not pay is computed; under load it loads more, since loading "
        "costs nothing while a request waits for the engine"
    )
