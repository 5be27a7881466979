"""Rules side by side on made questions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from askonce.errors import MissingExtra
from askonce.lab.compare import Material, Options, Outcome, compare, plot, render
from askonce.lab.players import Observed, PerEntry, careful_chance, fit_curve
from askonce.lab.scoring import Tally
from askonce.lab.stream import Neighbourhood, play, shuffled
from askonce.trust.alignment import pack
from askonce.trust.reading import analyse
from askonce.trust.verifier import Text

if TYPE_CHECKING:
    from pathlib import Path

_GROUPS = 40
_EACH = 25


@pytest.fixture(scope="module")
def material() -> Material:
    """Questions in clusters, one answer each."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((_GROUPS, 32))
    groups = [number % _GROUPS for number in range(_GROUPS * _EACH)]
    vectors = centres[groups] + 0.25 * rng.standard_normal((len(groups), 32))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    texts = []
    for number, (group, vector) in enumerate(zip(groups, vectors, strict=True)):
        reading = analyse(f"how do I reset thing{group} please {number % 7}")
        tokens = pack([1, 5 + group, 7, 2], np.tile(vector, (4, 1)))
        texts.append(Text(reading, tokens, vector))
    return Material("made", texts, groups, Neighbourhood(vectors))


@pytest.mark.slow
def test_every_rule_is_scored_at_every_setting(material: Material) -> None:
    """Thresholds, the per-entry estimator, and the ledger by cosine and by verifier."""
    options = Options(orders=1, floors=(0.5, 0.99), shares=(0.05,))
    outcomes = compare(material, options)
    assert [(one.rule, one.setting) for one in outcomes] == [
        ("static", 0.5),
        ("static", 0.99),
        ("per-entry", 0.05),
        ("cosine", 0.05),
        ("verifier", 0.05),
    ]
    by_rule = {(one.rule, one.setting): one for one in outcomes}
    assert by_rule["static", 0.5].total.hits > by_rule["static", 0.99].total.hits
    assert by_rule["verifier", 0.05].total.hits > 100
    assert all(one.over == 0 for one in outcomes)
    table = render("made", outcomes)
    assert table.splitlines()[0] == "made"
    assert len(table.splitlines()) == 2 + len(outcomes)


def test_a_budget_per_request_is_judged_by_requests(material: Material) -> None:
    """The same rule under the other promise."""
    options = Options(orders=1, limit=200, floors=(), shares=(0.05,), per="request")
    assert [one.over for one in compare(material, options)] == [0, 0, 0]


def test_an_entry_answers_after_six_observations(material: Material) -> None:
    """The per-entry estimator needs many questions near each entry before it serves any."""
    log = play(
        shuffled(len(material.groups), 0),
        material.neighbourhood,
        PerEntry(0.05, 0),
        material.groups,
    )
    assert not log.hit[:100].any()
    assert log.hit.any()


def test_few_observations_are_trusted_less_than_many() -> None:
    """The careful chance grows with what an entry has seen, and with the cosine."""
    few = Observed([0.7, 0.8, 0.95] * 2, [False, False, True] * 2)
    many = Observed([0.7, 0.8, 0.95] * 20, [False, False, True] * 20)
    assert careful_chance(few, 0.97) < careful_chance(many, 0.97)
    assert careful_chance(many, 0.75) < careful_chance(many, 0.97)


def test_a_curve_finds_the_threshold_between_right_and_wrong() -> None:
    """Even odds lie between the classes; a slope is never negative."""
    cosines = np.linspace(0.7, 1.0, 60)
    threshold, slope, error = fit_curve(cosines, (cosines > 0.85).astype(float))
    assert threshold == pytest.approx(0.85, abs=0.02)
    assert slope > 1
    assert error > 0
    assert fit_curve(cosines, (cosines < 0.85).astype(float))[1] == 1.0


def test_a_plot_needs_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the drawing package the error names the extra."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"askonce\[lab\]"):
        plot("made", [], tmp_path / "plot.png")


def test_a_plot_is_written(tmp_path: Path) -> None:
    """One line a rule."""
    pytest.importorskip("matplotlib")
    outcome = Outcome("verifier", 0.02, (Tally(100, 50, 1),), 0.5, 0)
    plot("made", [outcome], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
