"""Lives of stored blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askonce.kv.figures import Tally
from askonce.kv.renewals import Renewals
from askonce.kv.transports.memory import MemoryTransport
from askonce.testing import FakeClock
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from askonce.kv.figures import Operation
    from askonce.kv.ports import Outcome

DAY = Seconds(86_400.0)


class World:
    """A store, and the renewals of a pool over it."""

    def __init__(self, most: Seconds | None = DAY) -> None:
        self.clock = FakeClock()
        self.said: Outcome | None = None
        self.tally = Tally()
        self.store = MemoryTransport(clock=self.clock, trouble=lambda *_: self.said)
        self.renewals = Renewals(
            self.store, self.tally, most=most, deadline=Seconds(1.0), clock=self.clock
        )

    def put(self, life: float) -> None:
        until = Seconds(self.clock.monotonic() + 1)
        self.store.put([b"k"], [b"h"], [b"p"], ttl=Seconds(life), deadline=until)

    def holds(self) -> bool:
        until = Seconds(self.clock.monotonic() + 1)
        return self.store.exists([b"k"], deadline=until) == ["done"]

    def counted(self) -> Mapping[tuple[Operation, str], int]:
        told = self.tally.figures(
            pinned=0, open_lookups=0, breaker="closed", epoch=1, epoch_age=0.0
        )
        return dict(told.blocks)


def test_a_life_is_prolonged_and_never_cut() -> None:
    """From the moment of the call on."""
    world = World()
    world.put(10.0)
    world.renewals.renew([b"k", b"none"], [Seconds(20.0)] * 2)
    world.clock.advance(15.0)
    assert world.holds()
    world.renewals.renew([b"k"], [Seconds(1.0)])
    world.clock.advance(4.0)
    assert world.holds()
    world.clock.advance(2.0)
    assert not world.holds()
    assert world.counted() == {("renew", "done"): 1, ("renew", "missing"): 2}


def test_no_life_is_longer_than_the_settings_allow() -> None:
    """A renewed one neither."""
    world = World(Seconds(30.0))
    assert world.renewals.life(Seconds(99.0)) == 30.0
    assert world.renewals.life(Seconds(9.0)) == 9.0
    assert world.renewals.life(None) == 30.0
    assert World(None).renewals.life(Seconds(99.0)) == 99.0
    world.put(10.0)
    world.renewals.renew([b"k"], [Seconds(99.0)])
    world.clock.advance(31.0)
    assert not world.holds()


def test_a_store_that_refuses_is_left_alone_for_a_minute() -> None:
    """By renewals that wait their turn as well; meanwhile blocks get as much life as any."""
    world = World()
    world.said = "refused"
    world.renewals.renew([b"k"], [Seconds(9.0)])
    assert not world.renewals.possible
    assert world.renewals.life(Seconds(9.0)) == DAY
    world.renewals.renew([b"k"], [Seconds(9.0)])
    assert world.counted() == {("renew", "refused"): 1}
    world.clock.advance(61.0)
    assert world.renewals.possible


@pytest.mark.parametrize("said", ["late", "down"])
def test_a_fault_is_counted_and_costs_nothing_else(said: Outcome) -> None:
    """The next renewal is tried."""
    world = World()
    world.said = said
    world.renewals.renew([b"k"], [Seconds(9.0)])
    assert world.renewals.possible
    assert world.counted() == {("renew", said): 1}


def test_what_a_transport_raises_is_caught() -> None:
    """And counted as an answer that is none."""
    world = World()

    def fail(*_: object) -> None:
        raise RuntimeError

    world.store._trouble = fail
    world.renewals.renew([b"k"], [Seconds(9.0)])
    assert world.counted() == {("renew", "broken"): 1}


def test_a_store_without_renewal_keeps_every_block_as_long() -> None:
    """Nothing is asked of it."""
    renewals = Renewals(object(), Tally(), most=DAY, deadline=Seconds(1.0))  # type: ignore[arg-type]
    renewals.renew([b"k"], [Seconds(9.0)])
    assert renewals.life(Seconds(9.0)) == DAY
