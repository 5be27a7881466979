"""The cache as the gateway sees it: a hot copy at once, a look into the store, an answer."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from askonce.cache.ask import Collapsed, Live
from askonce.cache.flight import Flight, Head, Seat
from askonce.cache.leader import Leader
from askonce.errors import RequestError, UpstreamBroken, UpstreamError, places
from askonce.flow import Hit, fresh_hit

if TYPE_CHECKING:
    from askonce.cache.ask import Ask, Look, Reply
    from askonce.cache.parts import Parts
    from askonce.flow import Plan

log = logging.getLogger(__name__)

LEAST_GRACE = 1.0
"""Seconds to write what was answered, even when flights took all of the grace."""

FlightKey = tuple[bytes, "Plan", int]
"""With the newest revocation: whoever asks after it joins no call from before."""


class Cache:
    """Answers requests from the tiers, or once from the engine for all who ask the same."""

    def __init__(self, parts: Parts) -> None:
        """Build over tiers, steps and limits; starts nothing."""
        self._parts = parts
        self._flights: dict[FlightKey, Flight] = {}
        self._boarding: dict[Flight, FlightKey] = {}
        self._keys: Counter[bytes] = Counter()
        """Of the flights that may be boarded."""
        self._leads: dict[Flight, asyncio.Task[None]] = {}
        self._looks: dict[bytes, list[asyncio.Future[Look | None]]] = {}
        """Who waits for a look that is under way."""

    def peek(self, key: bytes, plan: Plan, author: bytes = b"") -> Hit | None:
        """The hot exact hit, without waiting; None says nothing about the store."""
        return self._parts.peek(key, plan, author) if plan.exact else None

    async def look(self, key: bytes, plan: Plan, author: bytes = b"") -> Hit | Look | None:
        """The exact hit, or what the store says instead; raises nothing.

        Equal requests share one look: a later one of their own would know nothing of the call that
        the first has led meanwhile. None where the store is not asked: an equal request is under
        way, whose answer is to be joined, or this one wants no exact hit.
        """
        if not plan.exact or key in self._keys:
            return None
        look = await self._look(key)
        if look is None or look.entry is None:
            return look
        hit = fresh_hit(look.entry, "exact", plan, self._parts.clock.now())
        return hit if hit is not None and self._parts.opens(hit, author) else look

    async def _look(self, key: bytes) -> Look | None:
        """What the store says to all who ask it now; None where the one who looked has left."""
        others = self._looks.get(key)
        if others is not None:
            told: asyncio.Future[Look | None] = asyncio.get_running_loop().create_future()
            others.append(told)
            return await told
        self._looks[key] = []
        look = None
        try:
            look = await self._parts.look(key)
        finally:
            for other in self._looks.pop(key):
                if not other.done():
                    other.set_result(look)
        return look

    def answering(self, ask: Ask) -> Answering:
        """A context that gives the reply to a request; leave it when it is delivered.

        Raises UpstreamError. A follower whose leader fails is not failed with it: it asks again,
        together with all other followers.
        """
        return Answering(self, ask)

    async def board(self, ask: Ask) -> tuple[Reply, Flight, Seat]:
        """A seat in the flight that answers a request; `leave` it."""
        for attempt in range(3):
            if attempt:  # the look was of another time
                ask = msgspec.structs.replace(ask, looked=None)
            flight, leads = self._board(ask, picky=attempt == 2)
            seat = flight.reading()
            reply = None
            try:
                reply = await self._reply(ask, flight, seat, leads=leads, patient=attempt == 0)
            finally:
                if reply is None:
                    self.leave(ask, flight, seat)
            if reply is not None:
                return reply, flight, seat
        raise AssertionError  # the last flight is of the request's own delivery

    def leave(self, ask: Ask, flight: Flight, seat: Seat) -> None:
        """Read no more; an answer that nobody reads and nobody may store is not computed."""
        flight.leave(seat)
        if not (flight.readers or flight.done or ask.plan.store):
            self._land(flight)
            self._leads[flight].cancel()

    async def settled(self) -> None:
        """Wait until no flight is under way and all that may be stored is written."""
        while self._leads:
            await asyncio.wait(list(self._leads.values()))
            await asyncio.sleep(0)
        if self._parts.confirmations is not None:
            await self._parts.confirmations.settled()
        if self._parts.writer is not None:
            await self._parts.writer.settled()

    async def close(self, grace: float) -> None:
        """Let flights land and write back for `grace` seconds, then end them."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        if self._leads:
            await asyncio.wait(self._leads.values(), timeout=grace)
        late = list(self._leads.values())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if self._parts.late is not None:
            await self._parts.late.close()
        if self._parts.confirmations is not None:
            await self._parts.confirmations.close(max(end - loop.time(), LEAST_GRACE))
        if self._parts.writer is not None:
            await self._parts.writer.close(max(end - loop.time(), LEAST_GRACE))

    def _board(self, ask: Ask, *, picky: bool) -> tuple[Flight, bool]:
        """A flight for this request, and whether it leads it.

        picky: join none that was asked for the other delivery or by another caller; one's own
            surely brings a reply.
        """
        shares = ask.plan.share
        key = ask.key, ask.plan, self._parts.stamp()
        flight = self._flights.get(key) if shares else None
        own = ask.call.stream, ask.author
        fits = flight is not None and (not picky or (flight.stream, flight.author) == own)
        if flight is not None and fits and flight.joinable:
            return flight, False
        limit = self._parts.limits.max_entry_bytes
        alone = picky or not shares
        flight = Flight(limit, stream=ask.call.stream, author=ask.author, alone=alone)
        if shares:
            self._flights[key] = flight
            self._boarding[flight] = key
            self._keys[ask.key] += 1
        task = asyncio.get_running_loop().create_task(self._lead(ask, flight))
        self._leads[flight] = task
        task.add_done_callback(lambda _: self._ended(flight))
        return flight, True

    async def _lead(self, ask: Ask, flight: Flight) -> None:
        leader = Leader(self._parts, ask, flight)
        await self._take_off(leader, flight)
        await leader.write_back()

    def _ended(self, flight: Flight) -> None:
        """However the leader ended, even before its first step, nobody waits for it any more."""
        self._land(flight)
        del self._leads[flight]
        if not flight.done:
            flight.finish(UpstreamBroken("the call was given up"))

    @staticmethod
    async def _take_off(leader: Leader, flight: Flight) -> None:
        try:
            await leader.lead()
        except (UpstreamError, RequestError) as error:
            flight.finish(error)
        except Exception as error:  # noqa: BLE001 - nobody who waits is left waiting
            told = type(error).__name__, places(error)
            log.error("a flight failed: %s\n%s", *told)  # noqa: TRY400 - quotes no prompt
            flight.finish(UpstreamBroken("the gateway failed to relay the answer"))

    def _land(self, flight: Flight) -> None:
        key = self._boarding.pop(flight, None)
        if key is None:
            return
        if self._flights.get(key) is flight:
            del self._flights[key]
        self._keys[key[0]] -= 1
        if not self._keys[key[0]]:
            del self._keys[key[0]]

    async def _reply(
        self, ask: Ask, flight: Flight, seat: Seat, *, leads: bool, patient: bool
    ) -> Reply | None:
        """The flight's reply for this request, or None when it should ask again."""
        try:
            outcome = await flight.settled()
        except (UpstreamError, RequestError):
            if leads or not patient:
                raise
            return None
        if isinstance(outcome, Hit):
            return outcome if leads or self._parts.opens(outcome, ask.author) else None
        if not isinstance(outcome, Head):
            return outcome
        if outcome.status >= 400 or flight.stream == ask.call.stream:
            retry = not leads and patient and _may_pass(outcome.status)
            return None if retry else Live(seat, outcome, collapsed=not leads or flight.away)
        answer = await flight.landed()
        return None if answer is None else Collapsed(answer, outcome)


class Answering:
    """One request's time in the cache."""

    __slots__ = ("_aboard", "_ask", "_cache")

    def __init__(self, cache: Cache, ask: Ask) -> None:
        """Ask nothing yet."""
        self._cache = cache
        self._ask = ask
        self._aboard: tuple[Flight, Seat] | None = None

    async def __aenter__(self) -> Reply:
        """Wait for the reply; raises UpstreamError."""
        reply, flight, seat = await self._cache.board(self._ask)
        self._aboard = flight, seat
        return reply

    async def __aexit__(self, *_: object) -> None:
        """Read no more."""
        if self._aboard is not None:
            self._cache.leave(self._ask, *self._aboard)


def _may_pass(status: int) -> bool:
    """Whether a call with the follower's own credential may fare better than the leader's."""
    return status in {401, 403, 429} or status >= 500
