"""A small form of what the suite promises, on questions made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.made import faq, look_alike

from askonce.lab.jobs import STATICS, Job, Plan, Questions, jobs, played
from askonce.lab.scoring import Tally
from askonce.lab.verdicts import exceeds

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

_ORDERS = 2


def _job(asked: Questions, rule: str, per: str = "hit", *, errs: bool = False) -> Job:
    plan = Plan(budgets=(0.05,), erring=(0.05,))
    return next(
        job for job in jobs(asked, plan) if (job.rule, job.per, bool(job.errs)) == (rule, per, errs)
    )


def _pooled(asked: Questions, job: Job) -> tuple[Tally, int]:
    """All orders as one, and how many were beyond the budget."""
    runs = [played(asked, job, seed, 8)[0].tally for seed in range(_ORDERS)]
    pooled = Tally(*(sum(getattr(run, f) for run in runs) for f in ("asked", "hits", "wrong")))
    return pooled, sum(exceeds(run, job.setting, job.per) for run in runs)


def _best_static(asked: Questions, allowed: Callable[[Tally], float]) -> float:
    """Hits of the best threshold in hindsight."""
    job = _job(asked, "static")
    found = [0.0]
    for at in range(len(STATICS)):
        runs = [played(asked, job, seed, 8)[at].tally for seed in range(_ORDERS)]
        pooled = Tally(*(sum(getattr(run, f) for run in runs) for f in ("asked", "hits", "wrong")))
        if pooled.wrong <= allowed(pooled):
            found.append(pooled.hit_share)
    return max(found)


def test_on_an_faq_most_is_served_within_the_budget() -> None:
    """Hits by far more than cosine has under the same budget; as many wrong as allowed at most."""
    asked = faq(450)
    ours, over = _pooled(asked, _job(asked, "askonce"))
    cosine, _ = _pooled(asked, _job(asked, "cosine"))
    assert ours.wrong <= 0.05 * ours.hits
    assert over == 0
    assert ours.hit_share >= 0.3
    assert ours.hits >= 1.4 * cosine.hits


def test_a_judge_that_errs_costs_hits_and_not_the_budget() -> None:
    """Five verdicts in a hundred are false."""
    asked = faq(450)
    ours, over = _pooled(asked, _job(asked, "askonce", errs=True))
    assert ours.wrong <= 0.05 * ours.hits
    assert over == 0


def test_look_alikes_are_told_apart() -> None:
    """Counted per request, at least twice what the best threshold serves in hindsight."""
    asked = look_alike(600)
    ours, over = _pooled(asked, _job(asked, "askonce", "request"))
    static = _best_static(asked, lambda tally: 0.005 * tally.asked)
    assert ours.wrong <= 0.005 * ours.asked
    assert over == 0
    assert ours.hit_share >= 2 * static
