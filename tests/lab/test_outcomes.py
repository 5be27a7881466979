"""What came of a rule, as a table and as a plot."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from askonce.errors import MissingExtra
from askonce.lab.outcomes import Outcome, plot, render
from askonce.lab.scoring import Tally

if TYPE_CHECKING:
    from pathlib import Path

OUTCOME = Outcome("askonce", 0.02, (Tally(100, 50, 1), Tally(100, 30, 0)), 0.5, 0, audits=8)


def test_a_table_has_a_row_a_rule() -> None:
    """Shares are over all orders, least and most of single ones."""
    name, heads, row = render("made", [OUTCOME]).splitlines()
    assert name == "made"
    told = dict(zip(heads.replace(" %", "%").split(), row.split(), strict=True))
    assert told == {
        "rule": "askonce",
        "setting": "0.02",
        "hits%": "40.0",
        "least": "30.0",
        "most": "50.0",
        "late": "50.0",
        "wrong%": "1.25",
        "/1000": "5.00",
        "audits%": "10.0",
        "over": "0/2",
    }


def test_a_plot_needs_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the drawing package the error names the extra."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"askonce\[lab\]"):
        plot("made", [], tmp_path / "plot.png")


def test_a_plot_is_written(tmp_path: Path) -> None:
    """One line a rule."""
    pytest.importorskip("matplotlib")
    plot("made", [OUTCOME], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
