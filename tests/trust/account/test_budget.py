"""The level that a budget allows, and the decision for one request."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trust.curves import honest

from askonce.trust.account.bound import JudgeError
from askonce.trust.account.budget import (
    CLOSED,
    PRESETS,
    Budget,
    Caution,
    Level,
    account,
    chance,
    decide,
    level,
)
from askonce.trust.account.calibration import SHIPPED, Node
from askonce.trust.account.evidence import CELLS, MIDDLES, Label, cell_of


def _node(labels: int, served: int = 0, judge: JudgeError | None = None) -> Node:
    rng = random.Random(5)
    node = Node(judge or JudgeError(), memory=1e6)
    for _ in range(labels):
        score = rng.gauss(2.5, 2.5)
        node.ask(cell_of(score))
        node.learn(Label(score, rng.random() < honest(score), "miss"))
    for _ in range(served):
        node.serve(cell_of(0.6))
    return node


def _level(node: Node, budget: Budget, **caution: object) -> Level:
    return level(node.cells, node.refresh(SHIPPED), budget, Caution(**caution))  # type: ignore[arg-type]


def test_without_evidence_nothing_is_served() -> None:
    """The shipped prior alone opens nothing, whatever the budget."""
    assert _level(_node(0), Budget(0.5)).lowest == CLOSED


def test_a_larger_budget_goes_further_down() -> None:
    """Levels fall with the budget."""
    node = _node(6000)
    lowest = [_level(node, Budget(share)).lowest for share in (0.003, 0.01, 0.03, 0.1)]
    assert lowest == sorted(lowest, reverse=True)
    assert lowest[0] > lowest[-1]
    assert lowest[-1] < CLOSED


def test_the_limit_is_within_the_budget() -> None:
    """What the account reckons with never exceeds what was allowed."""
    for share in (0.02, 0.05, 0.1):
        assert 0 < _level(_node(6000), Budget(share)).limit <= share


def test_what_was_overspent_has_to_be_made_up_for() -> None:
    """Wrong answers served in the past leave less room ahead."""
    thrifty, spent = _node(6000), _node(6000, served=300)
    assert _level(spent, Budget(0.02)).lowest > _level(thrifty, Budget(0.02)).lowest


def test_an_excess_is_made_up_for_and_does_not_close_the_cache() -> None:
    """Where no level could bring the whole account into the budget, a strict one is served."""
    spent = _node(6000, served=30_000)
    at, closed = _level(spent, Budget(0.05)), _level(spent, Budget(0.05), amends=0.0)
    assert closed.lowest == CLOSED
    assert _level(_node(6000), Budget(0.05)).lowest < at.lowest < CLOSED
    assert at.limit <= Caution().amends * 0.05


def test_caution_is_greatest_while_evidence_is_small() -> None:
    """What is added at first moves the limit far on few labels and hardly on many."""
    added = []
    for node in (_node(100), _node(12_000)):
        rates = node.refresh(SHIPPED)
        for sunk in (False, True):
            limits = [
                account(node.cells, rates, Budget(0.05), Caution(early=early), sunk=sunk).upper[20]
                for early in (1.0, 0.0)
            ]
            added.append(limits[0] / limits[1] - 1)
    assert added[0] > 0.1
    assert added[1] > 0.03
    assert max(added[2:]) < 0.01


@pytest.mark.parametrize("served", [0, 30_000])
@pytest.mark.parametrize("per", ["hit", "request"])
def test_what_is_not_known_of_the_judge_is_not_spent(
    served: int, per: Literal["hit", "request"]
) -> None:
    """The same verdicts go less far; of hits nothing is served on a budget within the doubt."""
    lowest = []
    for doubt in (0.0, 0.02, 0.1):
        node = _node(6000, served=served, judge=JudgeError(0.0, 0.0, doubt))
        lowest.append(_level(node, Budget(0.03, per)).lowest)
    assert lowest[0] < lowest[1] < lowest[2]
    assert (lowest[2] == CLOSED) is (per == "hit")


def test_a_budget_per_request_counts_those_that_were_not_served() -> None:
    """One wrong answer in a hundred requests is more than one in a hundred hits."""
    node = _node(6000)
    per_request = _level(node, Budget(0.01, "request"))
    assert per_request.lowest < _level(node, Budget(0.01)).lowest


def test_proof_is_stricter_than_the_account() -> None:
    """Proving a level takes more labels than reckoning with it; in the end it opens as well."""
    few, many = _node(1500), _node(30_000)
    assert _level(few, Budget(0.02), rule="proof").lowest == CLOSED
    assert _level(few, Budget(0.02)).lowest < CLOSED
    assert _level(many, Budget(0.02)).lowest <= _level(many, Budget(0.02), rule="proof").lowest
    assert _level(many, Budget(0.02), rule="proof").lowest < CLOSED


def test_a_budget_above_every_verdict_needs_no_proof() -> None:
    """A budget of all there is allows everything."""
    assert _level(_node(3000), Budget(1.0), rule="proof").lowest == 0


def test_audits_go_where_errors_are_likely_and_keep_their_mean() -> None:
    """Near the level more, at the top fewer, none below, five in a hundred together."""
    node = _node(6000)
    rates = node.refresh(SHIPPED)
    at = level(node.cells, rates, Budget(0.05), Caution(first=0.0))
    shares = node.cells.shares()
    assert at.audits[at.lowest] > 2 * at.audits[CELLS - 3] > 0
    assert not any(at.audits[: at.lowest])
    mean = sum(s * a for s, a in zip(shares, at.audits, strict=True)) / sum(shares[at.lowest :])
    assert mean == pytest.approx(0.05, abs=0.015)


@settings(deadline=None, max_examples=50)
@given(score=st.floats(-5, 12), one=st.floats(0, 0.999), other=st.floats(0, 0.999))
def test_a_decision_serves_at_or_above_the_level_and_never_below(
    score: float, one: float, other: float
) -> None:
    """Below: a miss that is labelled. Above: a hit, at times audited, at times a forced miss."""
    at = Level(20, 0.01, [0.0] * 20 + [0.1] * (CELLS - 20))
    decision = decide(score, at, Caution(), (one, other))
    if cell_of(score) < 20:
        assert decision == (False, False, 1.0)
    else:
        assert decision.serve is (one >= 0.02)
        assert decision.audit is (decision.serve and other < 0.1)
        assert decision.chance == pytest.approx(0.1 if decision.serve else 1.0)


def test_chance_is_the_requests_own() -> None:
    """Equal for equal requests, different by purpose and seed, and spread evenly."""
    assert chance(b"s", b"r", b"audit") == chance(b"s", b"r", b"audit")
    assert chance(b"s", b"r", b"audit") != chance(b"s", b"r", b"forced")
    assert chance(b"s", b"r", b"audit") != chance(b"t", b"r", b"audit")
    drawn = [chance(b"s", b"%d" % number, b"audit") for number in range(2000)]
    assert sum(drawn) / 2000 == pytest.approx(0.5, abs=0.03)
    assert all(0 <= one < 1 for one in drawn)


def test_presets_say_what_they_allow() -> None:
    """Support is the strictest, search the most generous."""
    shares = {name: budget.share for name, budget in PRESETS.items()}
    assert shares == {"support": 0.003, "docs": 0.01, "search": 0.03}
    assert MIDDLES[1] == pytest.approx(-1.875)
