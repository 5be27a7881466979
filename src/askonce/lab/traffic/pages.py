"""Plots of a replayed log as PNG, and one HTML page that needs no other file."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING, Any

from askonce.errors import MissingExtra
from askonce.lab.pages import NO_PLOTS
from askonce.lab.traffic.report import NOW, learned
from askonce.lab.traffic.tables import HEADS, cells, percent, render, span

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from askonce.lab.traffic.replay import Played
    from askonce.lab.traffic.report import LogReport

_MARKERS = {"static": "o", "guards": "v", "per-entry": "s", "askonce": "D"}
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body{{font:15px/1.5 system-ui,sans-serif;
max-width:80em;margin:2em auto;padding:0 1em;color:#1c1e21}}
h1{{font-size:1.6em;margin-bottom:.2em}}h2{{font-size:1.2em;margin-top:2em}}
p.sub{{color:#555;margin-top:0}}
.cards{{display:flex;flex-wrap:wrap;gap:1em;margin:1.5em 0}}
.card{{flex:1 1 11em;border:1px solid #ddd;border-radius:8px;padding:.8em 1em}}
.card b{{display:block;font-size:1.7em;line-height:1.2}}.card span{{color:#555;font-size:.9em}}
.wide{{overflow-x:auto}}
table{{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}}
td,th{{padding:.25em .55em;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}}
td.text,th.text{{text-align:left;white-space:normal}}td:first-child{{white-space:nowrap}}
tr.now td{{background:#f2f6ff}}
.over{{color:#a11;font-weight:600}}.proven,.kept{{color:#0a662c}}
.plots{{display:grid;grid-template-columns:repeat(auto-fit,minmax(24em,1fr));gap:1em}}
img{{width:100%}}
pre{{overflow-x:auto;background:#f6f6f6;padding:1em;border-radius:8px;font-size:13px}}
</style>
<h1>{title}</h1>
<p class="sub">{sub}</p>
{body}
</html>
"""


def document(title: str, sub: str, body: str) -> str:
    """A whole page; title and sub are plain text, body is HTML."""
    return _PAGE.format(title=escape(title), sub=escape(sub), body=body)


def table(rows: Sequence[Sequence[str]], *, text: Sequence[int] = (0,), now: int = -1) -> str:
    """The first row is the head; text: columns flush left; now: row to mark."""
    lines = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        cells_ = "".join(
            f"<{tag}{_class(place in text, cell)}>{escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )
        lines.append(f"<tr{' class=now' if number == now else ''}>{cells_}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _class(is_text: bool, cell: str) -> str:  # noqa: FBT001 - one of two alignments
    if cell in {"over", "proven", "kept"}:
        return f' class="{cell}"'
    return ' class="text"' if is_text else ""


def cards(pairs: Sequence[tuple[str, str]]) -> str:
    """Figures with what they are."""
    shown = "".join(
        f'<div class="card"><b>{escape(figure)}</b><span>{escape(what)}</span></div>'
        for figure, what in pairs
    )
    return f'<div class="cards">{shown}</div>'


def pictures(paths: Sequence[Path]) -> str:
    """Images, inside of the page."""
    shown = "".join(
        f'<img alt="{escape(path.stem)}" src="data:image/png;base64,'
        f'{base64.b64encode(path.read_bytes()).decode()}">'
        for path in paths
    )
    return f'<div class="plots">{shown}</div>' if shown else f"<p>{escape(NO_PLOTS)}</p>"


def write(report: LogReport, folder: Path) -> str:
    """Write plots and page; returns what there is to say of it."""
    folder.mkdir(parents=True, exist_ok=True)
    said = f"written to {folder}"
    plots: list[Path] = []
    try:
        plots = [plot_rules(report, folder / "rules.png"), plot_time(report, folder / "time.png")]
    except MissingExtra:
        said = f"{said}. {NO_PLOTS}"
    (folder / "log.html").write_text(page(report, plots), encoding="utf-8")
    return said


def page(report: LogReport, plots: Sequence[Path]) -> str:
    """The HTML, with the pictures inside."""
    parts = [
        cards(figures(report)),
        pictures(plots),
        "<h2>What would have been answered without the engine</h2>",
        rules_table(report),
        "<h2>Everything as text</h2>",
        f"<pre>{escape(render(report))}</pre>",
    ]
    sub = f"{report.calls:,} calls over {span(report.span)}; {report.replayed:,} replayed"
    return document("AskOnce: your log, replayed", sub, "\n".join(parts))


def rules_table(report: LogReport) -> str:
    """All rules, what is configured marked."""
    return table([HEADS, *(cells(report, one) for one in report.played)], now=1)


def figures(report: LogReport) -> list[tuple[str, str]]:
    """The few that matter."""
    now = next(one.total for one in report.played if one.rule == NOW)
    found = [
        (f"{percent(now.hits, now.calls)} %", "answered without the engine, as configured now"),
    ]
    alone = next((one.total for one in report.played if one.rule == "exact"), now)
    found.append((f"{percent(alone.hits, alone.calls)} %", "by the exact tier alone"))
    best = learned(report.played, report.budget)
    if best is not None:
        total = best.total
        share = f"with evidence, {100 * best.setting:g} % budget"
        found.append((f"{percent(total.hits, total.calls)} %", share))
        found.append((f"{total.different} of {total.judged}", "judged answers by meaning wrong"))
    found.append((f"{now.prompt + now.completion:,}", "tokens saved, as configured now"))
    if report.prices.known:
        money = report.prices.of(now.prompt, now.completion)
        found.append((f"${money:,.2f}", "saved, as configured now"))
    return found


def plot_rules(report: LogReport, path: Path) -> Path:
    """Answered share against wrong share, a line a rule; raises MissingExtra."""
    figure = _figure()
    axes = figure.subplots()
    for rule, marker in _MARKERS.items():
        chosen = [one.total for one in report.played if one.rule == rule and one.total.judged]
        if chosen:
            wrong = [100 * total.wrong_share for total in chosen]
            axes.plot(wrong, [100 * t.hit_share for t in chosen], marker=marker, label=rule)
    for one in report.played:
        if one.rule == "exact":
            axes.axhline(100 * one.total.hit_share, color="grey", ls=":", label="exact alone")
        if one.rule == NOW and one.total.judged:
            x, y = 100 * one.total.wrong_share, 100 * one.total.hit_share
            axes.plot([x], [y], marker="*", ms=14, color="black", ls="", label="as configured")
    axes.set(xlabel="wrong, % of the judged semantic hits", ylabel="answered, % of the calls")
    axes.set_title("How much, and how wrongly")
    axes.set_xlim(0, max(1.0, axes.get_xlim()[1]))
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    return path


def plot_time(report: LogReport, path: Path) -> Path:
    """Share answered so far along the log, by tier; raises MissingExtra."""
    figure = _figure()
    axes = figure.subplots()
    for one in _shown(report):
        calls = [step[0] for step in one.steps]
        name = "as configured" if one.rule == NOW else f"AskOnce, {100 * one.setting:g} % budget"
        both = [100 * (exact + semantic) / at for at, exact, semantic in one.steps]
        (line,) = axes.plot(calls, both, label=name)
        alone = [100 * exact / at for at, exact, _ in one.steps]
        axes.plot(calls, alone, ls="--", color=line.get_color(), alpha=0.6)
    axes.set(xlabel="calls", ylabel="answered so far, %", ylim=(0, 100))
    axes.set_title("Along the log (dashed: by the exact tier)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    return path


def _shown(report: LogReport) -> list[Played]:
    best = learned(report.played, report.budget)
    now = [one for one in report.played if one.rule == NOW]
    return now if best is None else [*now, best]


def _figure() -> Any:  # noqa: ANN401 - matplotlib ships no types
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "lab") from None
    return Figure(figsize=(6.4, 4.4), layout="constrained")
