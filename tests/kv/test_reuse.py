"""The reuse profile: rate, chance and time of each class."""

from __future__ import annotations

import pytest

from askonce.kv.reuse import CLASSES, ReuseProfile
from askonce.units import Seconds

HOUR = Seconds(3600.0)


def test_rate_and_chance_are_what_happened() -> None:
    """A hundred blocks in ten seconds, half of which come again, are told so."""
    profile = ReuseProfile(half_life=HOUR)
    profile.note(range(100), [0] * 100, Seconds(0.0))
    profile.note(range(50), [1] * 50, Seconds(8.0))
    profile.age(10.0)
    assert profile.rates()[:2] == pytest.approx([10.0, 5.0])
    assert profile.chance(0) == pytest.approx(0.5, abs=0.02)
    assert profile.gap(0) == pytest.approx(8.0)


def test_nothing_is_told_of_classes_never_seen() -> None:
    """Rates are 0, no gap is known, and chances lie in between."""
    profile = ReuseProfile(half_life=HOUR)
    assert profile.rates() == [0.0] * CLASSES
    assert profile.gap(3) == 0.0
    assert 0.2 < profile.chance(3) < 0.8
    assert profile.reuse_time() is None


def test_the_reuse_time_covers_three_of_four() -> None:
    """It is told to a quarter of a doubling, and hot blocks do not count."""
    profile = ReuseProfile(half_life=HOUR)
    profile.note(range(40), [0] * 40, Seconds(0.0))
    profile.note(range(30), [1] * 30, Seconds(100.0))
    profile.note(range(30, 40), [1] * 10, Seconds(900.0))
    for second in range(901, 1000):
        profile.note([1000], [5], Seconds(float(second)))
    told = profile.reuse_time()
    assert told is not None
    assert 100 <= told <= 120


def test_what_was_measured_fades() -> None:
    """After a half-life old counts weigh half, and chances forget."""
    profile = ReuseProfile(half_life=Seconds(10.0))
    profile.note(range(1000), [0] * 1000, Seconds(0.0))
    low = profile.chance(0)
    for _ in range(12):
        profile.age(10.0)
    assert low < 0.01
    assert profile.chance(0) > 0.3


def test_a_full_sample_stands_for_more() -> None:
    """When too many blocks are alive, half the hashes are left out and rates stay true."""
    profile = ReuseProfile(half_life=HOUR, most=1000)
    numbers = [number * 0x9E3779B97F4A7C15 % (1 << 64) for number in range(8000)]
    profile.note(numbers, [0] * 8000, Seconds(0.0))
    profile.note(numbers, [1] * 8000, Seconds(5.0))
    profile.age(10.0)
    assert profile.sampled <= 0.25
    assert profile.rates()[1] == pytest.approx(800.0, rel=0.2)
    assert profile.chance(0) > 0.8


def test_blocks_that_never_came_again_make_room() -> None:
    """A block not seen for an hour is forgotten before the sample is made smaller."""
    profile = ReuseProfile(half_life=HOUR, most=100)
    profile.note(range(100), [0] * 100, Seconds(0.0))
    profile.note(range(200, 260), [0] * 60, Seconds(4000.0))
    assert profile.sampled == 1.0
