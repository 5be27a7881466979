"""One engine call in flight, and everyone who waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import msgspec

from askonce.errors import RequestError, UpstreamBroken, UpstreamError
from askonce.flow import Forward, GiveUp, Hit
from askonce.ports import Headers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from askonce.canonical.answer import Answer


class Head(msgspec.Struct, frozen=True):
    """The beginning of an engine's answer; the whole of it when it is not streamed."""

    status: int
    headers: Headers
    forward: Forward
    details: tuple[str, ...]
    streamed: bool
    body: bytes = b""
    stored: bool = False
    """The answer was admitted and is being written back; known only for whole answers."""


class Piece(msgspec.Struct, frozen=True):
    """One server-sent event as the engine sent it."""

    data: bytes
    usage_only: bool


class Flight:
    """The outcome that a leader brings about and all readers share.

    Everything is kept so that a late reader starts from the first byte, up to `capacity` bytes.
    Past it nobody may join, what all have read is dropped, and the leader waits for the slowest.
    """

    def __init__(
        self, capacity: int, *, stream: bool, author: bytes = b"", alone: bool = False
    ) -> None:
        """Start with no outcome and no readers; stream: the delivery that the engine is asked.

        author: of the request that leads it. alone: no other replica's call will do.
        """
        self.stream = stream
        self.author = author
        self.alone = alone
        self.away = False
        """Another replica's engine call brings the outcome about."""
        self.outcome: Hit | Head | GiveUp | None = None
        self.answer: Answer | None = None
        """The whole answer once it is complete and readable."""
        self.error: UpstreamError | RequestError | None = None
        self.done = False
        self._capacity = capacity
        self._pieces: list[Piece] = []
        self._dropped = 0
        self._size = 0
        self._held = 0
        self._seats: set[Seat] = set()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def joinable(self) -> bool:
        """Whether a new reader would still get everything, and something is still to come."""
        return not self.done and not self.overflown

    @property
    def overflown(self) -> bool:
        """The answer is longer than anything that is kept."""
        return self._size > self._capacity

    @property
    def readers(self) -> int:
        """How many wait for the outcome or read it."""
        return len(self._seats)

    @property
    def unwanted(self) -> bool:
        """Nobody reads, and the answer is too long to be kept."""
        return self.overflown and not self.readers

    def reading(self) -> Seat:
        """A seat from the first byte on; while any is taken the call is wanted. Leave it."""
        seat = Seat(self)
        self._seats.add(seat)
        return seat

    def leave(self, seat: Seat) -> None:
        """Give a seat back."""
        self._seats.discard(seat)
        if self._size > self._capacity:
            self._trim()
        self._wake()

    def followed(self, *, stream: bool) -> None:
        """Another replica leads; stream: the delivery that its engine was asked."""
        self.stream = stream
        self.away = True

    def resolve(self, outcome: Hit | Head | GiveUp, *, done: bool) -> None:
        """Tell the outcome, once; `done` when nothing will follow it."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        self.done = done
        self._wake()

    async def extend(self, pieces: Sequence[Piece]) -> None:
        """Hand out more pieces; past the capacity, wait for the slowest reader."""
        self._pieces.extend(pieces)
        size = _size(pieces)
        self._size += size
        self._held += size
        self._trim()
        self._wake()
        while self.overflown and self._held > self._capacity:
            await self._moved()

    def finish(self, error: UpstreamError | RequestError | None = None) -> None:
        """Nothing more will come."""
        self.error = error
        self.done = True
        self._wake()

    async def settled(self) -> Hit | Head | GiveUp:
        """Wait for the outcome; raises the flight's UpstreamError when there is none."""
        while self.outcome is None and not self.done:
            await self._moved()
        if self.outcome is None:
            raise self.error or UpstreamBroken("the call ended without an answer")
        return self.outcome

    async def landed(self) -> Answer | None:
        """Wait for the end; the whole answer, or None when it broke off or cannot be read."""
        while self.joinable:
            await self._moved()
        return self.answer

    async def read(self, seat: Seat) -> Sequence[Piece]:
        """Wait for pieces that this seat has not read; nothing when no more will come."""
        while not (pieces := self._pieces[seat.position - self._dropped :]) and not self.done:
            await self._moved()
        seat.position += len(pieces)
        self._trim()
        return pieces

    def _trim(self) -> None:
        if not self.overflown:
            return
        end = self._dropped + len(self._pieces)
        read = min((seat.position for seat in self._seats), default=end) - self._dropped
        self._held -= _size(self._pieces[:read])
        del self._pieces[:read]
        self._dropped += read
        if read:
            self._wake()

    def _wake(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _moved(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future


class Seat:
    """One reader's place in a flight: nothing that it has not read is dropped."""

    __slots__ = ("_flight", "position")

    def __init__(self, flight: Flight) -> None:
        """Before the first byte."""
        self.position = 0
        self._flight = flight

    def __enter__(self) -> Self:
        """Read inside the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the seat back."""
        self._flight.leave(self)

    @property
    def answer(self) -> Answer | None:
        """The whole answer once it is complete and readable."""
        return self._flight.answer

    async def pieces(self, *, usage: bool) -> AsyncIterator[bytes]:
        """The answer's bytes from the first one, as they come, several events at a time.

        Raises UpstreamBroken when the answer broke off.
        """
        while pieces := await self._flight.read(self):
            if shown := b"".join(p.data for p in pieces if usage or not p.usage_only):
                yield shown
        if self._flight.error is not None:
            raise self._flight.error


def _size(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.data) for piece in pieces)
