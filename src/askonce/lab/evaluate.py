"""Score the semantic tier's decision on labelled sets, next to bare cosine thresholds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from askonce.lab import sets
from askonce.lab.scoring import (
    Judged,
    Rule,
    Stream,
    Tally,
    ceiling,
    count_served,
    replay,
    replay_storing_all,
)
from askonce.lab.vectors import Progress, VectorCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Embedder, Vector

STATIC = (0.85, 0.88, 0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
"""Bare thresholds to compare with."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to evaluate."""

    floors: tuple[float, ...] = (0.85, 0.97)
    """Similarity floors at which AskOnce is scored."""
    neighbours: int = 5
    """As `semantic.neighbours`."""
    by_meaning: bool = False
    """Whether earlier turns are compared by meaning, as `semantic.conversations` says."""
    limit: int = 3000
    """Rows taken of each set, in an order fixed by seed; 0 takes all."""
    cache: Path | None = None
    """Folder that keeps embeddings between runs."""


class StreamScore(msgspec.Struct, frozen=True):
    """One rule on one group set."""

    rule: str
    """`askonce`; `static` stores what it misses; `static-all` stores every question."""
    floor: float
    hit_share: float
    wrong_share: float
    """Of the hits."""
    wrong_per_thousand: float
    """Of the questions."""


class PairScore(msgspec.Struct, frozen=True):
    """One rule on the pairs of one kind and label."""

    rule: str
    floor: float
    kind: str
    same: bool
    pairs: int
    served: int


class SetReport(msgspec.Struct, frozen=True):
    """One set; `streams` or `pairs` is filled."""

    name: str
    rows: int
    skipped: int
    """Rows with a text that the tier never compares, such as one longer than the window."""
    ceiling: float = 0.0
    """The best hit share there could be."""
    streams: tuple[StreamScore, ...] = ()
    pairs: tuple[PairScore, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """Everything that was measured."""

    embedder: str
    floors: tuple[float, ...]
    sets: tuple[SetReport, ...]


def _silent(_: str) -> None:
    return


async def evaluate(
    paths: Sequence[Path], embedder: Embedder, options: Options, *, progress: Progress = _silent
) -> Report:
    """Score every set under the paths; raises ConfigError for files that are no sets."""
    vectors = VectorCache(embedder, options.cache, progress)
    reports = []
    for path in sets.find(list(paths)):
        labelled = sets.load(path, limit=options.limit)
        progress(f"{labelled.name}: {len(labelled.asked) or len(labelled.pairs)} rows")
        if labelled.asked:
            reports.append(await _groups(labelled, vectors, options))
        else:
            reports.append(await _pairs(labelled, vectors, options))
    return Report(embedder.id, options.floors, tuple(reports))


async def _groups(labelled: sets.LabelledSet, cache: VectorCache, options: Options) -> SetReport:
    found = await cache.embed(asked.text for asked in labelled.asked)
    kept = [asked for asked in labelled.asked if asked.text in found]
    groups = [asked.group for asked in kept]
    scores: list[StreamScore] = []
    if kept:
        texts = [asked.text for asked in kept]
        stream = Stream(texts, groups, np.stack([found[text] for text in texts]))
        scores = list(score_stream(stream, options))
    return SetReport(
        name=labelled.name,
        rows=len(kept),
        skipped=len(labelled.asked) - len(kept),
        ceiling=ceiling(groups),
        streams=tuple(scores),
    )


def score_stream(stream: Stream, options: Options) -> list[StreamScore]:
    """AskOnce and bare thresholds on one stream."""
    scores = []
    for floor in options.floors:
        for name, guarded in (("askonce", True), ("static", False)):
            tally = replay(stream, Rule(floor, guarded), neighbours=options.neighbours)
            scores.append(_stream_score(name, floor, tally))
    for floor, tally in zip(STATIC, replay_storing_all(stream, STATIC), strict=True):
        scores.append(_stream_score("static-all", floor, tally))
    return scores


def _stream_score(rule: str, floor: float, tally: Tally) -> StreamScore:
    return StreamScore(rule, floor, tally.hit_share, tally.wrong_share, tally.wrong_per_thousand)


async def _pairs(labelled: sets.LabelledSet, cache: VectorCache, options: Options) -> SetReport:
    read = partial(sets.question, by_meaning=options.by_meaning)
    asked = [(read(pair.a), read(pair.b), pair) for pair in labelled.pairs]
    texts = [side.text for a, b, _ in asked for side in (a, b) if side is not None]
    found = await cache.embed(texts)
    judged = [
        Judged(
            a=a.text,
            b=b.text,
            same=bool(pair.same),
            kind=pair.kind,
            comparable=sets.comparable(a, b),
            cosine=_cosine(found[a.text], found[b.text]),
        )
        for a, b, pair in asked
        if a is not None and b is not None and a.text in found and b.text in found
    ]
    return SetReport(
        name=labelled.name,
        rows=len(judged),
        skipped=len(labelled.pairs) - len(judged),
        pairs=tuple(score_pairs(judged, options)),
    )


def _cosine(one: Vector, other: Vector) -> float:
    return float(one @ other)


def score_pairs(judged: Sequence[Judged], options: Options) -> list[PairScore]:
    """AskOnce and bare thresholds on one set of pairs, by kind and label."""
    rules = [("askonce", Rule(floor, guarded=True)) for floor in options.floors]
    rules += [("static", Rule(floor, guarded=False)) for floor in STATIC]
    parts = sorted({(pair.kind, pair.same) for pair in judged})
    scores = []
    for name, rule in rules:
        for part in parts:
            chosen = [pair for pair in judged if (pair.kind, pair.same) == part]
            served = count_served(chosen, rule)
            scores.append(PairScore(name, rule.floor, *part, len(chosen), served))
    return scores
