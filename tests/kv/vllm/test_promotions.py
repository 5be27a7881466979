"""The tier's loads: decided in one go for a request, measured job by job, settled once."""

from __future__ import annotations

import pytest
from tests.kv.vllm.standins import FakePool

from askonce.kv.audit import Sample
from askonce.kv.block import BlockKey
from askonce.kv.curves import Curve
from askonce.kv.vllm.economy import Economy, Shape
from askonce.kv.vllm.promotions import Promotions
from askonce.testing import FakeClock

SIZE = 1_000_000
SHAPE = Shape(32, SIZE, 1)
KEYS = [BlockKey(bytes([index]) * 32, 0) for index in range(10)]
SLOW = Curve(name="slow", fixed=0.0, per_token=0.001, per_square=0.0)
FAST = Curve(name="fast", fixed=0.0, per_token=0.000_001, per_square=0.0)


class World:
    """A tier's loads of an engine with such prefills, from a store that has all keys."""

    def __init__(self, curve: Curve, audit: Sample | None = None) -> None:
        self.pool = FakePool({(key.hash, key.group): b"x" * SIZE for key in KEYS})
        self.clock = FakeClock()
        self.economy = Economy(SHAPE, self.clock, timed=False, curve=curve, audit=audit)
        self.promotions = Promotions(self.pool, self.economy, SHAPE)  # type: ignore[arg-type]

    def load(self, job: int, keys: list[BlockKey]) -> None:
        views = [memoryview(bytearray(SIZE)) for _ in keys]
        self.promotions.begin(job, "a", len(keys) * SIZE)
        self.pool.submit_load(job, "a", keys, views)

    def settle(self) -> list[bool]:
        return [self.promotions.end(each) for each in self.pool.finished()]


def test_what_pays_is_loaded_and_settled_when_its_last_job_ends() -> None:
    """In two jobs, of which the ledger makes one load."""
    world = World(SLOW)
    assert world.promotions.worth("a", KEYS, [True] * 8 + [False] * 2)
    world.load(1, KEYS[:4])
    world.load(2, KEYS[4:8])
    world.clock.advance(0.01)
    assert world.settle() == [True, True]
    told = world.economy.ledger
    assert (told.loads, told.lost, told.bytes_read) == (1, 0, 8 * SIZE)
    assert told.saved_seconds == pytest.approx(8 * 32 * 0.001 - 0.01, rel=0.05)
    world.load(3, KEYS[:1])
    assert world.settle() == [True]
    assert told.loads == 1


def test_what_was_lost_on_the_way_is_wasted() -> None:
    """A job that lacks a block spoils the load, however good the others were."""
    world = World(SLOW)
    world.promotions.worth("a", KEYS, [True] * 10)
    del world.pool.stored[KEYS[1].hash, 0]
    world.load(1, KEYS[:5])
    world.load(2, KEYS[5:])
    assert world.settle() == [True, True]
    assert world.economy.ledger.bytes_wasted == 10 * SIZE


def test_what_does_not_pay_is_left_and_probed_at_times() -> None:
    """A probe is nobody's job, and teaches that the store is fast now."""
    world = World(FAST)
    world.pool.seconds = 0.0
    said = [world.promotions.worth(f"r{number}", KEYS, [True] * 10) for number in range(64)]
    assert not any(said)
    assert world.settle() == [False]
    assert world.economy.ledger.refused == 64


def test_an_audited_hit_is_a_miss_until_its_request_ends() -> None:
    """What it computes is held against what was found."""
    world = World(SLOW, Sample(1.0, lambda: 0.5))
    assert not world.promotions.worth("a", KEYS, [True] * 10)
    assert world.promotions.worth("b", KEYS, [False] * 10)
    assert (world.promotions.audits("a"), world.promotions.audits("b")) == (True, False)
    world.promotions.forget("a")
    assert not world.promotions.audits("a")


def test_nothing_found_is_nothing_to_decide() -> None:
    """Nor is anything remembered of a request that ended first."""
    world = World(SLOW)
    assert world.promotions.worth("a", KEYS, [False] * 10)
    assert world.promotions.worth("a", KEYS, [True] * 10)
    world.promotions.forget("a")
    world.load(1, KEYS)
    assert world.settle() == [True]
    assert world.economy.ledger.loads == 0
