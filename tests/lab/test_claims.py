"""A small form of what the suite promises, on questions made here."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from tests.lab.made import faq, look_alike

from askonce.lab.jobs import ERR, Line, Plan, Questions, jobs, played
from askonce.lab.scoring import Tally
from askonce.lab.verdicts import exceeds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.slow

_ORDERS = 2


def _runs(asked: Questions, chosen: Callable[[Line], bool]) -> dict[Line, list[Tally]]:
    """What came of each line that is chosen, order by order."""
    found: dict[Line, list[Tally]] = {}
    for job in jobs(asked, Plan(budgets=(0.05,), erring=(0.05,))):
        if any(map(chosen, job.lines)):
            for seed in range(_ORDERS):
                for line, ran in zip(job.lines, played(job, seed), strict=True):
                    found.setdefault(line, []).append(ran.tally)
    return {line: runs for line, runs in found.items() if chosen(line)}


def _pooled(runs: Sequence[Tally]) -> Tally:
    """All orders as one."""
    return Tally(*(sum(getattr(run, f) for run in runs) for f in ("asked", "hits", "wrong")))


def _best_static(asked: Questions, allowed: Callable[[Tally], float]) -> float:
    """Hits of the best threshold in hindsight."""
    runs = _runs(asked, lambda line: line.rule == "static")
    pooled = map(_pooled, runs.values())
    return max([0.0, *(each.hit_share for each in pooled if each.wrong <= allowed(each))])


def _over(line: Line, runs: Sequence[Tally]) -> int:
    return sum(exceeds(run, line.setting, line.per) for run in runs)


@lru_cache(maxsize=1)
def _on_an_faq() -> dict[Line, list[Tally]]:
    return _runs(faq(450), lambda line: line.rule in {"askonce", "cosine"})


def test_on_an_faq_most_is_served_within_the_budget() -> None:
    """Hits by far more than cosine has under the same budget; as many wrong as allowed at most."""
    runs, line = _on_an_faq(), Line("askonce", 0.05)
    ours, cosine = _pooled(runs[line]), _pooled(runs[Line("cosine", 0.05)])
    assert ours.wrong <= 0.05 * ours.hits
    assert _over(line, runs[line]) == 0
    assert ours.hit_share >= 0.3
    assert ours.hits >= 1.4 * cosine.hits


def test_a_judge_that_errs_costs_hits_and_not_the_budget() -> None:
    """Five verdicts in a hundred are false."""
    line = Line("askonce", 0.05, errs=ERR)
    runs = _on_an_faq()[line]
    ours = _pooled(runs)
    assert ours.wrong <= 0.05 * ours.hits
    assert _over(line, runs) == 0


def test_look_alikes_are_told_apart() -> None:
    """Counted per request, at least twice what the best threshold serves in hindsight."""
    asked = look_alike(600)
    ((line, runs),) = _runs(asked, lambda line: line.per == "request").items()
    ours = _pooled(runs)
    static = _best_static(asked, lambda tally: 0.005 * tally.asked)
    assert ours.wrong <= 0.005 * ours.asked
    assert _over(line, runs) == 0
    assert ours.hit_share >= 2 * static
