"""A semantic lookup without its embedding: search, guards and what stands around them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import uvloop

from askonce.clock import SystemClock
from askonce.ports import IndexedText
from askonce.tiers.semantic import SemanticTier
from askonce.units import Cosine, Seconds, UnixTime
from bench.report import tell
from bench.stats import Bar, Report, Sample, percentile

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from askonce.events import Event
    from askonce.ports import Vector, VectorIndex
    from bench.options import Options

ENTRIES = 20_000
ALIKE = 5
"""Questions that stand so near to each other that the guards look at all of them."""
DIM = 384
LOOKUPS = 400
BAR = Bar("<", 1.0)
PARTITION = bytes(32)
OBJECTS = ("ticket", "museum", "garden", "invoice", "library", "harbour", "recipe", "train")


class Silent:
    """A sink that forgets."""

    def emit(self, event: Event) -> None:
        """Forget it."""


class Known:
    """An embedder that has the vector at hand."""

    id = "bench"
    dim = DIM

    def __init__(self, vector: Vector) -> None:
        self.vector = vector

    def expected_time(self, text: str) -> Seconds:
        """No time."""
        del text
        return Seconds(0)

    async def embed(self, text: str) -> Vector:
        """The vector."""
        del text
        return self.vector

    async def close(self) -> None:
        """Nothing is held."""


def run(folder: Path, options: Options) -> Report:
    """Fill one partition, then look up questions that have near neighbours."""
    report = Report("lookup", f"semantic lookup beyond the embedding, {ENTRIES:,} entries")
    try:
        import numpy  # noqa: F401, ICN001 - only whether it is there
    except ImportError:
        report.notes.append("numpy is not installed (askonce[semantic]): not measured")
        return report
    uvloop.run(_measure(folder, options, report))
    return report


async def _measure(folder: Path, options: Options, report: Report) -> None:
    from askonce.vectors.local import LocalIndex

    index = LocalIndex(
        folder / "vectors.sqlite3",
        embedder=Known.id,
        dim=DIM,
        max_entries=10 * ENTRIES,
        clock=SystemClock(),
        sink=Silent(),
    )
    vectors = clustered()
    began = time.perf_counter()
    for start in range(0, ENTRIES, 64):
        adding = range(start, min(start + 64, ENTRIES))
        await asyncio.gather(*(index.add(PARTITION, _item(at), vectors[at]) for at in adding))
    for _ in range(3):  # a crowd of adds may have sent the background work away
        await index.search(PARTITION, vectors[0], k=1)
        await index.settled()
    tell(f"lookup: {ENTRIES:,} entries added in {time.perf_counter() - began:.0f} s")
    await _look(index, vectors, options, report)
    await index.close()


async def _look(
    index: VectorIndex, vectors: NDArray[np.float32], options: Options, report: Report
) -> None:
    known = Known(vectors[0])
    tier = SemanticTier(
        known, index, sink=Silent(), floor=Cosine(0.97), neighbours=ALIKE, budget=Seconds(1)
    )
    near: dict[float, list[float]] = {0.5: [], 0.99: []}
    costs: list[float] = []
    candidates = 0
    for turn in range(options.rounds):
        spans: list[float] = []
        used = time.process_time()
        for at in range(turn, ENTRIES, ENTRIES // LOOKUPS):
            known.vector = vectors[at]
            began = time.perf_counter()
            found = await tier.find(PARTITION, _text(at) + " Please.")
            served = next(found.passed(), None)
            spans.append((time.perf_counter() - began) * 1e3)
            candidates += bool(served or found.detail)
        costs.append((time.process_time() - used) / len(spans) * 1e3)
        for share, rounds in near.items():
            rounds.append(percentile(spans, share))
        tell(f"lookup {turn + 1}/{options.rounds}: p50 {near[0.5][-1]:.2f} ms")
    report.add("p50", Sample(tuple(near[0.5])), "ms", BAR)
    report.add("p99", Sample(tuple(near[0.99])), "ms")
    report.add("processor a lookup, all threads", Sample(tuple(costs)), "ms")
    share = candidates / (options.rounds * len(range(0, ENTRIES, ENTRIES // LOOKUPS)))
    report.notes.append(f"in {share:.0%} of the lookups the guards had candidates to judge")


def clustered() -> NDArray[np.float32]:
    """Unit vectors, shape (ENTRIES, DIM), in groups of ALIKE with cosines of about 0.98."""
    import numpy as np

    random = np.random.default_rng(7)
    decay = np.arange(1, DIM + 1, dtype=np.float32) ** -0.5
    centres = _unit(random.standard_normal((ENTRIES // ALIKE, DIM), dtype=np.float32) * decay)
    noise = _unit(random.standard_normal((ENTRIES, DIM), dtype=np.float32))
    return _unit(np.repeat(centres, ALIKE, axis=0) + 0.14 * noise)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    scaled: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def _item(at: int) -> IndexedText:
    return IndexedText(at.to_bytes(32, "big"), _text(at), UnixTime(time.time() + 86400))


def _text(at: int) -> str:
    group, member = divmod(at, ALIKE)
    first, second = OBJECTS[group % 8], OBJECTS[(group + member + 1) % 8]
    return f"How many visitors of the {first} number {group} asked for a {second} in the spring?"
