"""The epoch is followed, never goes back, and is not believed for long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from askonce.errors import StoreError
from askonce.kv.block import BlockKey, Sealer
from askonce.kv.epochs import INTERVAL, LEASE, Epochs
from askonce.kv.transports.memory import MemoryTransport
from askonce.testing import FakeClock
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.kv.ports import Outcome

SCOPE = b"m" * 32
SECRET = b"0123456789abcdef"


class Bench:
    """A store, a clock, and replicas."""

    def __init__(self, secret: bytes = b"") -> None:
        self.clock = FakeClock()
        self.trouble: Outcome | None = None
        self.transport = MemoryTransport(clock=self.clock, trouble=lambda *_: self.trouble)
        self.secret = secret
        self.name = b"ak1:epoch:" + SCOPE.hex().encode()

    def replica(self) -> Epochs:
        made = Epochs(self.transport, SCOPE, self.clock, secret=self.secret)
        made.refresh()
        return made

    def record(self) -> bytes:
        header = memoryview(bytearray(192))
        soon = Seconds(self.clock.monotonic() + 1)
        self.transport.fetch([self.name], [header], [memoryview(bytearray())], deadline=soon)
        return bytes(header)

    def write(self, header: bytes) -> None:
        soon = Seconds(self.clock.monotonic() + 1)
        self.transport.put([self.name], [header], [b""], ttl=None, deadline=soon, replace=True)

    def lose(self) -> None:
        self.transport.delete([self.name], deadline=Seconds(self.clock.monotonic() + 1))


def test_replicas_agree() -> None:
    """The first one makes the record, the others find it."""
    bench = Bench()
    one, two = bench.replica(), bench.replica()
    assert one.current() is not None
    assert one.current() == two.current()


def test_a_bump_is_seen_by_the_next_reading() -> None:
    """It is larger, at once here and after a reading elsewhere."""
    bench = Bench()
    one, two = bench.replica(), bench.replica()
    before = one.current()
    after = one.bump()
    assert before is not None
    assert after > before
    assert one.current() == after
    assert two.current() == before
    two.refresh()
    assert two.current() == after


def test_a_reading_is_believed_for_a_second() -> None:
    """A replica that cannot read serves nothing after that, and goes on when it can."""
    bench = Bench()
    one = bench.replica()
    bench.trouble = "late"
    assert not one.refresh()
    bench.clock.advance(LEASE / 2)
    assert one.current() is not None
    bench.clock.advance(LEASE / 2)
    assert one.current() is None
    assert one.age == LEASE
    bench.trouble = None
    assert one.refresh()
    assert one.current() is not None


def test_a_lost_record_makes_a_larger_epoch() -> None:
    """Even for a replica that has seen none: what was taken back stays so."""
    bench = Bench()
    one = bench.replica()
    taken_back = one.bump()
    bench.lose()
    bench.clock.advance(0.002)
    fresh = bench.replica()
    now = fresh.current()
    assert now is not None
    assert now > taken_back
    one.refresh()
    assert one.current() == now


def test_a_record_of_before_makes_a_larger_epoch() -> None:
    """Replaying an old record brings no old block back."""
    bench = Bench(SECRET)
    one, two = bench.replica(), bench.replica()
    old = bench.record()
    taken_back = one.bump()
    bench.write(old)
    one.refresh()
    now = one.current()
    assert now is not None
    assert now > taken_back
    two.refresh()
    assert two.current() == now


@pytest.mark.parametrize("forged", [b"", b"x" * 192, b"short"])
def test_a_record_that_is_none_is_replaced(forged: bytes) -> None:
    """Bytes of somebody else count as a loss."""
    bench = Bench(SECRET)
    one = bench.replica()
    before = one.current()
    bench.write(forged or Sealer(SCOPE).seal(BlockKey(b"k"), b"", epoch=1 << 62))
    one.refresh()
    now = one.current()
    assert before is not None
    assert now is not None
    assert before < now < 1 << 62


def test_a_bump_that_cannot_be_told_is_kept_here() -> None:
    """It raises; this replica serves nothing old, and tells the store when it is back."""
    bench = Bench()
    one, two = bench.replica(), bench.replica()
    before = one.current()
    bench.trouble = "down"
    with pytest.raises(StoreError):
        one.bump()
    assert one.current() is None
    bench.trouble = None
    one.refresh()
    two.refresh()
    assert one.current() == two.current()
    assert one.current() != before


@pytest.mark.slow
def test_a_reading_that_failed_is_soon_followed_by_another() -> None:
    """So that one lost answer does not cost what was known."""
    asked: list[bytes] = []

    def down(_: str, key: bytes) -> Outcome:
        asked.append(key)
        return "down"

    sick = Epochs(MemoryTransport(trouble=down), SCOPE, FakeClock())
    began = time.monotonic()
    sick.start()
    while len(asked) < 6 and time.monotonic() < began + 5 * INTERVAL:
        time.sleep(0.01)
    sick.close()
    assert time.monotonic() - began < 4 * INTERVAL


def test_it_follows_on_a_thread_of_its_own() -> None:
    """Started, it reads by itself, whatever the transport raises."""
    bench = Bench()

    def explode(*_: object) -> None:
        raise RuntimeError("a bug")

    sick = Epochs(MemoryTransport(trouble=explode), SCOPE, bench.clock)
    sick.start()
    one = Epochs(bench.transport, SCOPE, bench.clock)
    one.start()
    end = time.monotonic() + 5
    while one.current() is None:
        assert time.monotonic() < end
        time.sleep(0.001)
    for each in (one, sick):
        each.close()
    assert sick.current() is None


def test_a_transport_that_raises_ends_a_bump_as_a_store_that_cannot_be_told() -> None:
    """What a transport raises reaches no engine; nothing old is served, and it is told later."""
    bench = Bench()
    epochs = bench.replica()
    before = epochs.latest
    fetch = bench.transport.fetch

    def broken(*_: object, **__: object) -> list[Outcome]:
        raise OverflowError

    bench.transport.fetch = broken  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        epochs.bump()
    assert epochs.current() is None
    bench.transport.fetch = fetch  # type: ignore[method-assign]
    assert epochs.refresh()
    assert (epochs.current() or 0) > before
