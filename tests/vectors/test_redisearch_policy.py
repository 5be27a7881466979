"""How RediSearch is told to look through a partition."""

from __future__ import annotations

from askonce.testing import FakeClock
from askonce.vectors.redisearch_policy import Policy, tuning


def test_only_a_crowd_is_searched_by_the_graph() -> None:
    """A small partition, or one among many, is left to the server's own choice."""
    policy = Policy(FakeClock())
    assert policy.learn(b"small", 999, 1000) == 0.0
    assert policy.learn(b"one of many", 1_500, 10_000) == 0.0
    assert policy.learn(b"crowd", 5_000, 10_000) == 0.5
    assert "BATCHES" not in tuning(0.0, 10)
    assert "BATCHES BATCH_SIZE 80 " in tuning(0.5, 10)


def test_sizes_are_known_for_a_minute() -> None:
    """Then they are asked for again."""
    clock = FakeClock()
    policy = Policy(clock)
    assert policy.share(b"a") is None
    policy.learn(b"a", 5_000, 10_000)
    assert policy.share(b"a") == 0.5
    clock.advance(61.0)
    assert policy.share(b"a") is None


def test_memory_is_bounded() -> None:
    """Very many partitions are forgotten together."""
    policy = Policy(FakeClock())
    for number in range(5_000):
        policy.learn(number.to_bytes(2, "big"), 1, 1)
    assert len(policy._known) < 5_000
