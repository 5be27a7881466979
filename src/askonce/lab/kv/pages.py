"""A study as plots, and as one HTML page that needs no other file."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

from askonce.errors import MissingExtra
from askonce.lab.kv.tables import render, verdict
from askonce.lab.kv.verdicts import Regret, regrets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from askonce.lab.kv.study import Held, Report

NO_PLOTS = "No plots: matplotlib is not installed (the extra `lab` brings it)."
_COLOURS = {
    "local": "#b8bec9",
    "lru": "#d98841",
    "second-sight": "#8f7fc2",
    "askonce-alone": "#7fb8c2",
    "askonce": "#1f6f5c",
    "clairvoyant": "#5b6472",
    "none": "#9aa2af",
    "always": "#d98841",
    "gate": "#1f6f5c",
}
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>AskOnce: the shared KV tier, simulated</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:76em;margin:2em auto;padding:0 1em;
color:#1d222b}}pre{{overflow-x:auto;background:#f5f6f8;padding:1em;font-size:12.5px}}
img{{max-width:100%;height:auto}}h2{{margin-top:2em}}figure{{margin:1.5em 0}}
figcaption{{color:#5b6472}}</style>
<h1>The shared KV tier, simulated</h1>
<pre>{verdict}</pre>
{plots}
<h2>All figures</h2>
<pre>{text}</pre>
</html>
"""


def write(report: Report, folder: Path) -> str:
    """Write the plots as PNG and the page; returns what there is to say of it."""
    folder.mkdir(parents=True, exist_ok=True)
    plots: list[tuple[str, str, bytes]] = []
    said = f"written to {folder}"
    try:
        plots = pictures(report)
    except MissingExtra:
        said = f"{said}. {NO_PLOTS}"
    for name, _, data in plots:
        (folder / f"{name}.png").write_bytes(data)
    (folder / "kv.html").write_text(page(report, plots), encoding="utf-8")
    return said


def page(report: Report, plots: Sequence[tuple[str, str, bytes]]) -> str:
    """The HTML, with the pictures inside."""
    shown = "\n".join(
        f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,'
        f'{base64.b64encode(data).decode()}"><figcaption>{escape(caption)}</figcaption></figure>'
        for _, caption, data in plots
    )
    return _PAGE.format(
        verdict=escape(verdict(report)),
        plots=shown or f"<p>{escape(NO_PLOTS)}</p>",
        text=escape(render(report)),
    )


def pictures(report: Report) -> list[tuple[str, str, bytes]]:
    """Name, caption and PNG of each plot; raises MissingExtra without matplotlib."""
    made = []
    budget = report.options.budgets[0]
    held = [one for one in report.held if one.budget == budget]
    if held:
        gigabytes = f"{budget / 1e9:,.0f} GB"
        caption = f"Share of prompt tokens found, by tier policy, in a store of {gigabytes}"
        made.append(("hits", caption, _hits(held)))
        made.append(("bytes", f"Bytes written and read in a store of {gigabytes}", _bytes(held)))
    found = regrets(report)
    if found:
        caption = (
            "Mean time to first token by link, when nothing, everything, or what pays is loaded"
        )
        made.append(("first-token", caption, _first_token(found)))
    return made


def _figure(columns: int, rows: int, size: tuple[float, float]) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "lab") from None
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return figure, axes


def _png(figure: Any) -> bytes:  # noqa: ANN401 - matplotlib ships no types
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _places(held: Sequence[Held]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((one.trace, one.routing) for one in held))


def _hits(held: Sequence[Held]) -> bytes:
    places = _places(held)
    columns = min(2, len(places))
    rows = -(-len(places) // columns)
    figure, axes = _figure(columns, rows, (5.2 * columns, 1.9 * rows + 0.5))
    for axis in axes.flat[len(places) :]:
        axis.set_visible(False)
    for (trace, routing), axis in zip(places, axes.flat, strict=False):
        mine = [one for one in held if (one.trace, one.routing) == (trace, routing)]
        names = [one.policy for one in mine]
        local = [100 * one.local / one.tokens for one in mine]
        store = [100 * one.store / one.tokens for one in mine]
        axis.barh(names, local, color=_COLOURS["local"])
        axis.barh(names, store, left=local, color=[_COLOURS[name] for name in names])
        for place, (here, more) in enumerate(zip(local, store, strict=True)):
            text = f"{here:.1f}" if names[place] == "none" else f"+{more:.2f}"
            axis.text(here + more, place, f" {text}", va="center", fontsize=8)
        axis.set_xlim(0, max(1.0, 1.15 * max(map(sum, zip(local, store, strict=True)))))
        axis.invert_yaxis()
        axis.set_title(f"{trace}, {routing}", fontsize=9, loc="left")
        axis.set_xlabel("% of prompt tokens; grey: from the replica's own cache", fontsize=8)
    return _png(figure)


def _bytes(held: Sequence[Held]) -> bytes:
    places = _places(held)
    figure, axes = _figure(2, 1, (10.4, 0.72 * len(places) + 1.3))
    policies = ("lru", "second-sight", "askonce-alone", "askonce", "clairvoyant")
    for axis, field in zip(axes.flat, ("written", "read"), strict=True):
        for turn, policy in enumerate(policies):
            found = {
                (one.trace, one.routing): getattr(one, field) / 1e9
                for one in held
                if one.policy == policy
            }
            heights = [place + (turn - 2) * 0.17 for place in range(len(places))]
            values = [found[place] for place in places]
            axis.barh(heights, values, height=0.15, color=_COLOURS[policy], label=policy)
        labels = [f"{trace}\n{routing}" for trace, routing in places]
        axis.set_yticks(range(len(places)), labels if field == "written" else [""] * len(places))
        axis.invert_yaxis()
        axis.set_xscale("symlog", linthresh=10)
        axis.set_xlabel(f"GB {field}", fontsize=8)
    handles, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, frameon=False, loc="outside upper center", ncols=4)
    return _png(figure)


def _first_token(found: Sequence[Regret]) -> bytes:
    traces = list(dict.fromkeys(one.trace for one in found))
    gpus = list(dict.fromkeys(one.gpu for one in found))
    figure, axes = _figure(len(gpus), len(traces), (5.2 * len(gpus), 2.3 * len(traces) + 0.3))
    for trace, line in zip(traces, axes, strict=True):
        for gpu, axis in zip(gpus, line, strict=True):
            mine = [one for one in found if (one.trace, one.gpu) == (trace, gpu)]
            links = [one.gigabits for one in mine]
            for rule, style in (("none", "--"), ("always", "-"), ("gate", "-")):
                values = [getattr(one, rule).mean for one in mine]
                width = 2.4 if rule == "gate" else 1.4
                axis.plot(
                    links,
                    values,
                    style,
                    color=_COLOURS[rule],
                    linewidth=width,
                    marker="o",
                    markersize=3.5,
                    label={"none": "load nothing", "always": "load everything"}.get(rule, "gate"),
                )
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xticks(links, [f"{link:g}" for link in links], minor=False)
            axis.minorticks_off()
            axis.set_yticks(_ticks(mine))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.grid(axis="y", color="#e6e8ec", linewidth=0.6)
            axis.set_title(f"{trace}, {gpu}", fontsize=9, loc="left")
            axis.set_xlabel("link, Gb/s", fontsize=8)
            axis.set_ylabel("mean TTFT, s", fontsize=8)
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, frameon=False, loc="outside upper center", ncols=3)
    return _png(figure)


def _ticks(found: Sequence[Regret]) -> list[float]:
    """Round values, in steps of 1, 2 and 5, around all means."""
    means = [each.mean for one in found for each in (one.none, one.always, one.gate)]
    low, high = 0.8 * min(means), 1.25 * max(means)
    steps = [step * 10.0**power for power in range(-5, 6) for step in (1, 2, 5)]
    inside = [step for step in steps if low <= step <= high]
    return inside or [float(f"{min(means):.2g}")]
