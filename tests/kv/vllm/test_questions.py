"""A scheduler that asks key by key gets one round trip for each request, and always an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kv.vllm.standins import FakePool

from askonce.kv.vllm.questions import Questions, block_key
from askonce.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.block import BlockKey

KEYS = [bytes([index]) * 32 + (1).to_bytes(4, "big") for index in range(4)]


@pytest.fixture
def pool() -> FakePool:
    """It holds the first two blocks."""
    return FakePool({(key[:-4], 1): b"x" for key in KEYS[:2]})


@pytest.fixture
def clock() -> FakeClock:
    """It stands still."""
    return FakeClock()


@pytest.fixture
def questions(pool: FakePool, clock: FakeClock) -> Questions:
    """Nobody has asked."""
    return Questions(pool, clock)  # type: ignore[arg-type]


def test_all_keys_of_a_step_are_one_lookup(pool: FakePool, questions: Questions) -> None:
    """They are sent at its end, and answered after it."""
    assert [questions.ask("r", key) for key in KEYS] == [None] * 4
    questions.send()
    assert [questions.ask("r", key) for key in KEYS] == [True, True, False, False]
    assert [list(keys) for keys in pool.asked] == [[block_key(key) for key in KEYS]]


def test_a_key_that_is_never_sent_is_a_miss(questions: Questions, clock: FakeClock) -> None:
    """Even if the engine forgets to end its step, no request waits past the deadline."""
    assert questions.ask("r", KEYS[0]) is None
    clock.advance(0.06)
    assert questions.ask("r", KEYS[0]) is False


def test_a_failed_load_is_a_miss_for_all_who_asked(questions: Questions) -> None:
    """What a lookup has said before does not count any more."""
    for request in ("a", "b"):
        questions.ask(request, KEYS[0])
    questions.send()
    assert [questions.ask(request, KEYS[0]) for request in ("a", "b")] == [True, True]
    questions.failed([KEYS[0]])
    assert [questions.ask(request, KEYS[0]) for request in ("a", "b")] == [False, False]


def test_an_ended_request_is_forgotten(pool: FakePool, questions: Questions) -> None:
    """Its lookups are given up, once."""
    questions.ask("r", KEYS[0])
    questions.end("r")
    questions.end("r")
    questions.end("unknown")
    assert questions.open == 0
    assert pool.aborted == ["r"]


def test_after_a_reset_everything_is_asked_anew(questions: Questions) -> None:
    """What was there may be there no more."""
    questions.ask("r", KEYS[0])
    questions.send()
    assert questions.ask("r", KEYS[0]) is True
    questions.forget()
    assert questions.ask("r", KEYS[0]) is None


def test_what_is_not_worth_it_is_a_miss_for_all_of_the_request(
    pool: FakePool, clock: FakeClock
) -> None:
    """Asked once for each answer, whichever key the scheduler asks for first."""
    weighed = []

    def worth(request: str, keys: Sequence[BlockKey], answer: Sequence[bool]) -> bool:
        weighed.append((request, len(keys), list(answer)))
        return request == "rich"

    questions = Questions(pool, clock, worth)  # type: ignore[arg-type]
    for name in ("rich", "poor"):
        for key in KEYS:
            assert questions.ask(name, key) is None
    questions.send()
    assert [questions.ask("rich", key) for key in reversed(KEYS)] == [False, False, True, True]
    assert [questions.ask("poor", key) for key in KEYS] == [False] * 4
    assert weighed == [
        ("rich", 4, [True, True, False, False]),
        ("poor", 4, [True, True, False, False]),
    ]
