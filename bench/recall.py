"""Recall and time of a local index, flat and with a graph, through its asynchronous face.

Vectors are synthetic: component i has the standard deviation i^-0.5, of unit length. A near query
is a stored vector with noise, at a cosine of about 0.97: a hit. A far query is unrelated.

    python bench/recall.py [sizes ...]
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from askonce.ports import IndexedText
from askonce.testing.clock import FakeClock
from askonce.testing.sink import RecordingSink
from askonce.units import UnixTime
from askonce.vectors.local import LocalIndex
from askonce.vectors.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIM = 384
NOISE = 0.25
PARTITION = hashlib.sha256(b"bench").digest()


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    """Scale rows to unit length."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def spectrum(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Vectors whose components fade like those of sentence embeddings."""
    return unit(rng.standard_normal((count, DIM)) * np.arange(1, DIM + 1) ** -0.5)


def near(rng: np.random.Generator, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each vector with noise, at a cosine of about 0.97."""
    noise = unit(rng.standard_normal(vectors.shape))
    return unit(vectors.astype(np.float64) + NOISE * noise)


def fill(path: Path, vectors: NDArray[np.float32]) -> None:
    """Write the rows straight into the file."""
    rows = Rows(path, embedder="bench", dim=DIM)
    rows._db.execute("PRAGMA synchronous = OFF")  # noqa: SLF001 - only to prepare the file
    forever = UnixTime(4e9)
    for number, vector in enumerate(vectors):
        item = IndexedText(number.to_bytes(32, "big"), f"question {number}", forever)
        rows.add(PARTITION, item, vector, now=UnixTime(0.0), limit=10**7)
    rows.close()


def resident() -> int:
    """Memory of this process in MiB, by Linux."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def opened(path: Path, graph_from: int, size: int) -> LocalIndex:
    """An index over the file whose graph begins where it is told."""
    return LocalIndex(
        path,
        embedder="bench",
        dim=DIM,
        max_entries=10 * size,
        clock=FakeClock(),
        sink=RecordingSink(),
        graph_from=graph_from,
    )


async def ask(
    index: LocalIndex, queries: NDArray[np.float32], truth: NDArray[np.int64]
) -> tuple[float, NDArray[np.float64]]:
    """Share of queries whose first neighbour is the nearest, and the sorted times in us."""
    hits, took = 0, []
    for query, right in zip(queries, truth, strict=True):
        start = time.perf_counter()
        found = await index.search(PARTITION, query, k=5)
        took.append((time.perf_counter() - start) * 1e6)
        hits += int(bool(found) and int.from_bytes(found[0].item.key, "big") == right)
    return hits / len(queries), np.sort(np.array(took))


async def report(name: str, path: Path, graph_from: int, vectors: NDArray[np.float32]) -> None:
    """Print one line: an index of one kind at one size."""
    rng = np.random.default_rng(1)
    picked = rng.integers(0, len(vectors), 1000)
    close, unrelated = near(rng, vectors[picked]), spectrum(rng, 300)
    before = resident()
    index = opened(path, graph_from, len(vectors))
    start = time.perf_counter()
    await index.search(PARTITION, close[0], k=5)
    await index.settled()
    ready = time.perf_counter() - start
    held = resident() - before
    await ask(index, close[:50], picked[:50])
    recall, took = await ask(index, close, (vectors @ close.T).argmax(0))
    far, _ = await ask(index, unrelated, (vectors @ unrelated.T).argmax(0))
    await index.close()
    print(
        f"{len(vectors):7} {name:5} near {recall:.4f}  far {far:.4f}"
        f"  p50 {took[len(took) // 2]:6.0f} us  p99 {took[int(len(took) * 0.99)]:6.0f} us"
        f"  ready {ready:5.1f} s  held {held} MiB",
        flush=True,
    )


def main() -> None:
    """Measure the sizes given, or 1,000, 20,000 and 100,000."""
    sizes = [int(text) for text in sys.argv[1:]] or [1_000, 20_000, 100_000]
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "vectors.db"
            vectors = spectrum(np.random.default_rng(0), size)
            fill(path, vectors)
            asyncio.run(report("flat", path, 10**9, vectors))
            if size > 1_000:
                asyncio.run(report("graph", path, 1, vectors))


if __name__ == "__main__":
    main()
