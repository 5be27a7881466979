"""One engine call for all replicas: lead it, or follow whoever leads.

The leader hands on what its engine says, as it comes; a follower reads that as if it were the
engine's. When the leader is gone the follower boards again, and perhaps leads itself. A stream of
which readers have had a part goes on only if the new one says the same so far.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from askonce.cache.pieces import close
from askonce.cache.steps import Skipped, Steps
from askonce.canonical.entry import unseal
from askonce.canonical.sse import EventSplitter, data_of
from askonce.errors import CacheFault, EntryUnreadable, StoreError, UpstreamBroken
from askonce.ports import Followed, Headers, Lead, SupportsFlights
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from askonce.cache.ask import Ask
    from askonce.cache.flight import Flight
    from askonce.canonical.entry import Entry
    from askonce.ports import UpstreamResponse

FOLLOWS = 4
"""Boardings of one flight, before it goes alone."""
COURTESY = 0.5
"""Seconds by which those whose readers have had nothing let the others take a lost lead over."""
_ONE_CALLS_OWN = ("id", "created", "system_fingerprint", "service_tier", "obfuscation")
"""Fields of a streamed event in which two equal answers differ."""
_BODY, _WHOLE, _BROKEN = b"b", b"z", b"x"
"""First byte of a piece: part of the body, the body is whole, the leader failed."""


class Opening(msgspec.Struct, frozen=True, array_like=True):
    """The first piece: how the leader's answer begins."""

    status: int
    headers: Headers
    stream: bool


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Opening).decode


class Fleet(msgspec.Struct, frozen=True):
    """The way to other replicas' engine calls."""

    flights: SupportsFlights
    steps: Steps
    deadline: Seconds
    """For one boarding."""

    def journey(self, ask: Ask, flight: Flight, stamp: int) -> Journey:
        """The way of one local flight to an answer; stamp: the newest revocation known."""
        return Journey(self, ask, flight, stamp)

    async def board(self, ask: Ask, name: bytes, *, look: bool) -> bytes | Lead | Followed | None:
        """The entry, the lead, a leader, or None to go alone; raises nothing."""
        berth = await self.steps.attempt(
            "flight", self.deadline, lambda: self.flights.board(ask.key, name, look=look)
        )
        return None if isinstance(berth, Skipped) else berth


class Journey:
    """An `UpstreamResponse`, wherever it comes from."""

    def __init__(self, fleet: Fleet, ask: Ask, flight: Flight, stamp: int) -> None:
        """Nothing happens before `begin`."""
        self._fleet = fleet
        self._ask = ask
        self._flight = flight
        self._name = hashlib.sha256(_encode((ask.key, ask.plan, stamp))).digest()
        self._boardings = 0
        self._lead: Lead | None = None
        self._others: _Others | None = None
        self._response: UpstreamResponse | None = None
        self._body: bytes | None = None
        self._whole = False
        self.status = 0
        self.headers: Headers = ()

    async def begin(self) -> Entry | None:
        """Wait for the answer to begin, or for an entry that came meanwhile; raises UpstreamError.

        A leader that fails, or is refused, is no reason to fail: the engine is asked again.
        """
        entry = await self._board(look=self._ask.plan.exact)
        if entry is None and self._others is None and self._body is None:
            await self.ask_engine()
        return entry

    async def ask_engine(self) -> None:
        """Ask it, as leader if that is what we are; raises UpstreamError."""
        self._flight.away = False
        try:
            self._response = response = await self._ask.send()
        except BaseException:
            await self.close()
            raise
        self.status, self.headers = response.status, response.headers
        if self._lead is not None:
            stream = self._ask.call.stream
            self._lead.tell(_encode(Opening(response.status, response.headers, stream)))

    def end(self, *, kept: bool) -> None:
        """The flight is over; kept: its answer is about to be put."""
        if self._lead is not None:
            self._lead.end(kept=kept)

    def chunks(self) -> AsyncIterator[bytes]:
        """See `UpstreamResponse`."""
        if self._body is not None:
            return _only(self._body)
        return self._ours() if self._others is None else self._as_it_comes()

    async def read(self) -> bytes:
        """See `UpstreamResponse`."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def close(self) -> None:
        """See `UpstreamResponse`; an answer that is not whole ends the lead."""
        if self._others is not None:
            self._others.leave()
        if self._lead is not None and not self._whole:
            self._lead.tell(_BROKEN)
            self._lead.end(kept=False)
        if self._response is not None:
            await self._response.close()

    async def _board(self, *, look: bool) -> Entry | None:
        """The entry; else we lead, or follow somebody, or neither."""
        while self._boardings < FOLLOWS:
            self._boardings += 1
            berth = await self._fleet.board(self._ask, self._name, look=look)
            if isinstance(berth, bytes):
                try:
                    return unseal(self._ask.key, berth)
                except EntryUnreadable:
                    return None
            if not isinstance(berth, Followed):
                self._lead = berth
                return None
            if await self._follow(_Others(berth)):
                return None
            if not self._ask.call.stream:
                await asyncio.sleep(COURTESY)
        return None

    async def _follow(self, others: _Others) -> bool:
        """Whether the leader's answer began well; unless it can be relayed, all of it is there."""
        live = False
        try:
            opening = await others.opening()
            live = opening.stream and self._ask.call.stream
            if opening.status >= 400:
                return False
            if not live:
                self._body = b"".join([chunk async for chunk in others.chunks()])
        except CacheFault:
            return False
        finally:
            if not live:
                others.leave()
        self.status, self.headers = opening.status, opening.headers
        self._others = others if live else None
        self._flight.followed(stream=opening.stream)
        return True

    async def _ours(self) -> AsyncGenerator[bytes]:
        """The engine's answer to ourselves, handed on to who follows."""
        lead, response = self._lead, self._response
        if response is None:
            raise UpstreamBroken("nobody was asked")
        chunks = response.chunks()
        try:
            async for chunk in chunks:
                if lead is not None:
                    lead.tell(_BODY + chunk)
                yield chunk
        finally:
            await close(chunks)
        self._whole = True
        if lead is not None:
            lead.tell(_WHOLE)

    async def _as_it_comes(self) -> AsyncGenerator[bytes]:
        """The leader's stream, and after its loss the rest of an equal one."""
        heard = _Heard()
        while self._others is not None:
            try:
                async with aclosing(self._others.chunks()) as chunks:
                    async for chunk in chunks:
                        if fresh := heard.fresh(chunk):
                            yield fresh
            except CacheFault:
                self._others.leave()
                self._others = None
            else:
                yield heard.rest()
                return
            heard.again()
            await self._board(look=False)
        await self.ask_engine()
        async with aclosing(self._ours()) as chunks:
            async for chunk in chunks:
                if fresh := heard.fresh(chunk):
                    yield fresh
        yield heard.rest()


async def _only(body: bytes) -> AsyncIterator[bytes]:
    yield body


class _Others:
    """The answer that another replica's engine gives."""

    def __init__(self, followed: Followed) -> None:
        self._followed = followed
        self._pieces: deque[bytes] = deque()
        self.leave = followed.leave

    async def opening(self) -> Opening:
        """How it begins; raises StoreError when the leader failed before that."""
        try:
            return _decode(await self._piece())
        except msgspec.MsgspecError:
            raise StoreError("the leader has no answer") from None

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body as it comes; raises StoreError when the leader fails."""
        while (piece := await self._piece())[:1] == _BODY:
            yield piece[1:]
        if piece != _WHOLE:
            raise StoreError("the leader's answer broke off")

    async def _piece(self) -> bytes:
        if not self._pieces:
            self._pieces.extend(await self._followed.read())
        if not self._pieces:
            raise StoreError("the leader has given up")
        return self._pieces.popleft()


class _Heard:
    """What the readers of a stream have had, event by event."""

    def __init__(self) -> None:
        self._splitter = EventSplitter()
        self._had: list[bytes] = []
        self._at = 0

    def fresh(self, chunk: bytes) -> bytes:
        """The events that they have not had; raises UpstreamBroken when the others differ."""
        fresh = []
        for event in self._splitter.feed(chunk):
            mark = _mark(event)
            if self._at == len(self._had):
                self._had.append(mark)
                fresh.append(event)
            elif mark != self._had[self._at]:
                raise UpstreamBroken("the answer broke off, and a second one is not the same")
            self._at += 1
        return b"".join(fresh)

    def rest(self) -> bytes:
        """What is left of an event that did not end; raises UpstreamBroken for a shorter answer."""
        if self._at < len(self._had):
            raise UpstreamBroken("the answer broke off, and a second one is shorter")
        return self._splitter.tail

    def again(self) -> None:
        """From now on the same is said by somebody else."""
        self._splitter = EventSplitter()
        self._at = 0


def _mark(event: bytes) -> bytes:
    """Equal for events that say the same."""
    data = data_of(event)
    try:
        said = msgspec.json.decode(data or b"")
    except msgspec.DecodeError:
        said = None
    if isinstance(said, dict):
        told = {name: value for name, value in said.items() if name not in _ONE_CALLS_OWN}
        event = msgspec.json.encode(told, order="deterministic")
    return hashlib.blake2b(event, digest_size=16).digest()
