"""An audited store job finds blocks that are sealed rightly and hold something else."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from askonce.errors import StoreError
from askonce.kv import auditor as module
from askonce.kv.audit import Comparison, Record
from askonce.kv.auditor import Action, Auditor
from askonce.kv.block import HEADER_BYTES, BlockKey
from askonce.kv.pool import BlockPool, PoolSettings
from askonce.kv.transports.memory import MemoryTransport
from askonce.testing.clock import FakeClock
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from askonce.kv.jobs import Finished
    from askonce.kv.ports import Outcome

SPACE, VALUES = b"n" * 32, 512
PATIENT = PoolSettings(store_deadline=Seconds(5), load_deadline=Seconds(5))
DRAW = np.random.default_rng(1)


class World:
    """A pool over a store that misbehaves as it is told."""

    def __init__(self) -> None:
        self.said: dict[str, Outcome] = {}
        self.transport = MemoryTransport(trouble=self._trouble)
        self.pool = BlockPool(self.transport, SPACE, settings=PATIENT)
        _until(lambda: self.pool.epochs.current() is not None)

    def store(
        self, keys: list[BlockKey], views: list[memoryview], auditor: Auditor | None = None
    ) -> Finished:
        self.pool.submit_store(1, "r", keys, views, auditor=auditor)
        found: list[Finished] = []

        def ended() -> bool:
            found.extend(self.pool.finished())
            return bool(found)

        _until(ended)
        assert len(found) == 1
        return found[0]

    @property
    def record(self) -> Record:
        return self.pool.figures().audit

    def _trouble(self, name: str, key: bytes) -> Outcome | None:
        return None if b":epoch:" in key else self.said.get(name)


@contextmanager
def _opened() -> Iterator[World]:
    world = World()
    try:
        yield world
    finally:
        assert world.pool.close()


@pytest.fixture
def world() -> Iterator[World]:
    """With a store that is well."""
    with _opened() as opened:
        yield opened


def _until(happens: Callable[[], object]) -> None:
    end = time.monotonic() + 5
    while not happens():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.0005)


def _auditor(action: Action = "report") -> Auditor:
    return Auditor(Comparison("float32"), action=action)


def _keys(count: int) -> list[BlockKey]:
    return [BlockKey(os.urandom(32)) for _ in range(count)]


def _blocks(count: int) -> list[memoryview]:
    return [memoryview(bytearray(DRAW.normal(size=VALUES).astype("<f4"))) for _ in range(count)]


def test_what_is_right_agrees_and_what_is_absent_is_stored(world: World) -> None:
    """An audit is a store job that looks at what it would have left alone."""
    keys, blocks = _keys(3), _blocks(3)
    world.store(keys[:2], blocks[:2])
    ended = world.store(keys, blocks, _auditor())
    assert ended.outcomes == ("present", "present", "done")
    assert world.record == Record(agreed=2)


def test_without_an_auditor_nothing_is_fetched(world: World) -> None:
    """A store job leaves what is there alone."""
    keys, blocks = _keys(1), _blocks(1)
    world.store(keys, blocks)
    world.said["fetch"] = "down"
    assert world.store(keys, blocks).outcomes == ("present",)
    assert world.record == Record()


def test_a_wrong_block_is_counted_and_a_miss_from_then_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Its seal is good; the line in the log tells neither its key nor what it holds."""
    keys, blocks = _keys(2), _blocks(2)
    world.store(keys, [blocks[0], *_blocks(1)])
    with caplog.at_level(logging.ERROR):
        assert world.store(keys, blocks, _auditor()).outcomes == ("present", "present")
    assert (world.record.agreed, world.record.disagreed) == (1, 1)
    assert world.record.worst == world.record.errors > 0.5
    assert caplog.messages == ["1 stored KV blocks are not what this engine computes"]
    lookup = world.pool.begin_lookup("r", keys)
    _until(lambda: world.pool.poll(lookup) is not None)
    assert world.pool.poll(lookup) == [True, False]


def test_a_wrong_block_may_take_back_all(world: World) -> None:
    """Of the epoch in which it was found, once."""
    keys, blocks = _keys(2), _blocks(2)
    world.store(keys, _blocks(2))
    before = world.pool.epochs.current()
    world.store(keys, blocks, _auditor("invalidate"))
    _until(lambda: world.pool.epochs.current() not in {None, before})
    assert world.store(keys, blocks, _auditor("invalidate")).outcomes == ("done", "done")


def test_a_store_that_does_not_take_the_epoch_is_told_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """And this replica serves nothing old all the same."""

    def fail() -> int:
        raise StoreError("down")

    _auditor("invalidate").act(2, fail)
    assert "not told" in caplog.messages[1]


def test_it_takes_back_at_most_every_ten_minutes() -> None:
    """A writer who goes on is told in the log each time, and does not keep the store empty."""
    clock, made = FakeClock(), []

    def invalidate() -> int:
        made.append(clock.monotonic())
        return len(made)

    auditor = Auditor(Comparison("float32"), action="invalidate", clock=clock)
    for _ in range(13):
        auditor.act(1, invalidate)
        clock.advance(100)
    assert [round(at - made[0]) for at in made] == [0, 600, 1200]


@pytest.mark.parametrize("outcome", ["missing", "late"])
def test_what_cannot_be_fetched_is_an_audit_undone(world: World, outcome: Outcome) -> None:
    """A block that went away, or a store that is slow, says nothing about what it held."""
    keys, blocks = _keys(2), _blocks(2)
    world.store(keys, blocks)
    world.said["fetch"] = outcome
    world.store(keys, blocks, _auditor())
    assert world.record == Record(undone=2)


def test_a_store_that_is_gone_leaves_all_undone(world: World) -> None:
    """Nobody knows what was there."""
    world.said["exists"] = "down"
    world.store(_keys(3), _blocks(3), _auditor())
    assert world.record == Record(undone=3)


def test_many_blocks_are_fetched_a_few_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that an audit of a long prompt takes little memory."""
    monkeypatch.setattr(module, "_AT_ONCE", 2 * 4 * VALUES)
    keys, blocks = _keys(5), _blocks(5)
    world.store(keys, blocks)
    world.store(keys, blocks, _auditor())
    assert world.record == Record(agreed=5)


def test_a_flawed_block_is_counted_as_one(world: World) -> None:
    """Whether a load or an audit met it; it is removed, and says nothing about what it held."""
    keys, blocks = _keys(1), _blocks(1)
    world.store(keys, blocks)
    epoch = world.pool.epochs.current()
    assert epoch is not None
    (name,) = world.pool._shelf.names(keys, epoch)
    until = Seconds(time.monotonic() + 5)
    forged = [bytes(HEADER_BYTES)], [bytes(blocks[0])]
    world.transport.put([name], *forged, ttl=None, deadline=until, replace=True)
    world.store(keys, blocks, _auditor())
    assert world.record == Record(undone=1)
    assert sum(world.pool.figures().flaws.values()) == 1
    assert world.transport.exists([name], deadline=until) == ["missing"]


def test_what_was_found_while_the_epoch_was_not_known_is_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow store lets the reading grow old, which makes no wrong block right."""
    keys, blocks = _keys(1), _blocks(1)
    world.store(keys, _blocks(1))
    before, epochs = world.pool.epochs.current(), world.pool.epochs
    auditor = _auditor("invalidate")
    disagreeing = auditor.disagreeing

    def slow(*told: Any, **more: Any) -> list[BlockKey]:
        found = disagreeing(*told, **more)
        monkeypatch.setattr(epochs, "current", lambda: None)
        return found

    monkeypatch.setattr(auditor, "disagreeing", slow)
    world.store(keys, blocks, auditor)
    monkeypatch.undo()
    _until(lambda: epochs.current() not in {None, before})


def test_what_was_taken_back_meanwhile_is_not_taken_back_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that find wrong blocks at the same time make one new epoch."""
    keys, blocks = _keys(1), _blocks(1)
    world.store(keys, _blocks(1))
    auditor, made = _auditor("invalidate"), []
    disagreeing = auditor.disagreeing

    def beaten(*told: Any, **more: Any) -> list[BlockKey]:
        found = disagreeing(*told, **more)
        made.append(world.pool.invalidate())
        return found

    monkeypatch.setattr(auditor, "disagreeing", beaten)
    world.store(keys, blocks, auditor)
    assert world.record.disagreed == 1
    assert [world.pool.epochs.current()] == made


def test_blocks_of_no_size_agree(world: World) -> None:
    """There is nothing in them to differ."""
    keys, blocks = _keys(2), [memoryview(bytearray()) for _ in range(2)]
    world.store(keys, blocks)
    assert world.store(keys, blocks, _auditor()).outcomes == ("present", "present")
    assert world.record == Record(agreed=2)


def test_two_threads_that_disagree_at_once_take_blocks_back_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have decided before either acts."""
    both = threading.Barrier(2)
    monkeypatch.setattr(module._log, "error", lambda *_: both.wait(5.0))
    auditor = Auditor(Comparison("float32"), action="invalidate", clock=FakeClock())
    taken: list[int] = []

    def invalidate() -> int:
        taken.append(1)
        return 1

    threads = [threading.Thread(target=auditor.act, args=(1, invalidate)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken == [1]
