"""Where replicas leave pages for each other: slots in the store that go by the time of day.

A page is a sealed block of a size that all know, under a name made of a period and a slot. It is
put up only where nothing is, and goes by itself after a few periods. Nobody keeps a list of who is
there: whoever reads looks at all slots of the last periods, in one round trip. A page is bound to
its slot, so one that is copied elsewhere, damaged or foreign is none, and each is read once.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from askonce.kv.block import HEADER_BYTES, BlockKey, Sealer
from askonce.kv.sights import PAGE_BYTES
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.ports import BlockTransport
    from askonce.ports import Clock

SLOTS: Final = 64
"""Pages that all replicas together may put up in one period."""
_BACK: Final = 2
"""Earlier periods that are read; also by how many periods clocks may differ."""
_TRIES: Final = 3
"""To find a free slot where others look for one at the same time."""
_DEADLINE: Final = Seconds(1.0)
"""Of one call to the store."""
_LEFT_OVER: Final = frozenset({"done", "size", "missing"})
"""Ends of a fetch after which the slot is not read again."""


class _Slot(NamedTuple):
    period: int
    number: int


@dataclass(slots=True)
class BoardFigures:
    """Pages since the start, by what became of them."""

    posted: int = 0
    lost: int = 0
    """Not put up: no slot was free, or the store took none."""
    read: int = 0
    unreadable: int = 0
    """Damaged, foreign, forged, or of another size."""


class Board:
    """One replica at the board of one namespace; one thread calls, and waits for the store."""

    def __init__(
        self,
        transport: BlockTransport,
        namespace: bytes,
        clock: Clock,
        *,
        secret: bytes = b"",
        every: Seconds,
    ) -> None:
        """namespace: 32 bytes. every: the length of a period, the same for all replicas."""
        self._transport = transport
        self._sealer = Sealer(namespace, secret=secret)
        self._start = b"ak1:sights:" + namespace.hex().encode()
        self._clock = clock
        self._every = every
        self._first = secrets.randbelow(SLOTS)
        self._done: set[_Slot] = set()
        """Slots that were read, or are this replica's own."""
        self.figures = BoardFigures()

    def swap(self, pages: Sequence[bytes]) -> list[bytes]:
        """Put these up, and return what others did since the last call, in no order.

        Where the store does not answer, the pages are lost and nothing comes back.
        """
        period = int(self._clock.now() // self._every)
        self._done = {slot for slot in self._done if slot.period >= period - _BACK}
        periods = range(period - _BACK, period + 2)
        slots = [_Slot(each, number) for each in periods for number in self._numbers()]
        slots = [slot for slot in slots if slot not in self._done]
        said = self._transport.exists(self._names(slots), deadline=self._soon())
        there = [slot for slot, told in zip(slots, said, strict=True) if told == "done"]
        free = [slot for slot, told in zip(slots, said, strict=True) if told == "missing"]
        found = self._read(there[:SLOTS]) if there else []
        self._put_up(pages, [slot for slot in free if slot.period == period])
        return found

    def close(self) -> None:
        """Let go of the store."""
        self._transport.close()

    def _read(self, slots: Sequence[_Slot]) -> list[bytes]:
        headers = [memoryview(bytearray(HEADER_BYTES)) for _ in slots]
        pages = [memoryview(bytearray(PAGE_BYTES)) for _ in slots]
        said = self._transport.fetch(self._names(slots), headers, pages, deadline=self._soon())
        found = []
        for slot, header, page, told in zip(slots, headers, pages, said, strict=True):
            if told in _LEFT_OVER:
                self._done.add(slot)
            if told == "done" and self._sealer.check(header, page, _key(slot), epoch=0) is None:
                found.append(bytes(page))
            elif told in {"done", "size"}:
                self.figures.unreadable += 1
        self.figures.read += len(found)
        return found

    def _put_up(self, pages: Sequence[bytes], free: Sequence[_Slot]) -> None:
        left, open_slots = list(pages), list(free)
        for _ in range(_TRIES):
            slots, open_slots = open_slots[: len(left)], open_slots[len(left) :]
            if not slots:
                break
            said = self._transport.put(
                self._names(slots),
                [
                    self._sealer.seal(_key(slot), page, epoch=0)
                    for slot, page in zip(slots, left, strict=False)
                ],
                left[: len(slots)],
                ttl=Seconds(self._every * (_BACK + 2)),
                deadline=self._soon(),
            )
            # one whose end is not known may be up: it is neither tried elsewhere nor read back
            self._done.update(
                slot for slot, told in zip(slots, said, strict=True) if told != "present"
            )
            self.figures.posted += said.count("done")
            self.figures.lost += sum(told not in {"done", "present"} for told in said)
            taken = [page for page, told in zip(left, said, strict=False) if told == "present"]
            left = taken + left[len(slots) :]
        self.figures.lost += len(left)

    def _numbers(self) -> list[int]:
        """All slots, from this replica's own first one on, so that two seldom want the same."""
        return [(self._first + number) % SLOTS for number in range(SLOTS)]

    def _names(self, slots: Sequence[_Slot]) -> list[bytes]:
        return [b"%b:%d:%d" % (self._start, slot.period, slot.number) for slot in slots]

    def _soon(self) -> Seconds:
        return Seconds(self._clock.monotonic() + _DEADLINE)


def _key(slot: _Slot) -> BlockKey:
    return BlockKey(b"askonce kv sights %d %d" % slot)
