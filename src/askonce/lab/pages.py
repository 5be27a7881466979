"""The suite's report: plain text, plots, and one HTML page that needs no other file."""

from __future__ import annotations

import base64
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from askonce.errors import MissingExtra
from askonce.lab.columns import aligned
from askonce.lab.outcomes import FLOORS, plot
from askonce.lab.outcomes import render as render_stream
from askonce.lab.verdicts import SuiteReport, TrapRow, Verdict, best_static, share, verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from askonce.lab.verdicts import PairRecall, StreamResult

NO_PLOTS = "No plots: matplotlib is not installed (the extra `lab` brings it)."

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>AskOnce: the suite</title>
<meta name="viewport" content="width=device-width">
<style>
body{{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}}
h1{{margin-bottom:0}}h2{{margin-top:2em}}
table{{border-collapse:collapse;width:100%}}
td{{padding:.3em .8em .3em 0;vertical-align:top;border-bottom:1px solid #eee}}
tbody th{{text-align:left;padding:1.2em 0 .2em;border-bottom:2px solid #ccc}}
td:first-child{{width:4em;font-weight:600}}td:nth-child(2){{width:34%}}
td:last-child{{font-variant-numeric:tabular-nums}}
.PASS{{color:#0a662c}}.MISS{{color:#a11}}
figure{{margin:1em 0}}img{{max-width:100%}}
.plots{{display:grid;grid-template-columns:repeat(auto-fit,minmax(30em,1fr));gap:1em}}
pre{{overflow-x:auto;background:#f6f6f6;padding:1em;font-size:12px}}
</style>
<h1>AskOnce: the suite</h1>
<p>{head}</p>
<table><tbody>
{verdicts}</tbody></table>
<h2>Hits against wrong answers</h2>
<p>Up and to the left is better. Dotted: the budgets. A promise about a budget is kept where AskOnce
lies left of its dotted line.</p>
<div class="plots">{plots}</div>
<h2>Every figure</h2>
<pre>{text}</pre>
</html>
"""


def render(report: SuiteReport) -> str:
    """Every table as plain text, the promises last."""
    parts = [_head(report), *(_stream(each) for each in report.streams)]
    if report.traps:
        parts.append(_traps(report.traps))
    if report.recalls:
        parts.append(_recalls(report.recalls))
    parts.append(_verdicts(verdicts(report)))
    return "\n\n".join(parts)


def _head(report: SuiteReport) -> str:
    found = verdicts(report)
    kept = sum(one.kept for one in found)
    return (
        f"{kept} of {len(found)} promises kept; {report.orders} random orders of each set, "
        f"by the seeds {report.first_seed} to {report.first_seed + report.orders - 1}; "
        f"embedder {report.embedder}"
    )


def _stream(stream: StreamResult) -> str:
    name = f"{stream.name}: {stream.asked} questions an order; late: the last 2,000"
    shown = [one for one in stream.outcomes if one.rule != "static" or one.setting in FLOORS]
    parts = [render_stream(name, shown)]
    settings = [one.setting for one in stream.outcomes if one.rule == "askonce"]
    best = [f"{100 * best_static(stream.outcomes, each, per='hit'):.1f}" for each in settings]
    held = ", ".join(f"{100 * each:g} %" for each in settings)
    parts.append(f"best static in hindsight within {held}: hits {', '.join(best)} %")
    if stream.per_request:
        parts.append(render_stream("budget counted per request", stream.per_request))
    if stream.erring:
        parts.append(render_stream("with a judge that errs in 5 %", stream.erring))
    return "\n".join(parts)


def _traps(rows: Sequence[TrapRow]) -> str:
    heads = ["set", "rule, cold", "different served %", "n", "same served %", "n", "kind"]
    body = [
        [
            row.name,
            row.rule,
            *(_percent(row.different), str(row.different[1])),
            *(_percent(row.same), str(row.same[1])),
            f" {row.kind or '(together)'}",
        ]
        for row in rows
    ]
    return "Pairs, cold\n" + aligned([heads, *body])


def _recalls(rows: Sequence[PairRecall]) -> str:
    heads = ["set", "pairs", "cosine", "askonce", "cosine, 2nd half", "askonce, 2nd half"]
    body = [
        [
            row.name,
            str(row.pairs),
            *(f"{100 * row.cosine:.1f}", f"{100 * row.askonce:.1f}"),
            *(f"{100 * row.later_cosine:.1f}", f"{100 * row.later_askonce:.1f}"),
        ]
        for row in rows
    ]
    return "Judged pairs, learned as they come: recall % at 90 % precision\n" + aligned(
        [heads, *body]
    )


def _percent(counted: tuple[int, int]) -> str:
    return f"{100 * share(counted):.1f}" if counted[1] else "-"


def _verdicts(found: Sequence[Verdict]) -> str:
    rows = [["", "about", "promise", "set", "measured"]]
    rows += [[word(one), one.about, one.bar, one.on or "all", one.measured] for one in found]
    kept = sum(one.kept for one in found)
    return f"{aligned(rows, left=5)}\n{kept} of {len(found)} kept"


def word(verdict: Verdict) -> str:
    """PASS or MISS."""
    return "PASS" if verdict.kept else "MISS"


def write(report: SuiteReport, folder: Path) -> str:
    """Write the plots as PNG and the page; returns what there is to say of it."""
    folder.mkdir(parents=True, exist_ok=True)
    said = f"written to {folder}"
    plots = []
    try:
        for stream in report.streams:
            picture = folder / f"{stream.name}.png"
            plot(stream.name, stream.outcomes, picture)
            plots.append(picture)
    except MissingExtra:
        said = f"{said}. {NO_PLOTS}"
    (folder / "suite.html").write_text(page(report, plots), encoding="utf-8")
    return said


def page(report: SuiteReport, plots: Sequence[Path]) -> str:
    """The HTML, with the pictures inside."""
    rows = "\n".join(
        f'<tr><th colspan="4">{escape(about)}</th></tr>\n' + "\n".join(map(_line, group))
        for about, group in groupby(verdicts(report), key=lambda one: one.about)
    )
    pictures = "\n".join(_picture(path) for path in plots) or f"<p>{escape(NO_PLOTS)}</p>"
    head, text = escape(_head(report)), escape(render(report))
    return _PAGE.format(head=head, verdicts=rows, plots=pictures, text=text)


def _line(one: Verdict) -> str:
    cells = (one.bar, one.on or "all", one.measured)
    told = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><td class="{word(one)}">{word(one)}</td>{told}</tr>'


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(path.stem)}" src="data:image/png;base64,{data}">'
