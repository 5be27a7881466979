"""Semantic lookups beyond the embedding, in every vector index that can be had here.

20,000 questions lie in one partition, 2,000 in 200 others. Each lookup asks for a stored vector
with noise, at a cosine of about 0.97, as a paraphrase does; recall is the share of lookups whose
first neighbour is that one. All indexes are asked in turn, round by round.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from askonce.clock import SystemClock
from askonce.ports import IndexedText
from askonce.tiers.semantic import SemanticTier
from askonce.units import Cosine, Seconds, UnixTime
from bench.lookup import DIM, Known, Silent
from bench.report import tell
from bench.stats import Bar, Report, Sample, percentile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import numpy as np
    from numpy.typing import NDArray

    from askonce.ports import VectorIndex
    from bench.options import Options

ENTRIES = 20_000
ELSEWHERE = 2_000
LOOKUPS = 200
ADDS = 200
AT_ONCE = 16
PARTITION = bytes(32)
FASTER = Bar("<", 2.0)
RECALL = Bar(">=", 0.99)
BARRED = ("Redis vector sets, Q8", "PostgreSQL, pgvector")


@dataclass
class Kind:
    """One index, and what was measured of it."""

    name: str
    index: VectorIndex
    spans: list[list[float]] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    adds: list[float] = field(default_factory=list)


def run(folder: Path, options: Options) -> Report:
    """Fill every index alike, then ask them in turn."""
    about = f"semantic lookup beyond the embedding, {ENTRIES:,} entries of {DIM} in one partition"
    report = Report("vectors", about)
    try:
        import numpy  # noqa: F401, ICN001 - only whether it is there
    except ImportError:
        report.notes.append("numpy is not installed (askonce[semantic]): not measured")
        return report
    uvloop.run(_measure(folder, options, report))
    return report


async def _measure(folder: Path, options: Options, report: Report) -> None:
    import numpy as np

    from bench.recall import near, spectrum

    vectors = spectrum(np.random.default_rng(0), ENTRIES + ELSEWHERE)
    with ExitStack() as servers:
        async with AsyncExitStack() as open_indexes:
            kinds = []
            for name, url in _urls(folder, servers, report):
                began = time.perf_counter()
                kind = Kind(name, await _filled(url, folder, vectors))
                open_indexes.push_async_callback(kind.index.close)
                kinds.append(kind)
                tell(f"vectors: {name} filled in {time.perf_counter() - began:.0f} s")
            for turn in range(options.rounds):
                rng = np.random.default_rng(turn)
                picked = rng.integers(0, ENTRIES, LOOKUPS)
                questions = near(rng, vectors[picked])
                for kind in kinds:
                    await _ask(kind, questions, picked)
                for kind in kinds:
                    await _add(kind, spectrum(rng, ADDS))
                tell(f"vectors {turn + 1}/{options.rounds}")
            _tell_all(report, kinds)


def _urls(folder: Path, servers: ExitStack, report: Report) -> list[tuple[str, str]]:
    """Those whose servers can be started."""
    import pytest
    from tests.servers.postgres import postgres
    from tests.servers.redis import redis
    from tests.servers.redisearch import redisearch

    def place() -> Path:
        return Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="askonce-")))

    found = [("in process", f"local://{folder}/local.db"), ("FAISS", f"faiss://{folder}/faiss.db")]
    try:
        url = servers.enter_context(redis("redis8", place())).unix_url
        found.append(("Redis vector sets, Q8", url))
        url = servers.enter_context(redisearch(place())).unix_url
        found.append(("RediSearch, HNSW", url))
        found.append(("PostgreSQL, pgvector", servers.enter_context(postgres()).url))
    except (pytest.skip.Exception, pytest.fail.Exception) as reason:
        report.notes.append(f"not all measured: {reason}")
    return found


async def _filled(url: str, folder: Path, vectors: NDArray[np.float32]) -> VectorIndex:
    """An index that has come to rest."""
    from askonce.vectors.binding import Binding
    from askonce.vectors.urls import open_index

    binding = Binding("bench", DIM, 10 * ENTRIES, folder)
    index = open_index(url, binding=binding, clock=SystemClock(), sink=Silent())
    for start in range(0, len(vectors), AT_ONCE):
        some = range(start, min(start + AT_ONCE, len(vectors)))
        await asyncio.gather(*(index.add(_place(at), _item(at), vectors[at]) for at in some))
    await index.search(PARTITION, vectors[0], k=1)
    settled: Callable[[], Awaitable[None]] | None = getattr(index, "settled", None)
    for _ in range(3 if settled is not None else 0):
        await index.search(PARTITION, vectors[0], k=1)
        await settled()
    return index


async def _ask(kind: Kind, questions: NDArray[np.float32], picked: NDArray[Any]) -> None:
    known = Known(questions[0])
    tier = SemanticTier(
        known, kind.index, sink=Silent(), floor=Cosine(0.9), neighbours=8, budget=Seconds(1)
    )
    spans, right = [], 0
    for question, at in zip(questions, picked.tolist(), strict=True):
        known.vector = question
        began = time.perf_counter()
        found = await tier.find(PARTITION, f"{_text(at)} Please.")
        next(found.passed(), None)
        spans.append((time.perf_counter() - began) * 1e3)
        right += bool(found.near) and found.near[0].item.key == _item(at).key
    kind.spans.append(spans)
    kind.right.append(right / len(spans))


async def _add(kind: Kind, vectors: NDArray[np.float32]) -> None:
    """Into the full partition, and out again."""
    began = time.perf_counter()
    items = [
        IndexedText(os.urandom(32), _text(at), UnixTime(time.time() + 3600)) for at in range(ADDS)
    ]
    for start in range(0, ADDS, AT_ONCE):
        some = range(start, min(start + AT_ONCE, ADDS))
        await asyncio.gather(*(kind.index.add(PARTITION, items[at], vectors[at]) for at in some))
    kind.adds.append(ADDS / (time.perf_counter() - began))
    await kind.index.delete([item.key for item in items])
    with suppress(AttributeError):
        await kind.index.settled()  # type: ignore[attr-defined]


def _tell_all(report: Report, kinds: list[Kind]) -> None:
    for kind in kinds:
        barred = kind.name in BARRED
        for share, what in ((0.5, "p50"), (0.99, "p99")):
            sample = Sample(tuple(percentile(spans, share) for spans in kind.spans))
            bar = FASTER if barred and share == 0.5 else None
            report.add(f"{kind.name}: {what}", sample, "ms", bar)
        report.add(f"{kind.name}: recall", Sample(tuple(kind.right)), "", RECALL)
        report.add(f"{kind.name}: adds", Sample(tuple(kind.adds)), "/s")
    report.notes.append(f"adds: {AT_ONCE} at once, into the full partition")
    report.notes.append("Milvus and Qdrant are not measured: their servers cannot be had here")


def _place(at: int) -> bytes:
    return PARTITION if at < ENTRIES else (at % 200 + 1).to_bytes(32, "big")


def _item(at: int) -> IndexedText:
    key = (at + 1).to_bytes(16, "big") * 2
    return IndexedText(key, _text(at), UnixTime(4e9))


def _text(at: int) -> str:
    return f"How many visitors of the museum number {at} asked for a guided tour in the spring?"
