"""Wrong rates by score, from few labels."""

from __future__ import annotations

import random

import pytest
from tests.trust.curves import flat, honest

from askonce.trust.account.bound import JudgeError
from askonce.trust.account.calibration import FLOOR, SHIPPED, Drift, Line, Node, rates_of
from askonce.trust.account.evidence import CELLS, Label, cell_of


def _node(labels: int, *, errs: float = 0.0, judge: JudgeError | None = None) -> Node:
    rng = random.Random(1)
    node = Node(judge or JudgeError(), memory=1e6)
    for _ in range(labels):
        score = rng.gauss(2.5, 2.5)
        node.ask(cell_of(score))
        wrong = rng.random() < honest(score)
        node.learn(Label(score, wrong=wrong != (rng.random() < errs), source="miss"))
    node.refresh(SHIPPED)
    return node


def test_without_labels_a_score_is_believed_down_to_the_floor() -> None:
    """The prior says what the score says, but nothing better than the floor."""
    rates = Node(JudgeError(), memory=1e4).refresh(SHIPPED)
    assert rates.rate(cell_of(0.1)) == pytest.approx(0.47, abs=0.03)
    assert FLOOR < rates.rate(CELLS - 1) < 2 * FLOOR


def test_the_floor_is_what_high_scores_turn_out_to_be() -> None:
    """Where they are right, scores higher still are believed; where one in twelve is wrong, not."""
    believed = []
    for curve in (lambda _: 0.0, flat):
        rng = random.Random(2)
        node = Node(JudgeError(), memory=1e6)
        for number in range(2000):
            score = rng.uniform(3, 8)
            node.learn(Label(score, wrong=rng.random() < curve(score), source="miss"))
            if number % 5 == 0:
                node.refresh(SHIPPED)
        believed.append(node.refresh(SHIPPED).rate(CELLS - 1))
    assert believed[0] == pytest.approx(0.005, rel=0.01)
    assert believed[1] > 3 * FLOOR


def test_labels_of_low_scores_say_something_about_high_ones() -> None:
    """A verifier that exaggerates below is doubted above."""
    node = Node(JudgeError(), memory=1e6)
    for number in range(600):
        score = (number % 12) * 0.25 - 1.0
        node.learn(Label(score, wrong=number % 10 < 7, source="miss"))
    node.refresh(SHIPPED)
    assert rates_of(node.line)[cell_of(4.0)] > 3 * rates_of(Line())[cell_of(4.0)]


def test_many_labels_outweigh_the_prior() -> None:
    """The estimate of each cell comes near the true curve."""
    rates = _node(20_000).rates
    assert rates is not None
    for score in (0.1, 1.1, 2.1, 4.1):
        assert rates.rate(cell_of(score)) == pytest.approx(honest(score), rel=0.35)


def test_a_judge_that_errs_is_corrected() -> None:
    """Five per cent of false verdicts do not look like five per cent of wrong answers."""
    rates = _node(20_000, errs=0.05, judge=JudgeError(0.05, 0.05)).rates
    assert rates is not None
    assert rates.rate(cell_of(5.0)) < 0.04
    assert rates.rate(cell_of(1.1)) == pytest.approx(honest(1.1), rel=0.35)
    assert rates.noise[cell_of(5.0)] > 0


def test_a_child_starts_from_its_parents_line() -> None:
    """Without labels of its own it differs from its parent by nothing but the cells' own labels."""
    parent = _node(2000)
    child = Node(JudgeError(), memory=1e4)
    child.refresh(parent.prior())
    assert child.line.height == pytest.approx(parent.line.height, abs=0.2)
    assert child.line.slope == pytest.approx(parent.line.slope, abs=0.2)


def test_surprise_tells_who_is_worse_than_the_rates_of_another() -> None:
    """Answers that are all wrong stand out after a handful; fitting ones do not."""
    parent = _node(5000)
    assert parent.rates is not None
    same, worse = _node(200), Node(JudgeError(), memory=1e4)
    for _ in range(6):
        worse.learn(Label(4.0, wrong=True, source="miss"))
    assert abs(same.surprise(parent.rates)) < 3
    assert worse.surprise(parent.rates) > 3
    assert Node(JudgeError(), memory=1e4).surprise(parent.rates) == 0


def test_drift_drops_what_was_before_the_change() -> None:
    """When every answer turns wrong, the old evidence goes within some twenty labels."""
    node = _node(2000)
    told = [node.learn(Label(4.0, wrong=True, source="miss")) for _ in range(20)]
    assert sum(told) == 1
    assert node.drifts == 1
    assert sum(node.cells.labels) / node.cells.unit < 100
    rates = node.refresh(SHIPPED)
    assert rates.rate(cell_of(4.0)) > 0.2


def test_no_drift_is_seen_where_there_is_none() -> None:
    """Steady traffic raises no alarm in 20,000 labels."""
    rng = random.Random(3)
    node = _node(2000)
    for number in range(20_000):
        score = rng.gauss(2.5, 2.5)
        node.learn(Label(score, wrong=rng.random() < honest(score), source="miss"))
        if number % 200 == 0:
            node.refresh(SHIPPED)
    assert node.drifts == 0


def test_a_callers_word_is_a_quarter_of_a_verdict_for_a_drift_as_well() -> None:
    """So many words as raise an alarm where the engine says so raise none where callers do."""
    alarms = {}
    for source in ("audit", "caller"):
        node = _node(2000)
        told = (node.learn(Label(4.0, wrong=True, source=source)) for _ in range(100))
        alarms[source] = next(number for number, alarm in enumerate(told, 1) if alarm)
    assert alarms["caller"] > 3 * alarms["audit"]


def test_an_alarm_needs_more_than_chance() -> None:
    """The ratio never falls below 1, and one surprise is none."""
    drift = Drift()
    assert not drift.saw(0.01, wrong=True)
    assert drift.ratio == pytest.approx(3.88, abs=0.01)
    for _ in range(200):
        drift.saw(0.01, wrong=False)
    assert drift.ratio == 1.0
