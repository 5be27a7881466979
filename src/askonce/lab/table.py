"""A report as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.lab.columns import aligned
from askonce.lab.evaluate import STATIC, PairScore, Report, SetReport, StreamScore

if TYPE_CHECKING:
    from collections.abc import Sequence


def render(report: Report) -> str:
    """Two tables: streams of questions, and pairs by kind."""
    streams = [each for each in report.sets if each.streams]
    pairs = [each for each in report.sets if each.pairs]
    parts = [f"embedder {report.embedder}"]
    if streams:
        parts.append(_streams(streams, report.floors))
    if pairs:
        parts.append(_pairs(pairs, report.floors))
    skipped = sum(each.skipped for each in report.sets)
    if skipped:
        parts.append(f"{skipped} rows left out: the semantic tier never compares them.")
    return "\n\n".join(parts)


def _streams(reports: Sequence[SetReport], floors: Sequence[float]) -> str:
    heads = ["set", "n", "ceiling"]
    heads += [f"{rule} {_floor(floor)}" for floor in floors for rule in ("askonce", "static")]
    heads += [f"all {_floor(floor)}" for floor in STATIC]
    rows = [
        [each.name, str(each.rows), _percent(each.ceiling), *map(_stream_cell, each.streams)]
        for each in reports
    ]
    return (
        "Streams: hits % / wrong % of the hits (wrong per 1,000 questions).\n"
        "askonce: floor and guards; static: the bare threshold, both storing what they miss; "
        "all: static, storing every question.\n" + aligned([heads, *rows])
    )


def _stream_cell(score: StreamScore) -> str:
    cell = f"{_percent(score.hit_share)}/{_percent(score.wrong_share)}"
    return cell if score.rule == "static-all" else f"{cell} ({score.wrong_per_thousand:.1f})"


def _pairs(reports: Sequence[SetReport], floors: Sequence[float]) -> str:
    heads = ["set", "kind", "right", "n"]
    heads += [f"askonce {_floor(floor)}" for floor in floors]
    heads += [f"static {_floor(floor)}" for floor in STATIC]
    rows = [row for each in reports for row in _pair_rows(each)]
    return (
        "Pairs: % served. Where right is no, every one served is wrong.\n"
        "static keys on the last message alone.\n" + aligned([heads, *rows])
    )


def _pair_rows(report: SetReport) -> list[list[str]]:
    rows = []
    for same in (True, False):
        kinds = sorted({score.kind for score in report.pairs if score.same is same})
        chosen = [kinds] if len(kinds) < 2 else [*([kind] for kind in kinds), kinds]
        for each in chosen:
            if each:
                label = each[0] if len(each) == 1 else "(together)"
                rows.append([report.name, label, *_pair_cells(report.pairs, each, same=same)])
    return rows


def _pair_cells(scores: Sequence[PairScore], kinds: Sequence[str], *, same: bool) -> list[str]:
    totals: dict[tuple[str, float], tuple[int, int]] = {}
    for score in scores:
        if score.same is same and score.kind in kinds:
            pairs, served = totals.get((score.rule, score.floor), (0, 0))
            totals[score.rule, score.floor] = (pairs + score.pairs, served + score.served)
    shares = [_percent(served / pairs) for pairs, served in totals.values()]
    return ["yes" if same else "no", str(next(iter(totals.values()))[0]), *shares]


def _floor(floor: float) -> str:
    return f"{floor:g}".removeprefix("0")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
