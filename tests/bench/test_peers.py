"""What the comparison with other caches asks, and how it counts what comes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from bench.peers import attacks
from bench.peers.engine import engine
from bench.peers.wordings import DIFFERENT, SAME, answers

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = attacks.pairs(1)
APART = [pair.name for pair in PAIRS if not pair.same]
ALIKE = [pair.name for pair in PAIRS if pair.same]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], object]], attacks.Toll]:
    """Attacks a cache that keeps answers by what a function makes of a request."""

    def attack(key: Callable[[Any], object]) -> attacks.Toll:
        kept: dict[object, str] = {}
        monkeypatch.setattr(attacks, "SETTLED", 0)
        monkeypatch.setattr(
            attacks, "ask", lambda _, body: kept.setdefault(key(body), str(len(kept)))
        )
        return attacks.attack(0, PAIRS)

    return attack


def test_a_cache_that_looks_at_messages_alone_is_wrong_wherever_they_are_equal(
    told: Callable[[Callable[[Any], object]], attacks.Toll],
) -> None:
    """Every pair that differs in another field is a wrong hit of it."""
    toll = told(lambda body: body["messages"][-1]["content"])
    assert toll.wrong == APART
    assert toll.right == ALIKE


def test_a_cache_that_looks_at_the_bytes_is_never_wrong_and_asks_twice(
    told: Callable[[Callable[[Any], object]], attacks.Toll],
) -> None:
    """The same request in other bytes costs it a second call."""
    toll = told(json.dumps)
    assert toll.wrong == []
    assert toll.right == APART
    assert toll.needless == ALIKE


@pytest.mark.slow
def test_no_cache_at_all_has_no_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is asked directly is found never to keep an answer."""
    monkeypatch.setattr(attacks, "SETTLED", 0)
    with engine({}) as port:
        toll = attacks.attack(port, PAIRS)
    assert toll.uncached == [pair.name for pair in PAIRS]


def test_the_engine_says_the_same_only_to_questions_that_ask_for_the_same() -> None:
    """A wrong hit by meaning shows in the answer."""
    told = answers()
    assert all(told[pair.cached] == told[pair.asked] for pair in SAME)
    assert len(set(told.values())) == 2 * len(DIFFERENT) + len(SAME)
