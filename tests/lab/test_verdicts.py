"""Promises against figures."""

from __future__ import annotations

import pytest

from askonce.lab.outcomes import Outcome
from askonce.lab.scoring import Tally
from askonce.lab.verdicts import (
    ERRING,
    PairRecall,
    StreamResult,
    SuiteReport,
    Timing,
    TrapRow,
    best_static,
    hits_at,
    interval,
    side_by_side,
    verdicts,
)


def outcome(rule: str, setting: float, hits: int, wrong: int, over: int = 0) -> Outcome:
    return Outcome(rule, setting, (Tally(1000, hits, wrong),), 0.8, over)


def kept(report: SuiteReport) -> dict[str, bool]:
    return {one.bar: one.kept for one in verdicts(report)}


def test_a_budget_is_kept_by_the_pool_and_by_the_runs() -> None:
    """Either too many wrong in all or too many runs beyond chance breaks it."""
    for wrong, over, pool, runs in ((8, 0, True, True), (12, 0, False, True), (8, 1, True, False)):
        stream = StreamResult("any", 9, 9, (outcome("askonce", 0.02, 500, wrong, over),))
        assert kept(SuiteReport("e", 1, (stream,))) == {
            "pooled <= 2 %": pool,
            "runs rejected by the exact test <= 5 %": runs,
        }


def test_an_erring_judge_is_told_apart() -> None:
    """Its budget has lines of its own."""
    stream = StreamResult("any", 9, 9, (), erring=(outcome("askonce", 0.02, 500, 30),))
    found = verdicts(SuiteReport("e", 1, (stream,)))
    assert [(one.about, one.kept) for one in found] == [(ERRING, False), (ERRING, True)]


def test_the_start_of_a_stream_is_judged_as_a_stream() -> None:
    """Too many wrong among the first questions are told, whatever comes later."""
    for wrong, held in ((1, True), (9, False)):
        early = (Tally(1000, 50, wrong),)
        one = Outcome("askonce", 0.02, (Tally(9000, 4000, 9),), 0.5, 0, early)
        found = kept(SuiteReport("e", 1, (StreamResult("any", 9, 9, (one,)),)))
        assert found["first 1,000: runs rejected <= 5 %"] is held


def test_a_share_has_an_interval() -> None:
    """Around the share, narrower with more; of nothing it says nothing."""
    low, high = interval(10, 1000)
    assert 0.005 < low < 0.01 < high < 0.02
    assert interval(0, 0) == (0.0, 1.0)
    assert interval(0, 100)[0] == 0.0


def test_an_faq_set_has_three_bars() -> None:
    """Overall, late, and the worst order."""
    one = Outcome("askonce", 0.02, (Tally(1000, 390, 0), Tally(1000, 700, 0)), 0.6, 0)
    found = kept(SuiteReport("e", 2, (StreamResult("banking77", 9, 9, (one,)),)))
    assert found["hits >= 50 %"]
    assert not found["last 2 k >= 70 %"]
    assert not found["worst of 2 orders >= 40 %"]
    assert not kept(SuiteReport("e", 2, (StreamResult("banking77", 9, 9, ()),)))


@pytest.mark.parametrize(
    ("hits", "wrong", "held"), [(220, 5, True), (190, 5, False), (300, 6, False)]
)
def test_a_look_alike_set_is_measured_per_request(*, hits: int, wrong: int, held: bool) -> None:
    """Twice the best static, and within five wrong answers per 1,000."""
    static = (outcome("static", 0.9, 400, 40), outcome("static", 0.97, 100, 5))
    per_request = (outcome("askonce", 0.005, hits, wrong),)
    stream = StreamResult("t2s_any", 9, 9, static, per_request)
    assert all(kept(SuiteReport("e", 1, (stream,))).values()) is held
    assert not kept(SuiteReport("e", 1, (StreamResult("t2s_any", 9, 9, static),)))


def test_the_best_static_is_within_the_budget() -> None:
    """By hit or by request; none within it is no hits."""
    static = (outcome("static", 0.9, 400, 40), outcome("static", 0.97, 100, 5))
    assert best_static(static, 0.1, per="hit") == 0.4
    assert best_static(static, 0.06, per="hit") == 0.1
    assert best_static(static, 0.01, per="hit") == 0.0
    assert best_static(static, 0.005, per="request") == 0.1


def test_rules_are_compared_at_equal_error() -> None:
    """AskOnce is read off its own curve where cosine's error is; too few hits are left out."""
    outcomes = (
        outcome("cosine", 0.01, 50, 0),
        outcome("cosine", 0.02, 200, 2),
        outcome("askonce", 0.02, 500, 10),
    )
    assert side_by_side(outcomes) == [(0.02, 1.25)]
    assert not side_by_side(outcomes[:2])
    assert hits_at([(0.01, 0.3), (0.02, 0.5)], 0.015) == pytest.approx(0.4)
    assert hits_at([(0.01, 0.3), (0.02, 0.5)], 0.5) == 0.5
    stream = StreamResult("any", 9, 9, outcomes)
    assert not kept(SuiteReport("e", 1, (stream,)))["2 %: hits >= 1.4x cosine, equal error"]


def test_traps_pairs_and_timing_have_bars() -> None:
    """Known traps by name, together only; recall against cosine; the slowest decisions."""
    report = SuiteReport(
        "e",
        1,
        traps=(
            TrapRow("fow", "rule", "", (1, 100), (60, 100)),
            TrapRow("fow", "rule", "number", (9, 10), (0, 10)),
            TrapRow("fow_conv_long", "rule", "", (1, 100), (90, 100)),
            TrapRow("other", "rule", "", (1, 100), (90, 100)),
            TrapRow("checklist", "rule", "", (0, 0), (0, 0)),
        ),
        recalls=(PairRecall("qqp", 9, 0.17, 0.31),),
        timing=Timing(9, 0.5, 1.3),
    )
    assert [one.kept for one in verdicts(report)] == [True, False, False, True, False]
