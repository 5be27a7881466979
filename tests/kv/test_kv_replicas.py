"""Replicas over one real store share blocks, write each once, and forget together."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.servers.memcached import memcached
from tests.servers.redis import redis

from askonce.clock import SystemClock
from askonce.kv.admission import Admission, Limits
from askonce.kv.block import BlockKey
from askonce.kv.board import Board
from askonce.kv.hearsay import Hearsay
from askonce.kv.pool import BlockPool, PoolSettings
from askonce.kv.reuse import COUNTS
from askonce.kv.transports.urls import open_transport
from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.process import Server

    from askonce.kv.jobs import Finished

pytestmark = [pytest.mark.servers, pytest.mark.slow]

SIZE = 40_000
LIMITS = Limits(budget=Bytes(10**6), block_bytes=Bytes(1))
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


def _listener(url: str, secret: bytes) -> tuple[Admission, Hearsay]:
    """A replica that has seen nothing."""
    admission, clock, every = Admission(LIMITS), SystemClock(), Seconds(5.0)
    board = Board(open_transport(url), b"n" * 32, clock, secret=secret, every=every)
    return admission, Hearsay(admission, board, clock, every=every)


@pytest.mark.parametrize("secret", [b"", b"s" * 16], ids=["open", "sealed"])
@pytest.mark.parametrize("kind", ["valkey", "redis7", "memcached"])
def test_replicas_hear_what_the_others_saw(kind: str, secret: bytes, tmp_path: Path) -> None:
    """On every store; a store that is killed costs a turn its deadline and no more."""
    store = memcached(tmp_path) if kind == "memcached" else redis(kind, tmp_path)  # type: ignore[arg-type]
    with store as running:
        replicas = [_listener(running.url, secret) for _ in range(3)]
        stranger, strangers = _listener(running.url, b"another secret, and longer")
        for number, (admission, _) in enumerate(replicas):
            admission.see([1000 + number, 2000 + number], Seconds(0.0))
        stranger.see([1000], Seconds(0.0))
        for _ in range(2):
            strangers.turn()
            for _, hearsay in replicas:
                hearsay.turn()
        for admission, _ in replicas:
            seen = admission.see([1000, 1001, 1002], Seconds(0.0)).classes
            assert [each % COUNTS for each in seen] == [1, 1, 1]
        running.server.kill()
        for _, hearsay in replicas:
            began = time.perf_counter()
            hearsay.turn()
            assert time.perf_counter() - began < 1.5
            told = {labels[0]: value for _, labels, value in hearsay.samples()}
            assert (told["posted"], told["lost"]) == (1, 1)
            assert told["read"] == 2
            assert told["unreadable"] == 1
        for each in (strangers, *(hearsay for _, hearsay in replicas)):
            each.close()


def test_blocks_live_as_long_as_they_are_told(replicas: tuple[Server, list[BlockPool]]) -> None:
    """And longer when they are renewed, where the store can do that."""
    one, two = replicas[1]
    able = hasattr(one._transport, "renew")
    keys, blocks = _blocks(3)
    one.submit_store(1, "a", keys, blocks, ttl=Seconds(1.5))
    assert _finished(one).done == keys
    two.renew(keys[:2], [Seconds(60.0), Seconds(0.2)])
    if able:
        _until(lambda: two.figures().calls.get("renew"))
    time.sleep(2.1)
    assert _found(two, keys) == ([True, False, False] if able else [True] * 3)
