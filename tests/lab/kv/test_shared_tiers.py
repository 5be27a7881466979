"""What a shared store holds under each policy."""

from __future__ import annotations

import pytest

from askonce.lab.kv.replicas import Routed, route
from askonce.lab.kv.synthetic import chat
from askonce.lab.kv.tiers import POLICIES, Content, Policy, Shared, replay
from askonce.lab.kv.traces import Request, Trace

BYTES = 131_072


def quiet() -> None:
    """No progress."""


def run(
    chains: list[tuple[int, ...]], policy: Policy, blocks: int, rate: float = float("inf")
) -> Content:
    """Requests a second apart that no replica has anything of."""
    requests = tuple(Request(float(at), 99, 1, chain) for at, chain in enumerate(chains))
    trace = Trace(name="made", block_tokens=10, requests=requests)
    routed = Routed((0,) * len(chains), (0,) * len(chains))
    shared = Shared(budget=blocks, block_bytes=1, replicas=1, write_rate=rate)
    return replay(trace, routed, policy, shared, quiet)


def test_without_a_tier_nothing_is_found() -> None:
    """Nor written."""
    content = run([(1, 2), (1, 2)], "none", 10)
    assert (sum(content.found), sum(content.written)) == (0, 0)


def test_storing_everything_finds_what_fits() -> None:
    """The oldest goes first."""
    content = run([(1, 2), (1, 2), (5, 6), (7, 8), (1, 2)], "lru", 4)
    assert content.found == (0, 2, 0, 0, 0)
    assert content.written == (2, 0, 2, 2, 2)


def test_a_second_sight_is_waited_for() -> None:
    """A block is stored when it is seen again, and found the third time."""
    content = run([(1, 2), (1, 2), (1, 2)], "second-sight", 4)
    assert content.found == (0, 0, 2)
    assert content.written == (0, 2, 0)


def test_the_clairvoyant_stores_what_will_be_read() -> None:
    """With room for two blocks it waits out everything else."""
    content = run([(1, 2), (3, 4), (5, 6), (7, 8), (1, 2)], "clairvoyant", 2)
    assert content.found[-1] == 2
    assert sum(content.written) == 2


def test_the_clairvoyant_prefers_what_is_read_sooner() -> None:
    """Room for one: the block that comes back first is kept."""
    content = run([(1,), (2,), (2,), (1,)], "clairvoyant", 1)
    assert content.found == (0, 0, 1, 0)
    assert sum(run([(1,), (2,), (1,), (2,)], "clairvoyant", 1).found) == 1


@pytest.mark.parametrize("policy", ["lru", "clairvoyant", "askonce", "askonce-alone"])
def test_writes_that_the_link_cannot_take_are_dropped(policy: Policy) -> None:
    """The heads of prefixes go first, the rest is counted."""
    content = run([(1, 2, 3, 4, 5, 6)] * 2, policy, 10, rate=1.0)
    assert content.written[0] == 4
    assert content.found[1] == 4
    assert content.dropped > 0


@pytest.mark.slow
def test_admission_finds_twice_as_much_for_a_third_of_the_writes() -> None:
    """On a chat trace with a tight store; and the clairvoyant is never beaten."""
    trace = chat(4000)
    routed = route(trace, 4, 500_000, "round-robin")
    shared = Shared(budget=600 * BYTES * 512, block_bytes=BYTES * 512, replicas=4)
    found, written = {}, {}
    for policy in POLICIES:
        content = replay(trace, routed, policy, shared, quiet)
        found[policy], written[policy] = sum(content.found), sum(content.written)
    assert found["askonce"] >= 2 * found["lru"]
    assert 3 * written["askonce"] <= written["lru"]
    assert found["askonce"] > 1.2 * found["askonce-alone"]
    assert found["clairvoyant"] >= max(found.values())
