"""The bench's arithmetic; nothing here is timed."""

from __future__ import annotations

import math

import pytest
from bench.report import as_json, number, table
from bench.stats import Bar, Report, Sample, percentile


def test_a_sample_tells_its_middle_and_its_ends() -> None:
    """The median of an even count lies between the two in the middle."""
    sample = Sample((4.0, 1.0, 3.0, 2.0))
    assert (sample.median, sample.low, sample.high) == (2.5, 1.0, 4.0)


def test_ratios_and_differences_pair_the_rounds() -> None:
    """Each round is compared with the same round of the other, not with its median."""
    ours, other = Sample((2.0, 9.0)), Sample((1.0, 3.0))
    assert ours.over(other).values == (2.0, 3.0)
    assert ours.minus(other).values == (1.0, 6.0)
    assert math.isnan(ours.over(Sample((0.0, 1.0))).values[0])
    with pytest.raises(ValueError, match="shorter"):
        ours.over(Sample((1.0,)))


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)]
)
def test_a_percentile_is_a_value_that_was_seen(share: float, expected: float) -> None:
    """The smallest value that this share of all does not exceed."""
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, share) == expected


def test_a_bar_looks_at_the_median() -> None:
    """A round on the wrong side does not miss it, and its limit clears it."""
    assert Bar(">=", 2).cleared_by(Sample((1.0, 2.0, 3.0)))
    assert Bar("<=", 2).cleared_by(Sample((1.0, 2.0, 3.0)))
    assert not Bar("<=", 2).cleared_by(Sample((1.0, 2.1, 3.0)))


def test_a_report_says_pass_and_miss() -> None:
    """People read the verdict, programs read every round."""
    report = Report("hits", "about them")
    report.add("fast", Sample((5.0,)), "/s", Bar(">=", 1))
    report.add("slow", Sample((0.5,)), "/s", Bar(">=", 1))
    report.add("seen", Sample((1.0, 3.0)), "us")
    report.notes.append("only here")
    text = table([report])
    verdicts = [line.split()[-1] for line in text.splitlines() if ">=" in line]
    assert verdicts == ["PASS", "MISS"]
    assert "note: only here" in text
    lines = as_json([report], "here")["reports"]["hits"]["lines"]
    assert [line.get("pass") for line in lines] == [True, False, None]
    assert lines[2]["rounds"] == [1.0, 3.0]


def test_numbers_keep_three_digits() -> None:
    """Enough to read, no more than was measured."""
    assert [number(value) for value in (0.123, 12.34, 123.4, 12345.6)] == [
        "0.12",
        "12.3",
        "123",
        "12,346",
    ]
