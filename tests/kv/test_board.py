"""The board in the store where replicas leave pages for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askonce.kv.block import HEADER_BYTES
from askonce.kv.board import SLOTS, Board
from askonce.kv.sights import PAGE_BYTES
from askonce.kv.transports.memory import MemoryTransport
from askonce.testing import FakeClock
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from askonce.kv.ports import Outcome

SPACE = b"n" * 32
EVERY = Seconds(5.0)


class World:
    """A store with a clock, and what goes wrong with it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.said: dict[str, Outcome] = {}
        self.once: Iterator[Outcome] = iter(())
        """What the next puts come to."""
        self.calls: list[str] = []
        self.store = MemoryTransport(clock=self.clock, trouble=self.trouble)

    def trouble(self, name: str, key: bytes) -> Outcome | None:
        assert len(key) <= 240
        if not self.calls or self.calls[-1] != name:
            self.calls.append(name)
        return next(self.once, None) if name == "put" and not self.said else self.said.get(name)

    def board(self, *, space: bytes = SPACE, secret: bytes = b"", late: float = 0.0) -> Board:
        clock = FakeClock(self.clock.now() + late) if late else self.clock
        return Board(self.store, space, clock, secret=secret, every=EVERY)

    def names(self) -> list[bytes]:
        return [name for name in self.store._values if b":sights:" in name]

    def spoil(self, value: bytes, *, name: bytes | None = None) -> None:
        """Put it where a page is."""
        name = name or self.names()[0]
        until = Seconds(self.clock.monotonic() + 1)
        self.store.put([name], [value], [b""], ttl=None, deadline=until, replace=True)


@pytest.fixture
def world() -> World:
    """Empty."""
    return World()


def page(byte: bytes) -> bytes:
    """One of a single letter."""
    return byte * PAGE_BYTES


def test_each_reads_what_the_others_put_up_once(world: World) -> None:
    """And nobody what is their own."""
    one, two, three = (world.board() for _ in range(3))
    assert one.swap([page(b"a"), page(b"b")]) == []
    assert sorted(two.swap([page(b"c")])) == [page(b"a"), page(b"b")]
    assert sorted(three.swap([])) == [page(b"a"), page(b"b"), page(b"c")]
    world.clock.advance(EVERY)
    assert one.swap([]) == [page(b"c")]
    assert two.swap([]) == three.swap([]) == one.swap([]) == []
    assert (one.figures.posted, one.figures.read) == (2, 1)


def test_pages_go_by_themselves(world: World) -> None:
    """A replica that comes late reads the last periods, and the store is left clean."""
    one = world.board()
    one.swap([page(b"a")])
    names = world.names()
    world.clock.advance(2 * EVERY)
    assert world.board().swap([]) == [page(b"a")]
    world.clock.advance(2 * EVERY)
    assert world.board().swap([]) == []
    assert one.swap([]) == []
    until = Seconds(world.clock.monotonic() + 1)
    assert world.store.exists(names, deadline=until) == ["missing"]


@pytest.mark.parametrize("late", [-EVERY, EVERY])
def test_clocks_may_differ_by_a_period(world: World, late: float) -> None:
    """Either way."""
    world.board(late=late).swap([page(b"a")])
    assert world.board().swap([]) == [page(b"a")]


def test_replicas_of_another_namespace_are_not_heard(world: World) -> None:
    """Their blocks have other names."""
    world.board(space=b"m" * 32).swap([page(b"a")])
    assert world.board().swap([]) == []


def test_only_who_has_the_secret_is_heard(world: World) -> None:
    """A page without it is unreadable, looked at once, and nobody else's loss."""
    secret = b"s" * 16
    world.board().swap([page(b"a")])
    one = world.board(secret=secret)
    assert one.swap([page(b"b")]) == []
    assert world.board(secret=secret).swap([]) == [page(b"b")]
    assert one.swap([]) == []
    assert one.figures.unreadable == 1


@pytest.mark.parametrize("value", [b"", b"x" * 99, bytes(HEADER_BYTES + PAGE_BYTES)])
def test_garbage_is_unreadable(world: World, value: bytes) -> None:
    """Whatever its size; it is looked at once."""
    world.board().swap([page(b"a")])
    world.spoil(value)
    one = world.board()
    assert [one.swap([]) for _ in range(2)] == [[], []]
    assert one.figures.unreadable == 1


def test_a_page_counts_in_its_own_slot_alone(world: World) -> None:
    """A copy under another name, as of an earlier period, is unreadable."""
    world.board().swap([page(b"a")])
    (name,) = world.names()
    value, _ = world.store._values[name]
    start, _, number = name.rpartition(b":")
    other = b"%b:%d" % (start, (int(number) + 1) % SLOTS)
    world.spoil(value, name=other)
    one = world.board()
    assert one.swap([]) == [page(b"a")]
    assert one.figures.unreadable == 1


def test_a_full_board_loses_pages(world: World) -> None:
    """No replica waits for a slot, and the next period has others."""
    for _ in range(SLOTS // 8):
        world.board().swap([page(b"a")] * 8)
    one = world.board()
    assert len(one.swap([page(b"b")])) == SLOTS
    assert (one.figures.posted, one.figures.lost) == (0, 1)
    world.clock.advance(EVERY)
    one.swap([page(b"b")])
    assert (one.figures.posted, one.figures.lost) == (1, 1)


def test_a_slot_that_another_took_meanwhile_is_left_to_it(world: World) -> None:
    """The page goes into the next one; after a few such it is lost."""
    world.said["put"] = "present"
    one = world.board()
    one.swap([page(b"a")])
    assert (one.figures.posted, one.figures.lost) == (0, 1)
    world.said.clear()
    world.once = iter(["present"])
    one.swap([page(b"b")])
    assert (one.figures.posted, one.figures.lost) == (1, 1)
    assert world.board().swap([]) == [page(b"b")]


def test_a_page_that_may_be_up_is_not_put_up_again(world: World) -> None:
    """Nor read back by the one whose it is, or its sights would count twice."""
    one = world.board()
    world.said["put"] = "late"
    one.swap([page(b"a")])
    assert (one.figures.posted, one.figures.lost) == (0, 1)
    world.said.clear()
    others = [world.board() for _ in range(SLOTS)]
    for each in others:
        each.swap([page(b"b")])
    assert len(one.swap([])) == SLOTS - 1


def test_a_dead_store_is_asked_one_thing(world: World) -> None:
    """Nothing comes back, and the pages are lost."""
    world.said["exists"] = "down"
    one = world.board()
    assert one.swap([page(b"a")]) == []
    assert world.calls == ["exists"]
    assert one.figures.lost == 1


def test_a_page_that_could_not_be_fetched_is_tried_again(world: World) -> None:
    """A fault of the store is not the page's."""
    world.board().swap([page(b"a")])
    one = world.board()
    world.said["fetch"] = "late"
    assert one.swap([]) == []
    world.said.clear()
    assert one.swap([]) == [page(b"a")]
    world.board().swap([page(b"b")])
    world.said["fetch"] = "missing"
    assert one.swap([]) == []
    assert one.figures.unreadable == 0


def test_a_closed_board_finds_no_store(world: World) -> None:
    """It lets go of the transport that it took over."""
    one = world.board()
    one.close()
    assert one.swap([page(b"a")]) == []
