"""One stream under several rules: what each would have served, and how much of it wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from askonce.errors import MissingExtra
from askonce.lab.scoring import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FLOORS = (0.80, 0.85, 0.88, 0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
SHARES = (0.005, 0.01, 0.02, 0.05)

_HEADER = (
    "rule",
    "setting",
    "hits %",
    "least",
    "most",
    "late",
    "wrong %",
    "/1000",
    "audits %",
    "over",
)
_OURS = "#0a5c8c"
_LOOKS: dict[str, dict[str, Any]] = {
    "static": {"color": "0.45", "marker": ".", "markersize": 3, "linewidth": 1},
    "per-entry": {"color": "#b8860b", "marker": "s", "linewidth": 1.2},
    "cosine": {"color": "#a33", "marker": "^", "linewidth": 1.2},
    "askonce": {"color": _OURS, "marker": "D", "linewidth": 2},
}
_TOLD = {
    "static": "bare threshold, in hindsight",
    "per-entry": "estimator for each entry",
    "cosine": "cosine under the same budgets",
    "askonce": "AskOnce; dots: single orders",
}
_WIDEST = 8


class Outcome(msgspec.Struct, frozen=True):
    """One rule at one setting, over all orders."""

    rule: str
    setting: float
    runs: tuple[Tally, ...]
    late: float
    """Hit share of the last questions of each order."""
    over: int
    """Runs whose wrong hits exceed the setting beyond chance, at 5 %; 0 for thresholds."""
    early: tuple[Tally, ...] = ()
    """The start of each order alone, where it was told apart."""
    audits: int = 0
    """Hits of all orders that the engine was asked about all the same."""

    @property
    def total(self) -> Tally:
        """All orders as one."""
        return Tally(*(sum(getattr(run, field) for run in self.runs) for field in _FIELDS))


_FIELDS = ("asked", "hits", "wrong")


def render(name: str, outcomes: Sequence[Outcome]) -> str:
    """A table; `over` counts the runs that exceed the budget beyond chance."""
    rows = [_HEADER, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([name, *lines])


def _row(outcome: Outcome) -> tuple[str, ...]:
    shares = [100 * run.hit_share for run in outcome.runs]
    total = outcome.total
    return (
        outcome.rule,
        f"{outcome.setting:g}",
        f"{100 * total.hit_share:.1f}",
        f"{min(shares):.1f}",
        f"{max(shares):.1f}",
        f"{100 * outcome.late:.1f}",
        f"{100 * total.wrong_share:.2f}",
        f"{total.wrong_per_thousand:.2f}",
        f"{100 * outcome.audits / max(total.hits, 1):.1f}",
        f"{outcome.over}/{len(outcome.runs)}",
    )


def plot(name: str, outcomes: Sequence[Outcome], path: Path) -> None:
    """Hit share against wrong share, a line a rule, as PNG or SVG; raises MissingExtra."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "lab") from None
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    axes = figure.subplots()
    for rule, look in _LOOKS.items():
        chosen = [one for one in outcomes if one.rule == rule and one.total.hits]
        if chosen:
            chosen.sort(key=lambda one: one.setting)
            axes.plot(*_points([one.total for one in chosen]), label=_TOLD[rule], **look)
    learned = [one for one in outcomes if one.rule == "askonce"]
    for one in learned:
        axes.plot(*_points(one.runs), ".", color=_OURS, alpha=0.25, markersize=4, zorder=1)
        axes.axvline(100 * one.setting, color="0.6", linestyle=":", linewidth=1, zorder=0)
        axes.annotate(
            f" {100 * one.setting:g} %",
            (100 * one.setting, 0.99),
            xycoords=("data", "axes fraction"),
            fontsize=8,
            color="0.4",
            va="top",
        )
    axes.set(xlabel="wrong, % of the hits", ylabel="hits, % of the questions", title=name)
    axes.set_xlim(0, _WIDEST)
    shown = [one.total for one in outcomes if 100 * one.total.wrong_share <= _WIDEST]
    axes.set_ylim(0, 108 * max([0.1, *(total.hit_share for total in shown)]))
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="upper left" if not learned else "lower right", framealpha=0.9)
    figure.savefig(path, dpi=120)


def _points(tallies: Sequence[Tally]) -> tuple[list[float], list[float]]:
    """Percentages; what lies beyond the right edge would only bend the lines."""
    return (
        [100 * tally.wrong_share for tally in tallies],
        [100 * tally.hit_share for tally in tallies],
    )
