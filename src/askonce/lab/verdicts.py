"""What the suite promises, and whether the measured figures keep it; pure."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING

import msgspec

from askonce.lab.outcomes import Outcome
from askonce.trust.account.bound import excess_chance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.lab.scoring import Tally

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
ERRING = "judge errs in 5 %"
_ENOUGH_HITS = 100
_RUNS_OVER = 0.05
_Z = 1.96


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
    first_seed: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """One promise: what was to be reached, what was."""

    about: str
    """Which group of promises it belongs to."""
    bar: str
    on: str
    measured: str
    kept: bool


def exceeds(tally: Tally, share: float, per: str) -> bool:
    """Whether the wrong answers are too many for the budget to be chance, at 5 %."""
    of = _of(tally, per)
    return of > 0 and excess_chance(tally.wrong, of, share) <= _RUNS_OVER


def _of(tally: Tally, per: str) -> int:
    return tally.hits if per == "hit" else tally.asked


def verdicts(report: SuiteReport) -> list[Verdict]:
    """Every promise that the measured sets can speak to, by what it is about."""
    found: list[Verdict] = []
    for stream in report.streams:
        found += _budget("budget kept", stream.outcomes, stream.name)
    found += _all_runs("budget kept", [one for each in report.streams for one in each.outcomes])
    for stream in report.streams:
        found += _early(stream)
    for stream in report.streams:
        found += _budget(ERRING, stream.erring, stream.name)
    found += _all_runs(ERRING, [one for each in report.streams for one in each.erring])
    for stream in report.streams:
        found += _faq(stream) if stream.name.startswith(FAQ) else []
    for stream in report.streams:
        found += _look_alike(stream) if stream.name.startswith(LOOK_ALIKE) else []
    for stream in report.streams:
        found += _side_by_side(stream)
    found += [each for row in report.traps if row.kind == "" for each in _trap(row)]
    found += [_recall(each) for each in report.recalls if each.name.startswith(DUPLICATES)]
    if report.timing is not None:
        found.append(_timing(report.timing))
    return found


def _budget(about: str, outcomes: Sequence[Outcome], name: str) -> list[Verdict]:
    """The pooled share, with its interval as if every hit stood alone, and the runs beyond it."""
    found = []
    for one in outcomes:
        if one.rule == "askonce":
            total = one.total
            low, high = interval(total.wrong, total.hits)
            told = (
                f"{100 * total.wrong_share:.2f} % of {total.hits} hits "
                f"({100 * low:.2f}-{100 * high:.2f}), {one.over}/{len(one.runs)} runs rejected"
            )
            bar = f"pooled <= {100 * one.setting:g} %"
            found.append(Verdict(about, bar, name, told, total.wrong_share <= one.setting))
    return found


def _all_runs(about: str, outcomes: Sequence[Outcome]) -> list[Verdict]:
    chosen = [one for one in outcomes if one.rule == "askonce"]
    runs, over = sum(len(one.runs) for one in chosen), sum(one.over for one in chosen)
    if not runs:
        return []
    told = f"{over} of {runs} ({100 * over / runs:.1f} %)"
    bar = "runs rejected by the exact test <= 5 %"
    return [Verdict(about, bar, "all", told, over <= _RUNS_OVER * runs)]


def _early(stream: StreamResult) -> list[Verdict]:
    """What a stream of so few questions would have seen."""
    chosen = [one for one in stream.outcomes if one.rule == "askonce" and one.early]
    tallies = [(tally, one.setting) for one in chosen for tally in one.early]
    if not tallies:
        return []
    over = sum(exceeds(tally, setting, "hit") for tally, setting in tallies)
    hits, asked = (sum(getattr(t, field) for t, _ in tallies) for field in ("hits", "asked"))
    told = f"{over} of {len(tallies)} rejected, {100 * hits / asked:.1f} % hits"
    bar = f"first {max(tally.asked for tally, _ in tallies):,}: runs rejected <= 5 %"
    return [Verdict("short streams", bar, stream.name, told, over <= _RUNS_OVER * len(tallies))]


def interval(wrong: int, of: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson)."""
    if not of:
        return 0.0, 1.0
    share, square = wrong / of, _Z * _Z / of
    middle = (share + square / 2) / (1 + square)
    half = sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


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
        Verdict("FAQ, 2 %", bar, stream.name, f"{100 * got:.1f} % of {stream.asked}", got >= needed)
        for bar, got, needed in bars
    ]


def _look_alike(stream: StreamResult) -> list[Verdict]:
    if not stream.per_request:
        return []
    one = stream.per_request[0]
    total = one.total
    static = best_static(stream.outcomes, PER_REQUEST, per="request")
    wrong = f"{total.wrong_per_thousand:.2f} per 1,000, {one.over}/{len(one.runs)} runs rejected"
    hits = f"{100 * total.hit_share:.1f} % against {100 * static:.1f} %"
    return [
        Verdict(
            "look-alike",
            "wrong <= 5 per 1,000 requests",
            stream.name,
            wrong,
            total.wrong_per_thousand <= 1000 * PER_REQUEST,
        ),
        Verdict(
            "look-alike",
            "hits >= 2x best static in hindsight",
            stream.name,
            hits,
            total.hit_share >= RATIO_STATIC * static,
        ),
    ]


def _side_by_side(stream: StreamResult) -> list[Verdict]:
    found = []
    for share, ratio in side_by_side(stream.outcomes):
        cosine = find(stream.outcomes, "cosine", share)
        beside = [f"cosine {_hits(cosine)}"] if cosine else []
        per_entry = find(stream.outcomes, "per-entry", share)
        beside += [f"per-entry {_hits(per_entry)}"] if per_entry else []
        told = f"{ratio:.2f}x; {', '.join(beside)}"
        bar = f"{100 * share:g} %: hits >= 1.4x cosine, equal error"
        found.append(Verdict("side by side", bar, stream.name, told, ratio >= RATIO_COSINE))
    return found


def _hits(one: Outcome) -> str:
    return f"{100 * one.total.hit_share:.1f}/{100 * one.total.wrong_share:.2f} %"


def _trap(row: TrapRow) -> list[Verdict]:
    limits = next((TRAPS[start] for start in TRAPS if row.name.startswith(start)), None)
    if limits is None:
        return []
    different, same = share(row.different), share(row.same)
    told = f"{100 * different:.1f} % different, {100 * same:.1f} % same"
    bar = f"<= {100 * limits[0]:g} % different, >= {100 * limits[1]:g} % same ({row.rule})"
    kept = different <= limits[0] and same >= limits[1]
    return [Verdict("traps, cold", bar, row.name, told, kept)]


def _recall(each: PairRecall) -> Verdict:
    told = f"{100 * each.askonce:.1f} % against {100 * each.cosine:.1f} % ({each.pairs} pairs)"
    kept = each.askonce >= RATIO_PAIRS * each.cosine
    return Verdict(
        "real duplicates", "recall at 90 % precision >= 1.8x cosine", each.name, told, kept
    )


def _timing(timing: Timing) -> Verdict:
    told = f"p50 {timing.p50:.2f} ms, p99 {timing.p99:.2f} ms of {timing.decisions}"
    bar = "verifier + decision, 5 candidates: p99 < 1.2 ms"
    return Verdict("decision time", bar, "", told, timing.p99 < SLOWEST)


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
