"""The worker's half: blocks reach the engine's cache only when they are right, and none is held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kv.vllm.standins import FakePool

from askonce.kv.audit import Comparison
from askonce.kv.auditor import Auditor
from askonce.kv.vllm.carrier import Carrier
from askonce.kv.vllm.planner import Load, Plan
from askonce.testing import FakeClock
from askonce.units import Seconds

LAYERS, BLOCKS, PAGE = 3, 16, 64
NAMES = [bytes([index]) * 32 for index in range(8)]


class World:
    """A carrier, its pool and the engine's cache."""

    def __init__(self, *, staging_blocks: int = 8) -> None:
        self.pool = FakePool()
        self.clock = FakeClock()
        self.layers = [np.zeros((BLOCKS, PAGE), dtype=np.uint8) for _ in range(LAYERS)]
        size = LAYERS * PAGE
        self.auditor = Auditor(Comparison("float32"))
        self.carrier = Carrier(
            self.pool,  # type: ignore[arg-type]
            self.layers,
            staging_bytes=2 * staging_blocks * size,
            auditor=self.auditor,
            clock=self.clock,
        )

    def fill(self, block: int, value: int) -> None:
        for number, layer in enumerate(self.layers):
            layer[block] = value + number

    def holds(self, block: int, value: int) -> bool:
        return all((layer[block] == value + n).all() for n, layer in enumerate(self.layers))

    def store(
        self, blocks: list[int], epoch: int | None = 1, lives: list[Seconds | None] | None = None
    ) -> None:
        lives = [None] * len(blocks) if lives is None else lives
        self.carrier.store(Plan([], NAMES[: len(blocks)], blocks, epoch, lives, []))


@pytest.fixture
def world() -> World:
    """Room for eight blocks each way."""
    return World()


def test_what_was_stored_comes_back_layer_by_layer(world: World) -> None:
    """Into whatever blocks the engine gives."""
    world.fill(3, 10)
    world.fill(4, 20)
    world.store([3, 4])
    world.carrier.settle()
    world.carrier.load([Load("r", NAMES[:2], [9, 8])])
    assert world.carrier.settle().received == {"r"}
    assert world.holds(9, 10)
    assert world.holds(8, 20)
    assert world.carrier.held == 0


def test_what_is_audited_is_copied_and_handed_to_the_auditor(world: World) -> None:
    """Beside what is stored, and neither holds the engine's blocks."""
    world.fill(3, 10)
    world.fill(4, 20)
    world.carrier.store(Plan([], NAMES[:1], [3], 1, [None], [(NAMES[1], 4)]))
    world.fill(4, 99)
    world.carrier.settle()
    assert [key.hash for key in world.pool.audited] == NAMES[1:2]
    assert world.pool.stored[NAMES[1], 0][0] == 20
    assert world.carrier.held == 0


def test_a_block_may_be_overwritten_while_it_is_stored(world: World) -> None:
    """It was copied before, so preemption needs nothing."""
    world.pool.answers = False
    world.fill(3, 10)
    world.store([3])
    world.fill(3, 99)
    world.pool.answers = True
    world.carrier.settle()
    assert world.pool.stored[NAMES[0], 0][0] == 10


def test_a_job_has_blocks_of_one_life(world: World) -> None:
    """Where lives change, another job begins."""
    long, short = Seconds(90.0), Seconds(60.0)
    world.store([3, 4, 5, 6], lives=[long, long, short, None])
    world.carrier.settle()
    assert world.pool.lives == [(2, long), (1, short), (1, None)]
    assert len(world.pool.stored) == 4


@pytest.mark.parametrize(("blocks", "epoch"), [(9, 1), (1, None), (1, 2)])
def test_an_audit_that_cannot_be_handed_in_is_undone(
    world: World, blocks: int, epoch: int | None
) -> None:
    """For want of room or of a known epoch; the store has the blocks, so none is unstored."""
    audits = [(NAMES[0], block) for block in range(blocks)]
    world.carrier.store(Plan([], [], [], epoch, [], audits))
    assert (world.pool.undone, world.carrier.unstored_blocks) == (blocks, 0)
    assert not world.pool.jobs


def test_blocks_that_do_not_come_are_told_and_the_others_used(world: World) -> None:
    """The engine computes from the first of them on."""
    world.fill(3, 10)
    world.store([3])
    world.carrier.settle()
    world.carrier.load([Load("r", NAMES[:3], [7, 8, 9])])
    settled = world.carrier.settle()
    assert (settled.received, settled.failed, settled.bad_blocks) == ({"r"}, {"r"}, {8, 9})
    assert world.holds(7, 10)
    assert (world.carrier.loaded_blocks, world.carrier.lost_blocks) == (1, 2)


def test_an_idle_engine_waits_a_moment_for_blocks_and_takes_them_at_once(world: World) -> None:
    """With nothing to wait for, or other work, it does not."""
    world.fill(3, 10)
    world.store([3])
    world.carrier.settle(idle=True)
    world.carrier.load([Load("r", NAMES[:1], [7])])
    world.pool.answers = False
    world.carrier.settle()
    assert not world.pool.waited
    assert not world.carrier.settle(idle=True).received
    world.pool.wakes = True
    assert world.carrier.settle(idle=True).received == {"r"}
    assert len(world.pool.waited) == 2
    assert world.holds(7, 10)


def test_an_aborted_request_is_received_at_once_and_its_blocks_untouched(world: World) -> None:
    """What comes late goes nowhere."""
    world.fill(3, 10)
    world.store([3])
    world.carrier.settle()
    world.pool.answers = False
    world.carrier.load([Load("r", NAMES[:1], [7])])
    world.carrier.drop({"r", "unknown"})
    settled = world.carrier.settle()
    assert settled.received == {"r"}
    assert world.pool.aborted == ["r"]
    world.fill(7, 50)
    world.pool.answers = True
    assert world.carrier.settle().received == set()
    assert world.holds(7, 50)
    assert world.carrier.held == 0


def test_a_load_that_never_ends_is_given_up(world: World) -> None:
    """Past the pool's own deadline, should that fail."""
    world.pool.answers = False
    world.carrier.load([Load("r", NAMES[:2], [7, 8])])
    assert not world.carrier.settle().received
    world.clock.advance(world.pool.settings.load_deadline + 1)
    settled = world.carrier.settle()
    assert (settled.received, settled.bad_blocks) == ({"r"}, {7, 8})


def test_a_load_without_room_is_computed() -> None:
    """Staging memory that is full costs a miss, no wait."""
    world = World(staging_blocks=1)
    world.carrier.load([Load("r", NAMES[:2], [7, 8])])
    assert world.carrier.settle().bad_blocks == {7, 8}


@pytest.mark.parametrize("why", ["room", "unknown epoch", "another epoch"])
def test_what_cannot_be_stored_is_counted(why: str) -> None:
    """And nothing of it is under way."""
    world = World(staging_blocks=1 if why == "room" else 8)
    epochs: dict[str, Any] = {"room": 1, "unknown epoch": None, "another epoch": 2}
    world.store([1, 2], epochs[why])
    assert world.carrier.unstored_blocks == 2
    assert not world.pool.jobs
    assert world.carrier.held == 0


def test_storms_of_aborts_leak_no_room(world: World) -> None:
    """Ten thousand requests, aborted at every stage."""
    for number in range(10_000):
        world.pool.answers = number % 3 == 0
        name = f"r{number}"
        world.carrier.load([Load(name, NAMES[:2], [7, 8])])
        if number % 2:
            world.carrier.settle()
        world.carrier.drop({name})
        world.carrier.settle()
    world.pool.answers = True
    world.carrier.settle()
    assert world.carrier.held == 0
    assert not world.carrier.loading
