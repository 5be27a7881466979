"""The cache as the gateway sees it: one synchronous look, one asynchronous answer."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from askonce.cache.ask import Collapsed, Live
from askonce.cache.flight import Flight, Head, Seat
from askonce.cache.leader import Leader
from askonce.errors import UpstreamBroken, UpstreamError, places

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from askonce.cache.ask import Ask, Reply
    from askonce.cache.leader import Parts
    from askonce.flow import Hit, Plan

log = logging.getLogger(__name__)

FlightKey = tuple[bytes, "Plan"]


class Cache:
    """Answers requests from the tiers, or once from the engine for all who ask the same."""

    def __init__(self, parts: Parts) -> None:
        """Build over tiers, steps and limits; starts nothing."""
        self._parts = parts
        self._flights: dict[FlightKey, Flight] = {}
        self._leads: dict[Flight, asyncio.Task[None]] = {}

    def peek(self, key: bytes, plan: Plan) -> Hit | None:
        """The hot exact hit, without waiting; None says nothing about the store."""
        return self._parts.peek(key, plan) if plan.exact else None

    @asynccontextmanager
    async def answering(self, ask: Ask) -> AsyncIterator[Reply]:
        """The reply to a request; leave the context when it is delivered.

        Raises UpstreamError. A follower whose leader fails is not failed with it: it asks again,
        together with all other followers.
        """
        for attempt in range(3):
            flight, leads = self._board(ask, picky=attempt == 2)
            with self._aboard(flight, ask) as seat:
                reply = await self._reply(ask, flight, seat, leads=leads, patient=attempt == 0)
                if reply is not None:
                    yield reply
                    return

    async def close(self, grace: float) -> None:
        """Let flights land and write back for `grace` seconds, then end them."""
        if self._leads:
            await asyncio.wait(self._leads.values(), timeout=grace)
        late = list(self._leads.values())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _board(self, ask: Ask, *, picky: bool) -> tuple[Flight, bool]:
        """A flight for this request, and whether it leads it.

        picky: join none that was asked for the other delivery; one's own surely brings a reply.
        """
        shares = ask.plan.share
        key = ask.key, ask.plan
        flight = self._flights.get(key) if shares else None
        fits = flight is not None and (not picky or flight.stream == ask.call.stream)
        if flight is not None and fits and flight.joinable:
            return flight, False
        flight = Flight(self._parts.limits.max_entry_bytes, stream=ask.call.stream)
        if shares:
            self._flights[key] = flight
        task = asyncio.create_task(self._lead(ask, flight))
        self._leads[flight] = task
        task.add_done_callback(lambda _: self._ended(ask, flight))
        return flight, True

    @contextmanager
    def _aboard(self, flight: Flight, ask: Ask) -> Iterator[Seat]:
        """Read the flight; an answer that nobody reads and nobody may store is not computed."""
        try:
            with flight.reading() as seat:
                yield seat
        finally:
            if not (flight.readers or flight.done or ask.plan.store):
                self._land(ask, flight)
                self._leads[flight].cancel()

    async def _lead(self, ask: Ask, flight: Flight) -> None:
        leader = Leader(self._parts, ask, flight)
        await self._take_off(leader, flight)
        await leader.write_back()

    def _ended(self, ask: Ask, flight: Flight) -> None:
        """However the leader ended, even before its first step, nobody waits for it any more."""
        self._land(ask, flight)
        del self._leads[flight]
        if not flight.done:
            flight.finish(UpstreamBroken("the call was given up"))

    @staticmethod
    async def _take_off(leader: Leader, flight: Flight) -> None:
        try:
            await leader.lead()
        except UpstreamError as error:
            flight.finish(error)
        except Exception as error:  # noqa: BLE001 - nobody who waits is left waiting
            told = type(error).__name__, places(error)
            log.error("a flight failed: %s\n%s", *told)  # noqa: TRY400 - quotes no prompt
            flight.finish(UpstreamBroken("the gateway failed to relay the answer"))

    def _land(self, ask: Ask, flight: Flight) -> None:
        if self._flights.get((ask.key, ask.plan)) is flight:
            del self._flights[ask.key, ask.plan]

    async def _reply(
        self, ask: Ask, flight: Flight, seat: Seat, *, leads: bool, patient: bool
    ) -> Reply | None:
        """The flight's reply for this request, or None when it should ask again."""
        try:
            outcome = await flight.settled()
        except UpstreamError:
            if leads or not patient:
                raise
            return None
        if not isinstance(outcome, Head):
            return outcome
        if outcome.status >= 400 or flight.stream == ask.call.stream:
            retry = not leads and patient and _may_pass(outcome.status)
            return None if retry else Live(seat, outcome, collapsed=not leads)
        answer = await flight.landed()
        return None if answer is None else Collapsed(answer, outcome)


def _may_pass(status: int) -> bool:
    """Whether a call with the follower's own credential may fare better than the leader's."""
    return status in {401, 403, 429} or status >= 500
