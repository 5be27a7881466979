"""Replicas over one real store share blocks, write each once, and forget together."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.servers.memcached import memcached
from tests.servers.redis import redis

from askonce.kv.block import BlockKey
from askonce.kv.pool import BlockPool, PoolSettings
from askonce.kv.transports.urls import open_transport
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.process import Server

    from askonce.kv.jobs import Finished

pytestmark = [pytest.mark.servers, pytest.mark.slow]

SIZE = 40_000
SETTINGS = PoolSettings(
    lookup_deadline=Seconds(1), load_deadline=Seconds(2), store_deadline=Seconds(2)
)


@pytest.fixture(params=["valkey", "memcached"])
def replicas(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Server, list[BlockPool]]]:
    """A store and two pools over it."""
    server = redis("valkey", tmp_path) if request.param == "valkey" else memcached(tmp_path)
    with server as running:
        pools = [
            BlockPool(open_transport(running.url), b"n" * 32, settings=SETTINGS) for _ in range(2)
        ]
        _until(lambda: all(pool.epochs.current() for pool in pools))
        yield running.server, pools
        for pool in pools:
            pool.close()


def _until(happens: Callable[[], object]) -> float:
    """Seconds until it does."""
    began = time.perf_counter()
    while not happens():
        assert time.perf_counter() - began < 10, "it does not happen"
        time.sleep(0.001)
    return time.perf_counter() - began


def _finished(pool: BlockPool) -> Finished:
    found: list[Finished] = []

    def ended() -> bool:
        found.extend(pool.finished())
        return bool(found)

    _until(ended)
    return found[0]


def _found(pool: BlockPool, keys: list[BlockKey]) -> list[bool]:
    lookup = pool.begin_lookup("r", keys)
    _until(lambda: pool.poll(lookup) is not None)
    return pool.poll(lookup) or []


def _blocks(count: int) -> tuple[list[BlockKey], list[memoryview]]:
    keys = [BlockKey(os.urandom(32)) for _ in range(count)]
    return keys, [memoryview(bytearray(os.urandom(SIZE))) for _ in keys]


def test_one_loads_what_the_other_stored(replicas: tuple[Server, list[BlockPool]]) -> None:
    """To the byte."""
    one, two = replicas[1]
    keys, blocks = _blocks(8)
    one.submit_store(1, "a", keys, blocks)
    assert _finished(one).done == keys
    assert _found(two, keys) == [True] * 8
    views = [memoryview(bytearray(SIZE)) for _ in keys]
    two.submit_load(2, "b", keys, views)
    assert _finished(two).done == keys
    assert views == blocks


def test_a_block_that_both_compute_is_written_once(
    replicas: tuple[Server, list[BlockPool]],
) -> None:
    """Each key by one of them."""
    for number in range(10):
        keys, blocks = _blocks(8)
        for pool in replicas[1]:
            pool.submit_store(number, "a", keys, blocks)
        told = [_finished(pool).outcomes for pool in replicas[1]]
        for both in zip(*told, strict=True):
            assert both.count("done") == 1, both


def test_all_forget_within_a_second(replicas: tuple[Server, list[BlockPool]]) -> None:
    """After one of them was told to, or when the store is gone."""
    server, (one, two) = replicas
    keys, blocks = _blocks(4)
    one.submit_store(1, "a", keys, blocks)
    _finished(one)
    assert _found(two, keys) == [True] * 4
    one.invalidate()
    assert _found(one, keys) == [False] * 4
    assert _until(lambda: _found(two, keys) == [False] * 4) < 1.2
    _until(lambda: two.epochs.current() == one.epochs.current())
    one.submit_store(2, "a", keys, blocks)
    _finished(one)
    assert _found(two, keys) == [True] * 4
    server.signal(signal.SIGSTOP)
    assert _until(lambda: two.epochs.current() is None) < 1.2
    assert _found(two, keys) == [False] * 4
    server.signal(signal.SIGCONT)
    _until(lambda: _found(two, keys) == [True] * 4)
