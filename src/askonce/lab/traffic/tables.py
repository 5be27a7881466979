"""The report on a log as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.lab.columns import aligned
from askonce.lab.traffic.report import NOW
from askonce.trust.account.bound import excess_chance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.lab.traffic.repeats import Repeats
    from askonce.lab.traffic.replay import Count, Played
    from askonce.lab.traffic.report import LogReport, NamespaceRow

_ALPHA = 0.05

HEADS = [
    "rule", "setting", "answered %", "exact %", "semantic %", "wrong %", "below %", "judged",
    "unsure", "budget", "reworded %", "wrong %", "judged", "audits", "tokens saved",
]  # fmt: skip
"""Columns of the main table."""


def render(report: LogReport) -> str:
    """Everything, the rules last but one, what was left out first."""
    parts = [head(report)]
    if report.calls:
        parts += [_repeats(report.repeats), _rules(report), _namespaces(report.namespaces)]
        if report.partitions:
            parts.append(_partitions(report))
    return "\n\n".join(parts)


def head(report: LogReport) -> str:
    """What was read, and what was left out and why."""
    lines = [f"{report.calls} calls in {report.lines} lines, over {span(report.span)}"]
    if report.cut:
        lines[0] += "; the log goes on (--limit)"
    if report.replayed < report.calls:
        lines.append(
            f"replayed: the first {report.replayed} calls, with {report.questions} different"
            " questions to compare (--questions)"
        )
    if report.calls and not report.embedder:
        lines.append("replayed by the exact tier alone: there is no embedder")
    if report.untimed:
        lines.append(f"{report.untimed} calls have no time: taken as a second apart")
    if report.disordered:
        lines.append(f"{report.disordered} calls came out of order: sorted by time")
    if report.estimated:
        lines.append(f"{report.estimated} calls have no token counts: estimated from their length")
    return "\n\n".join(["\n".join(lines), *_left_out(report)])


def _left_out(report: LogReport) -> list[str]:
    parts = []
    if report.left_out:
        rows = [["lines", "left out because", "first at"]]
        rows += [[str(one.lines), one.reason, ", ".join(one.first)] for one in report.left_out]
        parts.append(aligned(rows, left=3))
    for title, counts in (
        ("answers not stored, or taken for stored where not_in_the_log", report.refused),
        ("requests never answered by meaning", report.unasked),
    ):
        if counts:
            told = ", ".join(f"{reason} {count}" for reason, count in counts.items())
            parts.append(f"{title}: {told}")
    return parts


def _repeats(found: Repeats) -> str:
    share = percent(found.again, found.calls)
    lines = [f"The very same request again: {found.again} calls ({share} %)"]
    if found.again:
        p50, _, p90, p95, _ = map(span, found.intervals)
        lines.append(f"  after: median {p50}, 90 % within {p90}, 95 % within {p95}")
    judged = sum(each.judged for each in found.changes)
    if judged:
        changed = sum(each.different for each in found.changes)
        lines.append(
            f"  the engine's two answers differed in {changed} of {judged} judged pairs"
            f" ({percent(changed, judged)} %)"
        )
    return "\n".join(lines)


def _rules(report: LogReport) -> str:
    rows = [HEADS, *(cells(report, one) for one in report.played)]
    exact, semantic = map(span, report.lives)
    return (
        f"What would have been answered without the engine (exact {exact}, semantic {semantic})\n"
        "wrong %: of the judged hits by meaning; below %: the bound on it, at 95 %;"
        " reworded: those in other words\n" + aligned(rows)
    )


def cells(report: LogReport, one: Played) -> list[str]:
    """One row of the main table."""
    total = one.total
    return [
        one.rule,
        f"{one.setting:g}" if one.setting else "",
        percent(total.hits, total.calls),
        percent(total.exact, total.calls),
        percent(total.semantic, total.calls),
        percent(total.different, total.judged, digits=2),
        f"{100 * total.bound:.1f}" if total.judged else "-",
        str(total.judged),
        str(total.unsure + total.unjudged),
        held(one),
        percent(total.reworded, total.calls),
        percent(total.reworded_different, total.reworded_judged, digits=2),
        str(total.reworded_judged),
        str(total.audits),
        saved(report, total),
    ]


def held(one: Played) -> str:
    """Whether a rule with a budget kept it."""
    total = one.total
    if one.rule not in {"askonce", "per-entry"} or not total.semantic:
        return "-"
    if not total.judged:
        return "unknown"
    of = total.judged if one.rule == "askonce" else total.calls
    if excess_chance(total.different, of, one.setting) <= _ALPHA:
        return "over"
    if total.different > one.setting * of:
        return "open"
    told = total.judged >= total.unsure + total.unjudged
    proven = one.rule == "askonce" and told and total.bound <= one.setting
    return "proven" if proven else "kept"


def saved(report: LogReport, total: Count) -> str:
    """Tokens, and money where prices are known, audits paid for."""
    prompt = total.prompt - total.audit_prompt
    completion = total.completion - total.audit_completion
    tokens = prompt + completion
    told = f"{tokens:,} ({percent(tokens, report.prompt + report.completion)} %)"
    if not report.prices.known:
        return told
    return f"{told}, ${report.prices.of(prompt, completion):,.2f}"


def _namespaces(rows: Sequence[NamespaceRow]) -> str:
    shown = [row for row in rows if row.calls]
    heads = [
        "namespace",
        "rule",
        "calls",
        "exact %",
        "semantic %",
        "wrong",
        "judged",
        "unsure",
        "below %",
    ]
    body = [
        [
            row.namespace,
            f"{row.rule} {row.setting:g}" if row.rule != NOW else NOW,
            str(row.calls),
            percent(row.exact, row.calls),
            percent(row.semantic, row.calls),
            *map(str, (row.wrong, row.judged, row.unsure)),
            f"{100 * row.bound:.1f}" if row.judged else "-",
        ]
        for row in shown
    ]
    return "By namespace\n" + aligned([heads, *body])


def _partitions(report: LogReport) -> str:
    heads = [
        "namespace", "partition", "such as", "calls", "questions", "exact %", "semantic %",
        "wrong", "judged",
    ]  # fmt: skip
    body = [
        [
            row.namespace,
            f"{row.partition} {row.model}",
            row.sample,
            str(row.calls),
            str(row.questions),
            percent(row.exact, row.calls),
            percent(row.semantic, row.calls),
            str(row.wrong),
            str(row.judged),
        ]
        for row in report.partitions
    ]
    return "The largest partitions (the same but for the last user text), by evidence\n" + aligned(
        [heads, *body], left=3
    )


def percent(part: float, whole: float, *, digits: int = 1) -> str:
    """A share as a percentage; a dash where there is nothing to share."""
    return f"{100 * part / whole:.{digits}f}" if whole else "-"


def span(seconds: float) -> str:
    """A time as a person says it."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
