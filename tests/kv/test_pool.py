"""The pool never waits on its caller's thread, and every job ends once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from askonce.errors import StoreError
from askonce.kv.block import BlockKey
from askonce.kv.figures import METRICS
from askonce.kv.jobs import Job
from askonce.kv.pool import BlockPool, PoolSettings
from askonce.kv.shelf import ALL_OUTCOMES
from askonce.kv.transports.memory import MemoryTransport
from askonce.testing import FakeClock
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from askonce.kv.jobs import Finished, Lookup
    from askonce.kv.pool import Admits
    from askonce.kv.ports import Outcome

Trouble = Callable[[str, bytes], "Outcome | None"]
SPACE = b"n" * 32
SIZE = 256
PATIENT = PoolSettings(
    lookup_deadline=Seconds(5), load_deadline=Seconds(5), store_deadline=Seconds(5)
)
HASTY = PoolSettings(lookup_deadline=Seconds(0.05))


class Gate:
    """Trouble that can be switched: an outcome for some keys, or a call that hangs."""

    def __init__(self) -> None:
        self.said: dict[str, Outcome | None] = {}
        self.open = threading.Event()
        self.open.set()
        self.holds = "none"

    def __call__(self, name: str, key: bytes) -> Outcome | None:
        if b":epoch:" in key:
            return self.said.get("epoch")
        if name == self.holds:
            self.open.wait(5)
        return self.said.get(name)


def _keys(count: int = 4) -> list[BlockKey]:
    return [BlockKey(os.urandom(32)) for _ in range(count)]


def _views(count: int = 4) -> list[memoryview]:
    return [memoryview(bytearray(os.urandom(SIZE))) for _ in range(count)]


@contextmanager
def _pool(
    trouble: Trouble | None = None,
    settings: PoolSettings = PATIENT,
    transport: MemoryTransport | None = None,
    admits: Admits | None = None,
) -> Iterator[BlockPool]:
    """A pool that knows its epoch."""
    made = BlockPool(
        transport or MemoryTransport(trouble=trouble), SPACE, settings=settings, admits=admits
    )
    _until(lambda: made.epochs.current() is not None)
    try:
        yield made
    finally:
        assert made.close()


def _until(happens: Callable[[], object]) -> None:
    end = time.monotonic() + 5
    while not happens():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.0005)


def _answer(pool: BlockPool, lookup: Lookup) -> list[bool]:
    _until(lambda: pool.poll(lookup) is not None)
    answer = pool.poll(lookup)
    assert answer is not None
    return answer


def _ended(pool: BlockPool) -> Finished:
    found: list[Finished] = []

    def ended() -> bool:
        found.extend(pool.finished())
        return bool(found)

    _until(ended)
    assert len(found) == 1
    return found[0]


def _store(pool: BlockPool, keys: list[BlockKey], views: list[memoryview]) -> Finished:
    pool.submit_store(1, "r", keys, views)
    return _ended(pool)


def _load(pool: BlockPool, keys: list[BlockKey]) -> tuple[Finished, list[memoryview]]:
    views = [memoryview(bytearray(SIZE)) for _ in keys]
    pool.submit_load(2, "r", keys, views)
    return _ended(pool), views


def test_what_is_stored_is_found_and_loaded() -> None:
    """A block comes back as it was, and is counted."""
    with _pool() as pool:
        keys, views = _keys(), _views()
        assert _answer(pool, pool.begin_lookup("r", keys)) == [False] * 4
        assert _store(pool, keys, views).done == keys
        assert _answer(pool, pool.begin_lookup("r", keys)) == [True] * 4
        job, loaded = _load(pool, keys)
        assert (job.kind, job.request, job.size) == ("load", "r", 4 * SIZE)
        assert loaded == views
        assert _store(pool, keys, views).outcomes == ("present",) * 4
        figures = pool.figures()
        assert figures.bytes["load"] == 4 * SIZE
        assert {name for name, _, _ in figures.samples()} <= set(METRICS)
        assert {outcome for _, outcome in figures.blocks} <= set(ALL_OUTCOMES)


def test_a_lookup_is_answered_at_its_deadline() -> None:
    """Whatever the store does, and the answer stays a miss."""
    gate = Gate()
    with _pool(gate, HASTY) as pool:
        keys = _keys()
        _store(pool, keys, _views())
        pool._verdicts.forget()
        gate.holds = "exists"
        gate.open.clear()
        lookup = pool.begin_lookup("r", keys)
        assert pool.poll(lookup) is None
        assert _answer(pool, lookup) == [False] * 4
        gate.open.set()
        assert pool.poll(lookup) == [False] * 4
    assert pool.figures().blocks["lookup", "late"] == 4


def test_a_block_that_cannot_be_loaded_is_a_miss_from_then_on() -> None:
    """The store still says that it is there; a request that asks again is not told so."""
    gate = Gate()
    with _pool(gate) as pool:
        keys = _keys()
        _store(pool, keys, _views())
        assert _answer(pool, pool.begin_lookup("r", keys)) == [True] * 4
        gate.said["fetch"] = "late"
        assert _load(pool, keys)[0].outcomes == ("late",) * 4
        assert _answer(pool, pool.begin_lookup("r", keys)) == [False] * 4
        assert pool.figures().blocks["lookup", "failed_before"] == 4
        pool.mark_failed(_keys())


def test_a_flawed_block_is_counted_removed_and_replaced() -> None:
    """It is stored anew by whoever computes it next."""
    transport = MemoryTransport()
    with _pool(transport=transport) as pool:
        keys, views = _keys(1), _views(1)
        _store(pool, keys, views)
        (name,) = (key for key in transport._values if b":epoch:" not in key and key[-1:] != b"+")
        value, ends = transport._values[name]
        transport._values[name] = (value[:-1] + bytes([value[-1] ^ 1]), ends)
        assert _load(pool, keys)[0].outcomes == ("flaw_checksum",)
        assert pool.figures().flaws == {"checksum": 1}
        transport._values = type(transport._values)(
            {key: held for key, held in transport._values.items() if key[-1:] != b"+"}
        )
        assert _store(pool, keys, views).outcomes == ("done",)
        assert _load(pool, keys)[1] == views


def test_one_of_many_replicas_stores_a_block() -> None:
    """The others are told that it is being stored."""
    transport = MemoryTransport()
    with _pool(transport=transport) as pool:
        keys, epoch = _keys(1), pool.epochs.current()
        assert epoch is not None
        name = pool._shelf.names(keys, epoch)[0] + b"+"
        soon = Seconds(time.perf_counter() + 1)
        transport.put([name], [b"somebody"], [b""], ttl=Seconds(5), deadline=soon)
        assert _store(pool, keys, _views(1)).outcomes == ("claimed",)


def test_an_aborted_request_lets_go_of_what_waits() -> None:
    """Jobs that no thread is at end at once; the others by themselves."""
    gate = Gate()
    settings = PoolSettings(load_threads=1, load_deadline=Seconds(0.5))
    with _pool(gate, settings) as pool:
        gate.holds = "fetch"
        gate.open.clear()
        pool.submit_load(1, "a", _keys(), _views())
        pool.submit_load(2, "b", _keys(), _views())
        _until(lambda: any(j.state == "running" for j in pool._desk._jobs["a"]))
        for request in "ab":
            pool.begin_lookup(request, _keys())
            pool.abort(request)
        (ended,) = pool.finished()
        assert (ended.id, set(ended.outcomes)) == (2, {"cancelled"})
        assert pool.figures().pinned == 4
        gate.open.set()
        assert _ended(pool).id == 1
        assert pool.figures().pinned == 0


def test_a_job_that_waits_too_long_ends_late() -> None:
    """Without ever reaching a thread."""
    gate = Gate()
    settings = PoolSettings(load_threads=1, load_deadline=Seconds(0.5), depth=3)
    with _pool(gate, settings) as pool:
        gate.holds = "fetch"
        gate.open.clear()
        pool.submit_load(0, "r", _keys(1), _views(1))
        _until(lambda: any(j.state == "running" for j in pool._desk._jobs["r"]))
        for number in range(1, 4):
            pool.submit_load(number, "r", _keys(1), _views(1))
        found: dict[int, str] = {}

        def told() -> bool:
            found.update({job.id: job.outcomes[0] for job in pool.finished()})
            return len(found) > 2

        _until(told)
        assert found == {1: "late", 2: "late", 3: "busy"}
        gate.open.set()
        assert _ended(pool).outcomes == ("late",)


def test_invalidation_takes_everything_back() -> None:
    """Found before, missing after; and what was submitted before is not stored after."""
    gate = Gate()
    with _pool(gate) as pool:
        keys = _keys()
        _store(pool, keys, _views())
        gate.holds = "fetch"
        gate.open.clear()
        views = _views()
        pool.submit_load(5, "r", keys, views)
        _until(lambda: any(j.state == "running" for j in pool._desk._jobs["r"]))
        before = pool.epochs.current()
        gate.holds = "none"
        assert pool.invalidate() != before
        gate.open.set()
        assert _ended(pool).outcomes == ("stale",) * 4
        assert _answer(pool, pool.begin_lookup("r", keys)) == [False] * 4
        assert pool._store(_job_of(pool, keys, before), before or 0) == ["stale"] * 4


def _job_of(pool: BlockPool, keys: list[BlockKey], epoch: int | None) -> Job:
    now = Seconds(time.perf_counter())
    return Job(9, "store", "r", keys, _views(), epoch, now, Seconds(now + 1))


def test_without_an_epoch_nothing_is_served() -> None:
    """Nor stored."""
    gate = Gate()
    gate.said["epoch"] = "down"
    pool = BlockPool(MemoryTransport(trouble=gate), SPACE, settings=PATIENT)
    assert _answer(pool, pool.begin_lookup("r", _keys())) == [False] * 4
    assert _load(pool, _keys())[0].outcomes == ("stale",) * 4
    pool.mark_failed(_keys())
    with pytest.raises(StoreError):
        pool.invalidate()
    pool.close()


@pytest.mark.slow
def test_an_epoch_that_was_not_read_lately_is_good_enough_to_store_under() -> None:
    """What is there is not loaded meanwhile, and is once the epoch is known again."""
    gate, keys = Gate(), _keys()
    with _pool(gate) as pool:
        gate.said["epoch"] = "down"
        _until(lambda: pool.epochs.current() is None)
        _store(pool, keys, _views())
        assert _load(pool, keys)[0].outcomes == ("stale",) * 4
        gate.said.clear()
        _until(lambda: pool.epochs.current() is not None)
        assert _answer(pool, pool.begin_lookup("r", keys)) == [True] * 4


def test_a_store_that_fails_is_left_alone() -> None:
    """After some failures in a row nothing is asked, until one trial goes well."""
    gate = Gate()
    settings = PoolSettings(failures=2, cooldown=Seconds(0.05), found_life=Seconds(0))
    with _pool(gate, settings) as pool:
        gate.said["exists"] = "down"
        for _ in range(2):
            _answer(pool, pool.begin_lookup("r", _keys()))
        _until(lambda: pool.figures().breaker == "open")
        pool.begin_lookup("r", _keys())
        assert _load(pool, _keys())[0].outcomes == ("open",) * 4
        assert pool.figures().blocks["lookup", "open"] == 4
        gate.said.clear()

        def recovered() -> bool:
            _answer(pool, pool.begin_lookup("r", _keys()))
            return pool.figures().breaker == "closed"

        _until(recovered)


def test_a_full_queue_sheds() -> None:
    """Lookups beyond what may be under way are misses."""
    gate = Gate()
    with _pool(gate, PoolSettings(depth=1, lookup_threads=1)) as pool:
        gate.holds = "exists"
        gate.open.clear()
        pool.begin_lookup("r", _keys())
        assert pool.poll(pool.begin_lookup("r", _keys())) == [False] * 4
        assert pool.figures().blocks["lookup", "busy"] == 4
        gate.open.set()


def test_admission_is_asked() -> None:
    """What is not worth its bytes is not stored."""

    def first_only(keys: Sequence[BlockKey], sizes: Sequence[int]) -> list[bool]:
        return [key is keys[0] and size == SIZE for key, size in zip(keys, sizes, strict=True)]

    with _pool(admits=first_only) as pool:
        assert _store(pool, _keys(2), _views(2)).outcomes == ("done", "declined")


def test_a_transport_that_raises_costs_misses() -> None:
    """A bug in a third party's transport is no fault of the request."""
    gate = Gate()

    def explode(name: str, key: bytes) -> Outcome | None:
        if b":epoch:" in key:
            return None
        raise RuntimeError("a bug")

    del gate
    with _pool(explode, PoolSettings(failures=100)) as pool:
        assert _answer(pool, pool.begin_lookup("r", _keys())) == [False] * 4
        assert _load(pool, _keys())[0].outcomes == ("broken",) * 4
        assert _store(pool, _keys(), _views()).outcomes == ("broken",) * 4


def test_a_block_lives_as_long_as_it_is_told_unless_it_is_renewed() -> None:
    """Off the caller's thread, counted, and not while the store is left alone."""
    gate, clock = Gate(), FakeClock()
    with _pool(transport=MemoryTransport(clock=clock, trouble=gate)) as pool:
        keys, views = _keys(2), _views(2)
        pool.submit_store(1, "r", keys, views, ttl=Seconds(10.0))
        assert _ended(pool).done == keys
        assert pool.renews
        pool.renew(keys[:1], [Seconds(60.0)])
        pool.renew([], [])
        _until(lambda: pool.figures().calls.get("renew"))
        clock.advance(11.0)
        _until(lambda: _load(pool, keys)[0].outcomes == ("done", "missing"))
        assert pool.figures().blocks["renew", "done"] == 1
        gate.said["fetch"] = "down"
        for _ in range(3):
            _load(pool, keys)
        assert pool.figures().breaker == "open"
        pool.renew(keys, [Seconds(60.0)] * 2)
    assert pool.figures().calls["renew"] == 1
