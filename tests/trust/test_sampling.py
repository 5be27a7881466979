"""Audits are drawn by a known probability and within their budget."""

from __future__ import annotations

import pytest

from askonce.trust.sampling import Allowance, Auditor, AuditPlan, probability, uniform

SECRET = b"s" * 32


def test_more_audits_near_the_threshold() -> None:
    """The probability falls from the threshold to its base, within floor and cap."""
    plan = AuditPlan(base=0.02, near=0.2, width=0.1)
    assert probability(0.0, plan) == pytest.approx(0.2)
    assert probability(-1.0, plan) == pytest.approx(0.2)
    assert probability(0.05, plan) == pytest.approx(0.11)
    assert probability(0.5, plan) == pytest.approx(0.02)
    assert probability(0.0, AuditPlan(near=0.9, cap=0.5)) == 0.5
    assert probability(0.5, AuditPlan(base=0.0, floor=0.01)) == 0.01
    assert probability(0.0, AuditPlan(width=0.0)) == pytest.approx(0.02)


def test_a_draw_can_be_repeated_and_not_foretold() -> None:
    """The same id and secret draw the same; another secret draws otherwise."""
    drawn = [uniform(f"request-{n}", SECRET) for n in range(1000)]
    assert drawn == [uniform(f"request-{n}", SECRET) for n in range(1000)]
    assert all(0 <= number < 1 for number in drawn)
    assert 0.45 < sum(drawn) / 1000 < 0.55
    assert uniform("request-1", b"other") != drawn[1]
    assert 0 <= uniform("\ud800", SECRET) < 1


def test_draws_as_often_as_it_says() -> None:
    """With budget to spare, audits match the sum of their probabilities."""
    auditor = Auditor(AuditPlan(calls_per_hour=1e9, burst=1e9), secret=SECRET)
    draws = [auditor.draw(f"r{n}", 0.05, 0.0) for n in range(5000)]
    expected = sum(draw.probability for draw in draws)
    assert sum(draw.audit for draw in draws) == pytest.approx(expected, rel=0.1)


def test_keeps_to_its_budget_and_tells_the_truth() -> None:
    """Under ten times the load, calls stay within the budget and weights still add up."""
    plan = AuditPlan(base=0.1, near=0.1, floor=0.0, calls_per_hour=360.0, burst=20.0)
    auditor = Auditor(plan, secret=SECRET)
    draws = [auditor.draw(f"r{n}", 0.5, n * 0.1) for n in range(72_000)]
    audited = [draw for draw in draws if draw.audit]
    assert 600 < len(audited) <= 2 * 360 + 20 + 10
    covered = sum(draw.probability > 0 for draw in draws)
    assert covered == len(draws)
    weight = sum(1 / draw.probability for draw in audited)
    assert weight == pytest.approx(covered, rel=0.15)


def test_an_overdrawn_budget_draws_nothing() -> None:
    """When far more was drawn than may be, the probability is 0, not a draw that is refused."""
    plan = AuditPlan(near=1.0, cap=1.0, calls_per_hour=1e-9, burst=1.0)
    auditor = Auditor(plan, secret=SECRET)
    draws = [auditor.draw(f"r{n}", 0.0, 0.0) for n in range(100_000)]
    assert draws[0].audit
    assert draws[0].probability == 1.0
    assert sum(draw.audit for draw in draws) < 20
    assert draws[-1].probability == 0.0


def test_no_budget_is_no_audit() -> None:
    """With a budget of 0 nothing is drawn at all."""
    auditor = Auditor(AuditPlan(calls_per_hour=0.0), secret=SECRET)
    assert not any(auditor.draw(f"r{n}", 0.0, 0.0).audit for n in range(1000))


def test_an_allowance_fills_with_time() -> None:
    """It fills up to its burst, and a clock that stands or goes back adds nothing."""
    allowance = Allowance(per_hour=3600.0, burst=2.0)
    assert allowance.take(0.0)
    assert allowance.take(0.0)
    assert not allowance.take(0.5)
    assert allowance.share(0.5) < 0.5
    assert allowance.take(1.5)
    assert allowance.level(1.0) == pytest.approx(0.5)
    assert allowance.level(100.0) == 2.0
    assert allowance.share(100.0) == 1.0


def test_an_allowance_is_settled_afterwards() -> None:
    """What cost more than thought is owed, what cost less is given back."""
    allowance = Allowance(per_hour=3600.0, burst=10.0)
    assert allowance.level(0.0) == 10.0
    allowance.settle(15.0)
    assert not allowance.take(4.0)
    assert allowance.take(6.0)
    allowance.settle(-100.0)
    assert allowance.level(6.0) == 10.0
