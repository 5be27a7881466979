"""The evidence of a deployment, and the budget kept by it."""

from __future__ import annotations

import random
from math import log

import pytest
from tests.trust.curves import HERE, Curve, flat, fresh, honest, hopeless, run

from askonce.trust.account.asked import Place, Step
from askonce.trust.account.bound import JudgeError, excess_chance
from askonce.trust.account.budget import Budget, Caution, Decision
from askonce.trust.account.evidence import Label
from askonce.trust.account.ledger import Ledger, Policy

_RUNS = 5


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05])
@pytest.mark.parametrize(("errs", "judge"), [(0.0, None), (0.05, JudgeError(0.05, 0.05, 0.003))])
def test_the_budget_is_kept(share: float, errs: float, judge: JudgeError | None) -> None:
    """Over runs the pooled share is within the budget, and few runs exceed it beyond chance."""
    hits = wrong = rejected = 0
    for seed in range(_RUNS):
        ledger = fresh(judge=judge, budget=Budget(share))
        done = run(ledger, honest, 2000, seed=seed, errs=errs)
        hits, wrong = hits + done.hits, wrong + done.wrong
        rejected += done.hits > 0 and excess_chance(done.wrong, done.hits, share) <= 0.05
    assert hits > (0.02 if errs else 0.1) * 2000 * _RUNS
    assert wrong <= share * hits
    assert rejected <= 1


@pytest.mark.slow
@pytest.mark.parametrize("curve", [hopeless, flat])
def test_where_no_score_is_good_enough_hardly_anything_is_served(curve: Curve) -> None:
    """A curve that stays above the budget opens the cache for next to nothing."""
    hits = sum(run(fresh(budget=Budget(0.02)), curve, 2500, seed=seed).hits for seed in range(2))
    assert hits <= 0.02 * 2500 * 2


@pytest.mark.slow
def test_a_curve_that_flattens_at_twice_the_budget_costs_few_hits() -> None:
    """There is nothing to serve: what luck lets through is little, and no more than chance."""
    share = 1 / 24
    done = [run(fresh(budget=Budget(share)), flat, 2000, seed=seed) for seed in range(_RUNS)]
    assert sum(one.hits for one in done) <= 0.03 * 2000 * _RUNS
    beyond = [one.hits and excess_chance(one.wrong, one.hits, share) <= 0.05 for one in done]
    assert sum(beyond) <= 1


@pytest.mark.slow
def test_proof_is_kept_whenever_one_looks() -> None:
    """With proof asked for, pooled and single runs stay within the budget."""
    budget, caution = Budget(0.05), Caution(rule="proof")
    done = [run(fresh(budget=budget, caution=caution), honest, 4000, seed=s) for s in range(2)]
    assert sum(one.hits for one in done) > 0
    assert sum(one.wrong for one in done) <= 0.05 * sum(one.hits for one in done)


def test_audits_cost_their_share() -> None:
    """Many of the first hits are audited, then about five in a hundred."""
    done = run(fresh(budget=Budget(0.05)), honest, 4000)
    assert done.hits > 1000
    extra = 100 * log(1 + done.hits / 200)
    assert done.audited == pytest.approx(0.05 * done.hits + extra, rel=0.3)


def test_an_early_wrong_audit_does_not_lock_the_cache() -> None:
    """After a burst of wrong verdicts at the top, evidence from misses opens it again."""
    ledger = fresh(budget=Budget(0.05))
    run(ledger, honest, 1500)
    for _ in range(5):
        ledger.learn(HERE, Label(6.0, wrong=True, source="audit"))
    assert any(run(ledger, honest, 4000, seed=1).served[-500:])


def test_a_drift_tightens_within_two_hundred_requests() -> None:
    """When the answers turn wrong, serving stops soon, and comes back once they are right again."""
    ledger = fresh(budget=Budget(0.05))
    before = run(ledger, honest, 3000)
    assert sum(before.served[-200:]) > 60
    drifted = run(ledger, lambda score: max(0.5, honest(score)), 400, seed=2)
    assert sum(drifted.served[200:]) <= 2
    assert ledger.standing(HERE).drifts >= 1
    after = run(ledger, honest, 8000, seed=3)
    assert sum(after.served[-500:]) > 50


def test_what_was_not_served_in_the_end_is_taken_back() -> None:
    """A decision to serve that came to nothing is no hit, neither here nor for the account."""
    ledger, place = Ledger(Policy(), b"seed"), Place(b"n", b"p")
    ledger.learn(place, Label(3.0, wrong=False, source="miss"))
    assert ledger.knows(place)
    assert not ledger.knows(Place(b"n", b"q"))
    for _ in range(2):
        ledger.count(place, 20, served=True)
    ledger.repeat(Step(*place, 20, "withdrawn"))
    assert ledger.standing(place).hits == 1
    for what in ("unwatched", "withdrawn", "withdrawn"):
        ledger.repeat(Step(*place, 20, what))
    assert ledger.standing(place).hits == 0


def test_decisions_repeat() -> None:
    """The same requests and evidence give the same decisions; another seed audits others."""
    one, other, third = fresh(), fresh(), fresh(seed=b"another")
    ledgers = [run(ledger, honest, 3000).served for ledger in (one, other, third)]
    assert ledgers[0] == ledgers[1] != ledgers[2]


def test_a_request_without_a_candidate_is_a_miss() -> None:
    """It counts as a request, and nothing can be served."""
    ledger = fresh()
    run(ledger, honest, 500)
    assert ledger.decide(HERE, None, b"r") == Decision(serve=False, audit=False, chance=1.0)


def test_an_unknown_namespace_serves_nothing() -> None:
    """Evidence of another namespace is a prior and no licence."""
    ledger = fresh(budget=Budget(0.1))
    run(ledger, honest, 3000)
    other = Place(b"sales", b"prompt")
    assert not ledger.decide(other, 9.0, b"r").serve
    assert not ledger.standing(other).open


def test_a_new_partition_goes_by_its_namespace_until_it_speaks() -> None:
    """Evidence is borrowed at once, given up when the partition turns out worse."""
    ledger = fresh(budget=Budget(0.1))
    run(ledger, honest, 3000)
    new = Place(HERE.namespace, b"new")
    assert ledger.standing(new).open
    assert ledger.decide(new, 9.0, b"r1").serve
    for _ in range(4):
        ledger.learn(new, Label(5.0, wrong=True, source="audit"))
    assert not ledger.decide(new, 5.0, b"r1").serve
    assert ledger.decide(HERE, 9.0, b"r1").serve
    good = Place(HERE.namespace, b"good")
    ledger.learn(good, Label(5.0, wrong=False, source="miss"))
    assert ledger.decide(good, 9.0, b"r1").serve


def test_partitions_that_differ_get_levels_of_their_own() -> None:
    """Beside a partition of answers that never fit, one that fits is still served."""
    ledger = fresh(budget=Budget(0.05))
    good, bad = Place(b"n", b"good"), Place(b"n", b"bad")
    hits = {good: 0, bad: 0}
    for round_ in range(20):
        for place, curve in ((good, honest), (bad, hopeless)):
            hits[place] += run(ledger, curve, 150, seed=round_, place=place).hits
    assert hits[good] > 150
    assert hits[bad] <= 10


def test_budgets_are_the_namespaces_own() -> None:
    """A generous namespace serves more than a strict one on the same traffic."""
    ledger = fresh(budget=Budget(0.003), budgets={b"search": Budget(0.1)})
    strict, generous = Place(b"support", b"p"), Place(b"search", b"p")
    assert run(ledger, honest, 2000, place=strict).hits < (
        run(ledger, honest, 2000, place=generous).hits
    )


def test_reset_forgets_a_partition_or_a_namespace() -> None:
    """A change of content ends a partition, a change of model the whole namespace."""
    ledger = fresh(budget=Budget(0.1))
    run(ledger, honest, 3000)
    run(ledger, honest, 300, place=Place(b"other", b"p"))
    ledger.reset(HERE)
    assert ledger.standing(HERE).open
    ledger.reset(HERE, whole=True)
    assert not ledger.standing(HERE).open
    assert ledger.standing(Place(b"other", b"p")).labels >= 0


def test_memory_is_bounded() -> None:
    """Partitions without end push out those longest unused; a namespace in use stays."""
    ledger = fresh(budget=Budget(0.1), places=10)
    run(ledger, honest, 2000)
    for number in range(50):
        ledger.learn(Place(b"support", b"%d" % number), Label(1.0, wrong=False, source="miss"))
    assert ledger.places <= 10
    assert ledger.standing(HERE).open


def test_a_caller_counts_less_than_an_operator() -> None:
    """One caller's complaint is a quarter of a verdict."""
    one, other = fresh(), fresh()
    one.learn(HERE, Label(1.0, wrong=True, source="caller"))
    other.learn(HERE, Label(1.0, wrong=True, source="operator"))
    assert one.standing(HERE).labels == other.standing(HERE).labels == 0
    run(one, honest, 1)
    assert one.standing(Place(b"none", b"none")).labels == 0


def test_a_standing_shows_the_level_and_its_bound() -> None:
    """The bound lies above what was seen, and the level's limit within the budget."""
    ledger = fresh(budget=Budget(0.05))
    run(ledger, honest, 4000)
    standing = ledger.standing(HERE)
    assert standing.open
    assert 0 < standing.estimate <= 0.05
    assert 0 < standing.bound < 0.2
    assert standing.score < 6


def test_the_bound_covers_the_true_rate_of_what_is_served() -> None:
    """In every one of a few runs, at the end."""
    for seed in range(3):
        ledger = fresh(budget=Budget(0.05))
        done = run(ledger, honest, 3000, seed=seed)
        assert ledger.standing(HERE).bound >= 0.9 * done.wrong / done.hits


def test_random_orders_of_labels_never_break_the_ledger() -> None:
    """Labels without requests, requests without labels, extremes of every kind."""
    rng = random.Random(9)
    ledger = fresh(places=4)
    for number in range(3000):
        place = Place(b"%d" % rng.randrange(3), b"%d" % rng.randrange(5))
        score = rng.choice([-1e9, -1.0, 0.0, 3.0, 1e9, float("nan")])
        if rng.random() < 0.5:
            ledger.decide(place, score, b"%d" % number)
        else:
            ledger.learn(place, Label(score, wrong=rng.random() < 0.5, source="miss"))
    assert ledger.standing(HERE).bound <= 1
