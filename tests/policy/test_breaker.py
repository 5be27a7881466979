"""When a failing part is left alone."""

from __future__ import annotations

import pytest

from askonce.policy.breaker import Breaker
from askonce.testing.clock import FakeClock
from askonce.units import Seconds


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock()


@pytest.fixture
def breaker() -> Breaker:
    """Opens at the third failure, for ten seconds."""
    return Breaker(failures=3, cooldown=Seconds(10))


def break_it(breaker: Breaker, clock: FakeClock) -> None:
    """Fail as often as it takes."""
    for _ in range(3):
        breaker.failed(clock.monotonic(), began=clock.monotonic())


def test_it_starts_closed(breaker: Breaker, clock: FakeClock) -> None:
    """Before any failure every call may be made."""
    assert breaker.state == "closed"
    assert breaker.allows(clock.monotonic())


def test_it_opens_at_the_limit(breaker: Breaker, clock: FakeClock) -> None:
    """The failure that reaches the limit opens it, none before."""
    for _ in range(2):
        breaker.failed(clock.monotonic(), began=clock.monotonic())
        assert breaker.state == "closed"
    breaker.failed(clock.monotonic(), began=clock.monotonic())
    assert breaker.state == "open"
    assert not breaker.allows(clock.monotonic())


def test_only_failures_in_a_row_count(breaker: Breaker, clock: FakeClock) -> None:
    """A success between failures starts the count anew."""
    for _ in range(5):
        breaker.failed(clock.monotonic(), began=clock.monotonic())
        breaker.failed(clock.monotonic(), began=clock.monotonic())
        breaker.succeeded()
    assert breaker.state == "closed"


def test_one_trial_after_the_cooldown(breaker: Breaker, clock: FakeClock) -> None:
    """When the cooldown is over one call is let through, and no other beside it."""
    break_it(breaker, clock)
    clock.advance(9.9)
    assert not breaker.allows(clock.monotonic())
    clock.advance(0.1)
    assert breaker.allows(clock.monotonic())
    assert breaker.state == "half_open"
    assert not breaker.allows(clock.monotonic())


def test_a_good_trial_closes(breaker: Breaker, clock: FakeClock) -> None:
    """A trial that works closes it, with all its failures forgiven."""
    break_it(breaker, clock)
    clock.advance(10)
    assert breaker.allows(clock.monotonic())
    breaker.succeeded()
    assert breaker.state == "closed"
    breaker.failed(clock.monotonic(), began=clock.monotonic())
    assert breaker.state == "closed"


def test_a_bad_trial_opens_again(breaker: Breaker, clock: FakeClock) -> None:
    """A trial that fails opens it for another whole cooldown."""
    break_it(breaker, clock)
    clock.advance(10)
    assert breaker.allows(clock.monotonic())
    breaker.failed(clock.monotonic(), began=clock.monotonic())
    assert breaker.state == "open"
    clock.advance(9.9)
    assert not breaker.allows(clock.monotonic())
    clock.advance(0.1)
    assert breaker.allows(clock.monotonic())


def test_an_abandoned_trial_lets_the_next_one_try(breaker: Breaker, clock: FakeClock) -> None:
    """A trial whose caller left says nothing: the next call is the trial."""
    break_it(breaker, clock)
    clock.advance(10)
    assert breaker.allows(clock.monotonic())
    breaker.abandoned()
    assert breaker.state == "open"
    assert breaker.allows(clock.monotonic())


def test_failures_side_by_side_count_once(breaker: Breaker, clock: FakeClock) -> None:
    """Calls that were under way when another one failed add nothing to its failure."""
    began = clock.monotonic()
    clock.advance(1)
    for _ in range(10):
        breaker.failed(clock.monotonic(), began=began)
        clock.advance(0.1)
    states = [breaker.state]
    for _ in range(2):
        began = clock.monotonic()
        clock.advance(1)
        breaker.failed(clock.monotonic(), began=began)
        states.append(breaker.state)
    assert states == ["closed", "closed", "open"]


def test_a_late_failure_neither_helps_nor_harms(breaker: Breaker, clock: FakeClock) -> None:
    """A call from before it opened that fails after moves no trial, and ends none."""
    began = clock.monotonic()
    clock.advance(1)
    break_it(breaker, clock)
    clock.advance(9)
    breaker.failed(clock.monotonic(), began=began)
    clock.advance(1)
    assert breaker.allows(clock.monotonic())
    breaker.failed(clock.monotonic(), began=began)
    assert breaker.state == "half_open"
    assert not breaker.allows(clock.monotonic())
