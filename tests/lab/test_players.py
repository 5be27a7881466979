"""What AskOnce is compared with, on made questions."""

from __future__ import annotations

import numpy as np
import pytest

from askonce.lab.players import ByCosine, Observed, PerEntry, careful_chance, fit_curve
from askonce.lab.stream import Neighbourhood, play, shuffled
from askonce.trust.account.budget import Budget
from askonce.trust.account.ledger import Ledger, Policy

_GROUPS = 40
_EACH = 25
GROUPS = [number % _GROUPS for number in range(_GROUPS * _EACH)]


@pytest.fixture(scope="module")
def neighbourhood() -> Neighbourhood:
    """Questions in clusters, one answer each."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((_GROUPS, 32))
    vectors = centres[GROUPS] + 0.25 * rng.standard_normal((len(GROUPS), 32))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Neighbourhood(vectors.astype(np.float32))


def test_cosine_under_the_ledger_serves_where_it_has_proved_right(
    neighbourhood: Neighbourhood,
) -> None:
    """Nothing at first, then much, within the budget."""
    ledger = Ledger(Policy(budget=Budget(0.05)), b"0")
    log = play(shuffled(len(GROUPS), 0), neighbourhood, ByCosine(ledger), GROUPS)
    assert not log.hit[:50].any()
    assert log.hit.sum() > 100
    assert log.wrong.sum() <= 0.05 * log.hit.sum()
    assert (log.audited <= log.hit).all()


def test_an_entry_answers_after_six_observations(neighbourhood: Neighbourhood) -> None:
    """The per-entry estimator needs many questions near each entry before it serves any."""
    log = play(shuffled(len(GROUPS), 0), neighbourhood, PerEntry(0.05, 0), GROUPS)
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
