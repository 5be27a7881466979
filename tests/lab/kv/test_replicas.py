"""Replicas with their own caches, and routers."""

from __future__ import annotations

import pytest

from askonce.lab.kv.replicas import ROUTINGS, LocalCache, Routing, route
from askonce.lab.kv.traces import Request, Trace


def trace(*chains: tuple[int, ...]) -> Trace:
    """One request a second, of blocks of 10 tokens."""
    requests = tuple(
        Request(float(at), 10 * len(chain) + 1, 1, chain) for at, chain in enumerate(chains)
    )
    return Trace(name="made", block_tokens=10, requests=requests)


def test_a_full_cache_drops_the_ends_of_old_prefixes() -> None:
    """The least recent goes first, and of one prefix its tail."""
    cache = LocalCache(4)
    cache.take((1, 2, 3))
    cache.take((7, 8))
    assert cache.has((1, 2, 3)) == 2
    assert cache.has((7, 8)) == 2
    assert cache.has((9,)) == 0


def test_round_robin_spreads_a_session() -> None:
    """With two replicas, a prompt that comes twice misses both times."""
    routed = route(trace((1, 2), (1, 2), (1, 2)), 2, 1000, "round-robin")
    assert routed.replica == (0, 1, 0)
    assert routed.local == (0, 0, 2)


@pytest.mark.parametrize("routing", ["prefix-hash", "prefix-aware"])
def test_routers_that_know_prefixes_keep_a_session_together(routing: Routing) -> None:
    """The second request finds what the first one left."""
    routed = route(trace((1, 2, 3), (1, 2, 3, 4)), 2, 1000, routing)
    assert routed.local == (0, 3)


def test_the_least_loaded_replica_is_chosen() -> None:
    """A long prompt sends the next ones elsewhere until it is worked off."""
    long = Request(0.0, 100_000, 1, ())
    short = [Request(0.1 * turn, 10, 1, ()) for turn in range(1, 5)]
    made = Trace(name="made", block_tokens=10, requests=(long, *short))
    assert route(made, 2, 1000, "least-loaded").replica == (0, 1, 1, 1, 1)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_every_request_is_routed(routing: Routing) -> None:
    """To a replica that there is."""
    routed = route(trace(*[(turn,) for turn in range(50)]), 3, 1000, routing)
    assert set(routed.replica) <= {0, 1, 2}
    assert len(routed.local) == 50
