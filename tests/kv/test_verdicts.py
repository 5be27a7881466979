"""What failed to load is not believed to be there, whatever a lookup says."""

from __future__ import annotations

import pytest

from askonce.kv.block import BlockKey
from askonce.kv.verdicts import Verdicts
from askonce.testing import FakeClock
from askonce.units import Seconds

KEYS = [BlockKey(b"a" * 32), BlockKey(b"b" * 32)]


def test_each_verdict_has_its_life() -> None:
    """After it the store is asked again."""
    clock = FakeClock()
    verdicts = Verdicts(clock, found_life=Seconds(1), failed_life=Seconds(5))
    assert verdicts.recall(KEYS, 1) == [None, None]
    verdicts.seen(KEYS[:1], 1)
    verdicts.failed(KEYS[1:], 1)
    assert verdicts.recall(KEYS, 1) == [True, False]
    assert verdicts.recall(KEYS, 2) == [None, None]
    clock.advance(1)
    assert verdicts.recall(KEYS, 1) == [None, False]
    clock.advance(4)
    assert verdicts.recall(KEYS, 1) == [None, None]


def test_a_lookup_does_not_clear_a_failure_and_a_store_does() -> None:
    """A lookup that was under way when the load failed knows no better."""
    verdicts = Verdicts(FakeClock(), found_life=Seconds(1), failed_life=Seconds(5))
    verdicts.failed(KEYS, 1)
    verdicts.seen(KEYS, 1)
    assert verdicts.recall(KEYS, 1) == [False, False]
    verdicts.stored(KEYS[:1], 1)
    assert verdicts.recall(KEYS, 1) == [True, False]
    verdicts.forget()
    assert verdicts.recall(KEYS, 1) == [None, None]


@pytest.mark.parametrize("moment", [1, 2])
def test_a_failure_beside_a_lookup_is_not_lost(moment: int) -> None:
    """It may come while the lookup's answer is being noted, on another thread."""

    class Interrupted(FakeClock):
        def monotonic(self) -> Seconds:
            calls.append(None)
            if len(calls) == moment:
                verdicts.failed(KEYS, 1)
            return super().monotonic()

    calls: list[None] = []
    verdicts = Verdicts(Interrupted(), found_life=Seconds(1), failed_life=Seconds(5))
    verdicts.seen(KEYS, 1)
    assert verdicts.recall(KEYS, 1) == [False, False]
