"""Requests that a ledger has counted, as a log carries them: one byte each, in their order.

A level rests on how often each score is asked for, by questions without neighbours as well, and
labels say nothing of those. With this a process that reads the log counts the same requests in the
same order as the one that decided them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from askonce.trust.account.evidence import CELLS

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST = 4096
"""Requests that one record carries; of more, the oldest are let go."""

What = Literal["asked", "served", "withdrawn", "unwatched"]
"""`served`: asked, and served as well; `withdrawn`: counted as served before, and was not;
`unwatched`: it was, and no audit of it was possible."""

_NONE = 63
_KIND = 64
_KINDS: tuple[What, ...] = ("asked", "served", "withdrawn", "unwatched")


class Place(NamedTuple):
    """Where a request belongs."""

    namespace: bytes
    partition: bytes


class Step(NamedTuple):
    """One request as the ledger counted it, or what came of one."""

    namespace: bytes
    partition: bytes
    """Empty where the ledger knew none of that name then."""
    cell: int | None
    """Of its best candidate's score."""
    what: What


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    places: list[tuple[bytes, bytes]]
    runs: list[tuple[int, bytes]]
    """Number of the place, and a byte for each request in a row there."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


class Asked:
    """Collects requests until a record takes them."""

    def __init__(self) -> None:
        """Start empty."""
        self._runs: deque[tuple[tuple[bytes, bytes], bytearray]] = deque()
        self._count = 0

    def __len__(self) -> int:
        """How many wait for a record."""
        return self._count

    def note(self, place: Place, cell: int | None, what: What) -> None:
        """One more step."""
        if not self._runs or self._runs[-1][0] != place:
            self._runs.append((place, bytearray()))
        number = _NONE if cell is None else cell
        self._runs[-1][1].append(number + _KIND * _KINDS.index(what))
        self._count += 1
        if self._count > MOST:
            self._count -= len(self._runs.popleft()[1])

    def packed(self) -> bytes:
        """All that wait, which then wait no more; empty when there are none."""
        if not self._runs:
            return b""
        number = {place: at for at, place in enumerate(dict(self._runs))}
        runs = [(number[place], bytes(cells)) for place, cells in self._runs]
        self._runs.clear()
        self._count = 0
        return _encode(_Packed(list(number), runs))


def unpacked(packed: bytes) -> Iterator[Step]:
    """What `packed` packed; raises ValueError for anything else."""
    found = _decode(packed)
    for number, cells in found.runs:
        if not 0 <= number < len(found.places):
            raise ValueError("no such place")
        for byte in cells:
            kind, cell = divmod(byte, _KIND)
            if cell >= CELLS and cell != _NONE:
                raise ValueError("no such step")
            where = found.places[number]
            yield Step(*where, None if cell == _NONE else cell, _KINDS[kind])
