"""The advice as an HTML page that needs no other file."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from askonce.errors import MissingExtra
from askonce.lab.pages import NO_PLOTS
from askonce.lab.traffic import pages
from askonce.lab.traffic.tables import percent, span
from askonce.lab.traffic.tune import rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from askonce.lab.traffic.tune import TuneReport


def write(found: TuneReport, folder: Path) -> str:
    """Write plots, page and TOML; returns what there is to say of it."""
    folder.mkdir(parents=True, exist_ok=True)
    said = f"written to {folder}"
    plots: list[Path] = []
    try:
        plots = [
            pages.plot_rules(found.log, folder / "rules.png"),
            pages.plot_time(found.log, folder / "time.png"),
        ]
    except MissingExtra:
        said = f"{said}. {NO_PLOTS}"
    (folder / "tune.html").write_text(page(found, plots), encoding="utf-8")
    (folder / "askonce.toml").write_text(found.toml, encoding="utf-8")
    return said


def page(found: TuneReport, plots: Sequence[Path]) -> str:
    """The HTML, with the pictures inside."""
    heads, *body = rows(found)
    told = list(zip(body, found.advice, strict=True))
    changed = [[*row[1:], one.risk] for row, one in told if one.changes]
    kept = [row[1:] for row, one in told if not one.changes]
    parts = [pages.cards(_figures(found)), "<h2>What to change</h2>"]
    if changed:
        parts.append(pages.table([[*heads[1:], "what it may cost"], *changed], text=range(5)))
    else:
        parts.append("<p>Nothing: the log speaks for the settings as they are.</p>")
    parts += [
        "<h2>askonce.toml</h2>",
        f"<pre>{escape(found.toml)}</pre>",
        "<h2>What the advice rests on</h2>",
        pages.pictures(plots),
        pages.rules_table(found.log),
        "<h2>What may stay</h2>",
        pages.table([heads[1:], *kept], text=range(4)),
    ]
    log = found.log
    sub = f"{log.calls:,} calls over {span(log.span)}; {log.replayed:,} replayed"
    return pages.document("AskOnce: settings for your log", sub, "\n".join(parts))


def _figures(found: TuneReport) -> list[tuple[str, str]]:
    now, then, log = found.now.total, found.then.total, found.log
    shown = [
        (f"{percent(now.hits, now.calls)} %", "answered without the engine now"),
        (f"{percent(then.hits, then.calls)} %", "with the advice taken"),
        (f"{then.different} of {then.judged}", "judged answers by meaning wrong, then"),
        (f"{sum(one.changes and not one.optional for one in found.advice)}", "settings to change"),
    ]
    if log.prices.known:
        money = log.prices.of(then.prompt - now.prompt, then.completion - now.completion)
        shown.append((f"${money:,.2f}", "more saved on this log"))
    return shown
