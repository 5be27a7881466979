"""A shelf delivers what it has checked in time, and stores what nobody else does."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from askonce.kv.block import BlockKey
from askonce.kv.shelf import Shelf
from askonce.kv.transports.memory import MemoryTransport
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.ports import Arrived, Outcomes

SPACE, SIZE, EPOCH = b"n" * 32, 300, 5


class Tardy(MemoryTransport):
    """Brings what it has, and returns long after the deadline."""

    def fetch(
        self,
        keys: Sequence[bytes],
        headers: Sequence[memoryview],
        payloads: Sequence[memoryview],
        *,
        deadline: Seconds,
        arrived: Arrived | None = None,
    ) -> Outcomes:
        """Late by 20 ms."""
        told = super().fetch(keys, headers, payloads, deadline=deadline)
        time.sleep(max(deadline - time.perf_counter(), 0) + 0.02)
        return told


def _soon(seconds: float = 1.0) -> Seconds:
    return Seconds(time.perf_counter() + seconds)


def _blocks(count: int) -> tuple[list[BlockKey], list[memoryview]]:
    keys = [BlockKey(os.urandom(32)) for _ in range(count)]
    return keys, [memoryview(bytearray(os.urandom(SIZE))) for _ in keys]


def test_what_cannot_be_checked_in_time_is_late() -> None:
    """A transport that overruns does not make the check overrun too."""
    shelf = Shelf(Tardy(), SPACE)
    keys, blocks = _blocks(2)
    assert shelf.store(keys, blocks, epoch=EPOCH, ttl=None, deadline=_soon()) == ["done"] * 2
    assert shelf.load(keys, blocks, epoch=EPOCH, deadline=_soon(0.01)) == ["late"] * 2


def test_names_fit_every_store() -> None:
    """For the longest hash, too: no blanks, and short enough for Memcached."""
    shelf = Shelf(MemoryTransport(), SPACE)
    (name,) = shelf.names([BlockKey(b"\xff" * 64, 2**32 - 1)], 2**64 - 1)
    assert len(name + b"~99999") <= 250
    assert name.isascii()
    assert not set(name) & set(range(33))


def test_a_part_of_the_blocks_is_stored_where_the_others_are_there() -> None:
    """Each key has its own outcome, in order."""
    shelf = Shelf(MemoryTransport(), SPACE, claim_life=Seconds(5))
    keys, blocks = _blocks(4)
    shelf.store(keys[1:3], blocks[1:3], epoch=EPOCH, ttl=None, deadline=_soon())
    told = shelf.store(keys, blocks, epoch=EPOCH, ttl=None, deadline=_soon())
    assert told == ["done", "present", "present", "done"]
    views = [memoryview(bytearray(SIZE)) for _ in keys]
    assert shelf.load(keys, views, epoch=EPOCH, deadline=_soon()) == ["done"] * 4
    assert views == blocks


def test_headers_are_used_again_and_tell_nothing_old() -> None:
    """A block that is missing after one that was there is missing."""
    shelf = Shelf(MemoryTransport(), SPACE)
    keys, blocks = _blocks(3)
    shelf.store(keys[:1], blocks[:1], epoch=EPOCH, ttl=None, deadline=_soon())
    for _ in range(3):
        told = shelf.load(keys, blocks, epoch=EPOCH, deadline=_soon())
        assert told == ["done", "missing", "missing"]
