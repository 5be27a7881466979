"""The way of one flight's leader: look in the tiers, ask the engine, write the answer back."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from askonce.cache.by_meaning import ByMeaning
from askonce.cache.confirm import Gate
from askonce.cache.delivery import delivery, head_of
from askonce.cache.pieces import Cutter, Uncut, chain, close, read_up_to
from askonce.canonical.answer import facts, read_with_facts
from askonce.canonical.entry import Entry, Origin
from askonce.canonical.request import prompt_digest, system_prompt
from askonce.errors import AnswerUnusable, UpstreamError
from askonce.events import AdmissionRefused
from askonce.flow import AskEngine, GiveUp, Hit, LookExact, LookSemantic, begin, fresh_hit
from askonce.policy.admission import refuse, wants_json
from askonce.units import Seconds, UnixTime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from askonce.cache.ask import Ask
    from askonce.cache.fleet import Journey
    from askonce.cache.flight import Flight, Head
    from askonce.cache.parts import Parts
    from askonce.canonical.answer import Answer, Facts
    from askonce.flow import State
    from askonce.ports import UpstreamResponse


class Leader:
    """Leads one flight from its first look to its write-back."""

    def __init__(self, parts: Parts, ask: Ask, flight: Flight) -> None:
        """Nothing happens before `lead`."""
        self._parts = parts
        self._ask = ask
        self._flight = flight
        self._served: Entry | None = None
        """What a hit by meaning serves."""
        self._asked_at = Seconds(0)
        self._stamp = 0
        self._journey: Journey | None = None
        self._gate = Gate(parts.confirmations, ask.author)
        self._meaning = ByMeaning(parts, ask, self._gate)
        self._kept: Entry | None = None
        self._away = False
        """The store is known to be away, so it is not asked who else asks the engine."""

    async def lead(self) -> None:
        """Bring about the flight's outcome; raises UpstreamError when the engine fails."""
        state: State = begin(self._ask.plan)
        while not isinstance(state, AskEngine):
            match state:
                case LookExact():
                    state = await self._look_exact(state)
                case LookSemantic():
                    state = await self._meaning.look(state)
                case Hit() | GiveUp():
                    if isinstance(state, Hit) and state.tier == "semantic":
                        self._served = state.entry
                    self._flight.resolve(state, done=True)
                    return
                case _:
                    assert_never(state)
        await self._ask_engine(state)

    async def write_back(self) -> None:
        """Store what was admitted, forget questions without an answer, learn; raises nothing."""
        self._land(kept=self._kept is not None)
        await self._meaning.forget_lost()
        if self._kept is not None:
            await self._store(self._kept)
            await self._meaning.keep(self._kept)
        self._parts.steps.guard("evidence", lambda: self._meaning.tell(self._served, self._kept))
        self._parts.steps.guard("evidence", self._tell_gate)

    def _tell_gate(self) -> None:
        """Another replica's call is its own caller's word, and none of ours."""
        if not self._flight.away:
            self._gate.told(self._ask, self._kept)

    async def _store(self, entry: Entry) -> None:
        parts = self._parts
        if parts.writer is None and not self._flight.away:
            deadline = parts.limits.write_deadline
            await parts.steps.attempt("store_write", deadline, lambda: parts.exact.keep(entry))

    async def _look_exact(self, state: LookExact) -> State:
        parts, key = self._parts, self._ask.key
        hot = parts.peek(key, state.plan, self._ask.author)
        if hot is not None:
            return hot
        look = self._ask.looked or await parts.look(key)
        self._away = look.away
        if look.entry is None:
            return state.missed(look.detail)
        if self._gate.withholds(look.entry, "exact"):
            return state.missed("unconfirmed")
        return state.found(look.entry, parts.clock.now())

    async def _ask_engine(self, state: AskEngine) -> None:
        self._asked_at = self._parts.clock.monotonic()
        self._stamp = self._parts.stamp()
        response = await self._send()
        if isinstance(response, Hit):
            self._flight.resolve(response, done=True)
            return
        chunks = response.chunks()
        try:
            kind, stream = delivery(response), self._flight.stream
            if kind == "stream" and stream:
                cutter = Cutter(self._parts.limits.max_entry_bytes)
                await self._relay(chunks, head_of(response, state), cutter)
            elif response.status >= 400 or (kind == "whole" and not stream):
                await self._relay_whole(response, chunks, state)
            else:
                uncut = Uncut("content_type")
                await self._relay(chunks, head_of(response, state), uncut)
        except BaseException:  # else other replicas would follow a lead without an end
            self._land(kept=False)
            raise
        finally:
            await close(chunks)
            await response.close()

    def _land(self, *, kept: bool) -> None:
        if self._journey is not None:
            self._journey.end(kept=kept)

    async def _send(self) -> UpstreamResponse | Hit:
        """The engine's answer, to us or to another replica, or an entry that just came."""
        fleet, ask = self._parts.fleet, self._ask
        if fleet is None or self._flight.alone or self._away:
            return await ask.send()
        self._journey = journey = fleet.journey(ask, self._flight, self._stamp)
        entry = await journey.begin()
        if entry is None:
            return journey
        hit = fresh_hit(entry, "exact", ask.plan, self._parts.clock.now())
        withheld = hit is not None and self._gate.withholds(hit.entry, "exact")
        if hit is None or withheld or not self._parts.exact.serves(entry):
            await journey.ask_engine()
            return journey
        self._parts.exact.hold(entry)
        return hit

    async def _relay_whole(
        self, response: UpstreamResponse, chunks: AsyncIterator[bytes], state: AskEngine
    ) -> None:
        """Hand an answer on in one piece, or as it comes when it is too long to be kept."""
        try:
            body, ended = await read_up_to(chunks, self._parts.limits.max_entry_bytes)
        except UpstreamError:
            self._refused("broken")
            raise
        if not ended:
            rest = chain(body, chunks)
            await self._relay(rest, head_of(response, state), Uncut("oversize"))
            return
        if response.status >= 400:
            self._refused("status")
        else:
            self._take(lambda: read_with_facts(body))
        head = head_of(response, state, body=body, stored=self._kept is not None)
        self._flight.resolve(head, done=True)

    async def _relay(
        self, chunks: AsyncIterator[bytes], head: Head, cutter: Cutter | Uncut
    ) -> None:
        """Hand an answer on as it comes."""
        flight = self._flight
        try:
            await self._relay_chunks(chunks, head, cutter)
        except UpstreamError as broken:
            self._refused("broken")
            if flight.outcome is None:
                raise
            flight.finish(broken)
            return
        flight.resolve(head, done=False)
        await flight.extend(cutter.rest())
        if flight.overflown:
            self._refused("oversize")
        else:
            self._take(lambda: _with_facts(cutter.answer()))
        flight.finish()

    async def _relay_chunks(
        self, chunks: AsyncIterator[bytes], head: Head, cutter: Cutter | Uncut
    ) -> None:
        flight = self._flight
        try:
            async for chunk in chunks:
                if pieces := cutter.cut(chunk):
                    flight.resolve(head, done=False)
                    await flight.extend(pieces)
                if flight.unwanted:
                    return
        finally:
            await close(chunks)

    def _take(self, read: Callable[[], tuple[Answer, Facts]]) -> None:
        """Read the answer for the flight's other readers, and admit it; raises nothing."""
        self._parts.steps.guard("hot", lambda: self._read(read))

    def _read(self, read: Callable[[], tuple[Answer, Facts]]) -> None:
        try:
            answer, answered = read()
        except AnswerUnusable as unusable:
            self._refused(unusable.reason)
            return
        self._flight.answer = answer
        if self._ask.plan.store:
            self._admit(answer, answered)

    def _admit(self, answer: Answer, answered: Facts) -> None:
        reason = refuse(
            answered,
            wants_json=wants_json(self._ask.call.body),
            max_bytes=self._parts.limits.max_entry_bytes,
        )
        door = self._parts.doorkeeper
        if reason is None and door is not None and not door.knows(self._ask.key):
            reason = "first_sight"
        if reason is not None:
            self._refused(reason)
            return
        entry = self._entry(answer, answered)
        self._parts.exact.hold(entry)
        writer = self._parts.writer
        if writer is None or self._flight.away or writer.take(entry):
            self._kept = entry

    def _entry(self, answer: Answer, answered: Facts) -> Entry:
        now, ask = self._parts.clock.now(), self._ask
        question = ask.question
        semantic = self._meaning.indexable and question is not None and not answered.has_tool_calls
        return Entry(
            key=ask.key,
            answer=answer,
            created_at=now,
            exact_until=UnixTime(now + ask.plan.exact_ttl),
            semantic_until=UnixTime(now + ask.plan.semantic_ttl if semantic else 0),
            tags=ask.plan.tags,
            model=ask.call.model,
            upstream=ask.scope.upstream,
            question=question.text if semantic and question is not None else "",
            turns=question.turns if semantic and question is not None else (),
            engine_time=Seconds(self._parts.clock.monotonic() - self._asked_at),
            origin=Origin(
                revision=ask.scope.revision,
                namespace=ask.scope.namespace,
                tenant=ask.scope.tenant.hex(),
                prompt=prompt_digest(system_prompt(ask.call)),
            ),
            stamp=self._stamp,
            author=ask.author,
        )

    def _refused(self, reason: str) -> None:
        if self._ask.plan.store:
            self._parts.sink.emit(AdmissionRefused(reason))


def _with_facts(answer: Answer) -> tuple[Answer, Facts]:
    return answer, facts(answer)
