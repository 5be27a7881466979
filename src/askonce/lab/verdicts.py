"""What the suite promises, and whether the measured figures keep it; pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from askonce.lab.compare import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

FAQ = ("banking",)
LOOK_ALIKE = ("t2s_",)
DUPLICATES = ("qqp",)
"""How the names of such sets begin."""
TRAPS = {
    "fow_conv": (0.0, 0.80),
    "fow": (0.03, 0.55),
    "checklist": (0.05, 0.60),
}
"""By how a set's name begins: most of the different that may be served, least of the same."""
FAQ_BUDGET = 0.02
PER_REQUEST = 0.005
RATIO_COSINE = 1.4
RATIO_STATIC = 2.0
RATIO_PAIRS = 1.8
SLOWEST = 1.2
"""Milliseconds, p99."""
_ENOUGH_HITS = 100
_RUNS_OVER = 0.05


class StreamResult(msgspec.Struct, frozen=True):
    """One group set."""

    name: str
    rows: int
    asked: int
    """Questions of each order."""
    outcomes: tuple[Outcome, ...]
    """Budgets count wrong answers per hit."""
    per_request: tuple[Outcome, ...] = ()
    """AskOnce where the budget counts them per request."""
    erring: tuple[Outcome, ...] = ()
    """AskOnce with a judge that errs in 5 % of its verdicts."""


class TrapRow(msgspec.Struct, frozen=True):
    """Pairs of one kind served by one rule, cold."""

    name: str
    rule: str
    kind: str
    different: tuple[int, int]
    """Served, of."""
    same: tuple[int, int]


class PairRecall(msgspec.Struct, frozen=True):
    """Judged pairs, each scored before its label is learned."""

    name: str
    pairs: int
    cosine: float
    """Recall at 90 % precision."""
    askonce: float
    later_cosine: float = 0.0
    """Over the second half alone."""
    later_askonce: float = 0.0


class Timing(msgspec.Struct, frozen=True):
    """Verifier and decision, milliseconds."""

    decisions: int
    p50: float
    p99: float


class SuiteReport(msgspec.Struct, frozen=True):
    """Everything that was measured."""

    embedder: str
    orders: int
    streams: tuple[StreamResult, ...] = ()
    traps: tuple[TrapRow, ...] = ()
    recalls: tuple[PairRecall, ...] = ()
    timing: Timing | None = None


class Verdict(msgspec.Struct, frozen=True):
    """One promise: what was to be reached, what was."""

    bar: str
    on: str
    measured: str
    kept: bool


def verdicts(report: SuiteReport) -> list[Verdict]:
    """Every promise that the measured sets can speak to."""
    found: list[Verdict] = []
    for stream in report.streams:
        found += _budget(stream)
        found += _faq(stream) if stream.name.startswith(FAQ) else []
        found += _look_alike(stream) if stream.name.startswith(LOOK_ALIKE) else []
        found += _side_by_side(stream)
    found += [each for row in report.traps if row.kind == "" for each in _trap(row)]
    found += [_recall(each) for each in report.recalls if each.name.startswith(DUPLICATES)]
    if report.timing is not None:
        found.append(_timing(report.timing))
    return found


def _budget(stream: StreamResult) -> list[Verdict]:
    found = []
    groups = (("", stream.outcomes), (", judge errs 5 %", stream.erring))
    for said, outcomes in groups:
        for one in outcomes:
            if one.rule == "askonce":
                wrong, runs = one.total.wrong_share, len(one.runs)
                kept = wrong <= one.setting and one.over <= _RUNS_OVER * runs
                told = f"{100 * wrong:.2f} % pooled, {one.over}/{runs} runs over"
                found.append(
                    Verdict(f"budget {100 * one.setting:g} %{said}", stream.name, told, kept)
                )
    return found


def _faq(stream: StreamResult) -> list[Verdict]:
    one = find(stream.outcomes, "askonce", FAQ_BUDGET)
    if one is None:
        return []
    least = min(run.hit_share for run in one.runs)
    bars = (
        ("hits >= 50 %", one.total.hit_share, 0.5),
        ("last 2 k >= 70 %", one.late, 0.7),
        (f"worst of {len(one.runs)} orders >= 40 %", least, 0.4),
    )
    return [
        Verdict(
            f"FAQ 2 %: {bar}", stream.name, f"{100 * got:.1f} % of {stream.asked}", got >= needed
        )
        for bar, got, needed in bars
    ]


def _look_alike(stream: StreamResult) -> list[Verdict]:
    if not stream.per_request:
        return []
    total = stream.per_request[0].total
    static = best_static(stream.outcomes, PER_REQUEST, per="request")
    kept = total.wrong_per_thousand <= 1000 * PER_REQUEST
    told = (
        f"{100 * total.hit_share:.1f} % against {100 * static:.1f} %, "
        f"{total.wrong_per_thousand:.1f} wrong per 1,000"
    )
    bar = "look-alike: <= 5 wrong per 1,000, hits >= 2x static"
    kept = kept and total.hit_share >= RATIO_STATIC * static
    return [Verdict(bar, stream.name, told, kept)]


def _side_by_side(stream: StreamResult) -> list[Verdict]:
    ratios = side_by_side(stream.outcomes)
    if not ratios:
        return []
    told = ", ".join(f"{ratio:.2f}x at {100 * share:g} %" for share, ratio in ratios)
    kept = min(ratio for _, ratio in ratios) >= RATIO_COSINE
    return [Verdict("hits >= 1.4x cosine online, equal error", stream.name, told, kept)]


def _trap(row: TrapRow) -> list[Verdict]:
    limits = next((TRAPS[start] for start in TRAPS if row.name.startswith(start)), None)
    if limits is None:
        return []
    different, same = share(row.different), share(row.same)
    told = f"{100 * different:.1f} % different, {100 * same:.1f} % same"
    bar = f"traps cold: <= {100 * limits[0]:g} % different, >= {100 * limits[1]:g} % same"
    kept = different <= limits[0] and same >= limits[1]
    return [Verdict(f"{bar} ({row.rule})", row.name, told, kept)]


def _recall(each: PairRecall) -> Verdict:
    told = f"{100 * each.askonce:.1f} % against {100 * each.cosine:.1f} % ({each.pairs} pairs)"
    kept = each.askonce >= RATIO_PAIRS * each.cosine
    return Verdict("recall at 90 % precision >= 1.8x cosine", each.name, told, kept)


def _timing(timing: Timing) -> Verdict:
    told = f"p50 {timing.p50:.2f} ms, p99 {timing.p99:.2f} ms of {timing.decisions}"
    return Verdict(
        "verifier + decision, 5 candidates: p99 < 1.2 ms", "", told, timing.p99 < SLOWEST
    )


def find(outcomes: Sequence[Outcome], rule: str, setting: float) -> Outcome | None:
    """The one with this rule and setting, if it was run."""
    return next((one for one in outcomes if (one.rule, one.setting) == (rule, setting)), None)


def best_static(outcomes: Sequence[Outcome], budget: float, *, per: str) -> float:
    """Most hits of any static threshold that, over all orders, was within the budget."""
    shares = [0.0]
    for one in outcomes:
        total = one.total
        of = total.hits if per == "hit" else total.asked
        if one.rule == "static" and total.wrong <= budget * of:
            shares.append(total.hit_share)
    return max(shares)


def side_by_side(outcomes: Sequence[Outcome]) -> list[tuple[float, float]]:
    """By budget, AskOnce's hits over those of cosine under the same rule, at cosine's error.

    Budgets at which cosine has fewer than 100 hits over all orders are left out as noise.
    """
    curve = [
        (one.total.wrong_share, one.total.hit_share) for one in outcomes if one.rule == "askonce"
    ]
    return [
        (one.setting, hits_at(curve, one.total.wrong_share) / one.total.hit_share)
        for one in outcomes
        if one.rule == "cosine" and one.total.hits >= _ENOUGH_HITS and curve
    ]


def hits_at(curve: Sequence[tuple[float, float]], wrong: float) -> float:
    """Hit share at this wrong share on the line through the points and the origin."""
    points = sorted({(0.0, 0.0), *curve})
    for (low, hits), (high, more) in pairwise(points):
        if low <= wrong < high:
            return hits + (more - hits) * (wrong - low) / (high - low)
    return max(hits for _, hits in points)


def share(counted: tuple[int, int]) -> float:
    """Of a pair (some, of all)."""
    return counted[0] / counted[1] if counted[1] else 0.0
