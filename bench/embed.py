"""Time of one embedding at 10, 30 and 100 tokens, and how far the fast mode moves cosines."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.config import SemanticConfig
from askonce.embedders.onnx import OnnxEmbedder
from askonce.units import Seconds, UnixTime

if TYPE_CHECKING:
    from askonce.ports import Vector

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "seven",
    "small",
    "birds",
    "sing",
    "in",
    "trees",
]
PAIRS = [
    ("Does aspirin thin the blood?", "Does aspirin not thin the blood?"),
    ("How do I lose weight fast?", "What is a quick way to lose weight?"),
    ("Convert 100 USD to EUR", "Convert 100 EUR to USD"),
    ("What is the capital of France?", "Which city is the capital of France?"),
    ("How do I reset my password?", "How can I reset my password?"),
    ("Explain recursion simply", "Explain recursion in simple words"),
    ("Is it safe to take ibuprofen with alcohol?", "Is it unsafe to take ibuprofen with alcohol?"),
    ("Who wrote Hamlet?", "Who is the author of Hamlet?"),
    ("Best pizza in town", "How do plants make sugar?"),
    ("Sort a list in Python", "How to sort a Python list?"),
]


class Now:
    """The real clock, and a sink that forgets."""

    def now(self) -> UnixTime:
        """The wall clock."""
        return UnixTime(time.time())

    def monotonic(self) -> Seconds:
        """The performance counter."""
        return Seconds(time.perf_counter())

    def emit(self, event: object) -> None:
        """Forget the event."""


async def times(embedder: OnnxEmbedder, tokens: int, rounds: int) -> list[float]:
    """Milliseconds a text, each text different."""
    took = []
    for number in range(rounds):
        words = itertools.islice(itertools.cycle(WORDS), tokens - 3)
        text = " ".join([*words, str(number % 10)])
        start = time.perf_counter()
        await embedder.embed(text)
        took.append((time.perf_counter() - start) * 1e3)
    return sorted(took)


async def measure(mode: str, rounds: int, data_dir: Path) -> list[tuple[Vector, Vector]]:
    """Print the times of one mode and return the vectors of the pairs."""
    config = SemanticConfig(mode=mode)  # type: ignore[arg-type]
    now = Now()
    start = time.perf_counter()
    embedder = await OnnxEmbedder.open(config, data_dir=data_dir, clock=now, sink=now)
    print(f"{mode}: opened in {time.perf_counter() - start:.2f} s, id {embedder.id}")
    for tokens in (10, 30, 100):
        took = await times(embedder, tokens, rounds)
        p99 = took[int(len(took) * 0.99)]
        print(f"  {tokens:4} tokens: p50 {statistics.median(took):6.2f} ms  p99 {p99:6.2f} ms")
    vectors = [(await embedder.embed(a), await embedder.embed(b)) for a, b in PAIRS]
    await embedder.close()
    return vectors


def main() -> None:
    """Measure both modes."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as folder:
        accurate = asyncio.run(measure("accurate", rounds, Path(folder)))
        fast = asyncio.run(measure("fast", rounds, Path(folder)))
    same = [
        float(x @ y) for a, b in zip(accurate, fast, strict=True) for x, y in zip(a, b, strict=True)
    ]
    moved = [
        abs(float(a[0] @ a[1]) - float(b[0] @ b[1])) for a, b in zip(accurate, fast, strict=True)
    ]
    print(f"fast against accurate: cosine mean {statistics.mean(same):.4f} least {min(same):.4f}")
    print(f"pair cosine moved: mean {statistics.mean(moved):.4f} most {max(moved):.4f}")


if __name__ == "__main__":
    main()
