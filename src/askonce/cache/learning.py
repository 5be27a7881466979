"""Evidence on the live path: labels from misses and audits, the log they share, what they teach.

Nothing here is waited for by a request but `weigh`, which only computes. Evidence goes into the
log first and is taken from there, so that every worker, and the next start, takes the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from askonce.cache.audits import fresh_answer, text_of
from askonce.errors import EntryUnreadable, StoreError
from askonce.events import Judged, TrustMoved
from askonce.ports import Evidence
from askonce.trust.allowance import Allowance
from askonce.trust.budget import chance
from askonce.trust.ledger import Place
from askonce.trust.names import question_digest
from askonce.units import Seconds
from askonce.worker import WorkerBusy, WorkerClosed, gently

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Literal

    from askonce.cache.ask import Ask
    from askonce.cache.steps import Steps
    from askonce.canonical.answer import Answer
    from askonce.canonical.entry import Entry
    from askonce.canonical.key import Scope
    from askonce.ports import (
        Agreement,
        Clock,
        EvidenceLog,
        EvidenceSource,
        Judge,
        Neighbour,
        Sink,
        UpstreamResponse,
    )
    from askonce.tiers.exact import ExactTier
    from askonce.tiers.semantic import Finding, SemanticTier
    from askonce.trust.desk import TrustDesk, Verdict
    from askonce.trust.names import Mode, Namespaces
    from askonce.units import UnixTime
    from askonce.worker import Worker

_WAITING = 64
"""Cases under way at most; beyond it one more teaches nothing."""
_JUDGED = 4
"""Candidates whose answers are compared with a fresh one."""
_DEADLINE = Seconds(60.0)
"""For all that one case takes, a judge's own calls included; nobody waits for it."""
_AT_ONCE = 64
_DRAW = b"allowance"
_LEAST_SHARE = 0.02
"""Of the wanted audits, however little of the allowance is left."""
SHARE = 0.05
"""Of one core, for learning beside requests; the evidence of earlier days is learned at once."""
FOLLOW_INTERVAL = 0.5
"""Seconds until another worker's evidence counts here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question that had neighbours, and what came of it."""

    place: Place
    request: str
    mode: Literal["shadow", "on"]
    text: str
    near: Sequence[Neighbour]
    verdict: Verdict
    served: Entry | None
    """What the cache answered."""
    fresh: Answer | None
    """What the engine answered."""
    would: bool
    """In shadow mode: the cache would have answered."""
    send: Callable[[], Awaitable[UpstreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What audits may cost."""

    audits_per_hour: float
    audits_at_once: int
    max_answer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What learning works with."""

    desk: TrustDesk
    log: EvidenceLog
    judge: Judge
    worker: Worker
    """The thread in which verifiers learn."""
    names: Namespaces
    exact: ExactTier
    semantic: SemanticTier
    steps: Steps
    clock: Clock
    sink: Sink


class Learning:
    """Decides by evidence, and gathers it."""

    def __init__(self, parts: Parts, effort: Effort) -> None:
        """Starts nothing; `follow` is to run beside the requests."""
        self._parts = parts
        self._effort = effort
        self._seq = 0
        self._share = 1.0
        self._taking = asyncio.Lock()
        self._auditing = asyncio.Semaphore(effort.audits_at_once)
        per_hour = effort.audits_per_hour
        burst = min(per_hour, max(1.0, per_hour / 6))
        self._allowance = Allowance(per_hour=per_hour, burst=burst)
        self._cases: set[asyncio.Task[None]] = set()

    def mode(self, scope: Scope) -> Mode:
        """What the operator allows where this request belongs."""
        return self._parts.names.rules(scope.namespace).mode

    def place(self, scope: Scope, partition: bytes) -> Place:
        """Where a request belongs."""
        return Place(self._parts.names.label(scope.namespace, scope.tenant).encode(), partition)

    def weigh(self, finding: Finding, ask: Ask, partition: bytes) -> None:
        """Let the desk decide about what was found."""
        place = self.place(ask.scope, partition)
        desk = self._parts.desk
        finding.near = desk.current(place, finding.near)
        verdict = desk.judge(place, finding.text, finding.read, finding.near, id_of(ask))
        finding.weighed(verdict)

    def saw(self, case: Case) -> None:
        """Learn from a case in the background; one too many is let go."""
        if len(self._cases) < _WAITING and case.verdict.best >= 0:
            task = asyncio.create_task(self._learn_from(case))
            self._cases.add(task)
            task.add_done_callback(self._cases.discard)

    async def settled(self) -> None:
        """Wait until no case is under way."""
        while self._cases:
            await asyncio.wait(list(self._cases))

    async def catch_up(self) -> None:
        """Take all evidence that the log has and this process has not; raises StoreError."""
        more = True
        while more:
            more = await self._take_next()

    async def follow(self) -> None:
        """Take other workers' evidence as it comes; runs until cancelled."""
        self._share = SHARE
        while True:
            await self._parts.steps.attempt("evidence", _DEADLINE, self.catch_up)
            await asyncio.sleep(FOLLOW_INTERVAL)

    async def hear(self, request: str, agreement: Agreement, tenant: bytes) -> bool:
        """Take a caller's word on an answer that it got; False for one that is not its own.

        Only the first word on a request counts. Raises StoreError.
        """
        records = await self._parts.log.of_request(request)
        hit = next((one for one in records if one.source == "hit"), None)
        if hit is None or not self._parts.names.belongs(hit.namespace, tenant):
            return False
        if all(one.source != "caller" for one in records):
            await self._append([said(hit, agreement, "caller", self._parts.clock.now())])
        return True

    async def close(self, grace: float) -> None:
        """Let cases end for `grace` seconds, then give them up."""
        if self._cases:
            await asyncio.wait(self._cases, timeout=grace)
        late = list(self._cases)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        await self._parts.judge.close()
        await self._parts.worker.close()

    async def _learn_from(self, case: Case) -> None:
        steps = self._parts.steps
        if case.served is None:
            await steps.attempt("evidence", _DEADLINE, lambda: self._compare(case, case.fresh))
            return
        served = case.served
        at = next(at for at, one in enumerate(case.near) if one.item.key == served.key)
        hit = self._record(case, at, ("unsure", ""), "hit")
        await steps.attempt("evidence", _DEADLINE, lambda: self._append([hit]))
        share = self._audit_share()
        if case.verdict.audit and chance(_DRAW, case.request.encode(), b"allowance") < share:
            self._allowance.settle(1.0)
            async with self._auditing:
                await steps.attempt("audit", _DEADLINE, lambda: self._audit(case, at, share))

    def _audit_share(self) -> float:
        """Share of the wanted audits that are made: known before the draw, so that none is biased.

        It falls with the allowance, but never to nothing while there is to be one at all.
        """
        if not self._effort.audits_per_hour:
            return 0.0
        return max(_LEAST_SHARE, self._allowance.share(self._parts.clock.monotonic()))

    async def _audit(self, case: Case, at: int, share: float) -> None:
        fresh = await fresh_answer(case.send, self._effort.max_answer_bytes)
        verdict = await self._judge(case, case.served, fresh)
        record = self._record(case, at, verdict, "audit")
        known = msgspec.structs.replace(record, probability=record.probability * share)
        await self._append([known])
        if verdict[0] == "different":
            await self._parts.semantic.forget([case.near[at].item.key])

    async def _compare(self, case: Case, fresh: Answer | None) -> None:
        """Labels for nothing: the engine's answer beside those of the nearest questions."""
        source: EvidenceSource = "shadow" if case.would else "miss"
        records = []
        for at in _to_judge(case):
            entry = await self._entry(case.near[at])
            verdict = await self._judge(case, entry, fresh)
            records.append(self._record(case, at, verdict, source))
        await self._append(records)

    async def _judge(
        self, case: Case, entry: Entry | None, fresh: Answer | None
    ) -> tuple[Agreement, str]:
        if entry is None or fresh is None:
            return "unsure", "lost"
        cached_text, fresh_text = text_of(entry.answer), text_of(fresh)
        if cached_text is None or fresh_text is None:
            return "unsure", "no_text"
        verdict = await self._parts.judge.judge(case.text, cached_text, fresh_text)
        return verdict.agreement, verdict.how

    async def _entry(self, near: Neighbour) -> Entry | None:
        exact, key = self._parts.exact, near.item.key
        try:
            entry = exact.peek(key) or await exact.find(key)
        except EntryUnreadable:
            return None
        return entry if entry is not None and entry.question == near.item.text else None

    def _record(
        self, case: Case, at: int, verdict: tuple[Agreement, str], source: EvidenceSource
    ) -> Evidence:
        agreement, how = verdict
        if source in {"audit", "shadow"} or agreement != "unsure":
            self._parts.sink.emit(Judged(source, agreement))
        desk = self._parts.desk
        return Evidence(
            at=self._parts.clock.now(),
            namespace=case.place.namespace.decode(),
            partition=case.place.partition,
            request_id=case.request,
            question=question_digest(case.place.partition, case.text),
            entry=case.near[at].item.key,
            score=case.verdict.score,
            verdict=agreement,
            how=how,
            source=source,
            probability=case.verdict.chance if case.mode == "on" else 1.0,
            mode=case.mode,
            look=desk.packed(case.verdict) if agreement != "unsure" else b"",
        )

    async def _append(self, records: Sequence[Evidence]) -> None:
        """Into the log, and from there to the desk; without the log this process learns alone."""
        try:
            await self._parts.log.append(_one_look(records))
        except StoreError:
            await self._take(records)
            raise
        await self.catch_up()

    async def _take_next(self) -> bool:
        async with self._taking:
            records = await self._parts.log.since(self._seq, _AT_ONCE)
            if records:
                self._seq = records[-1].seq
                await self._take(records)
        return len(records) == _AT_ONCE

    async def _take(self, records: Sequence[Evidence]) -> None:
        desk = self._parts.desk
        lessons = desk.take(records)
        if lessons:
            try:
                await self._parts.worker.run(lambda: gently(desk.study(lessons), self._share))
            except (WorkerBusy, WorkerClosed):
                return
        for namespace in {one.namespace for one in records if one.verdict != "unsure"}:
            place = Place(namespace.encode(), b"")
            at = desk.standing(place)
            self._parts.sink.emit(TrustMoved(namespace, at.score, at.bound, desk.labels(place)))


def id_of(ask: Ask) -> str:
    """What a request is known by in the evidence."""
    return ask.request_id or ask.key.hex()


def said(about: Evidence, agreement: Agreement, source: EvidenceSource, now: UnixTime) -> Evidence:
    """Somebody's word on what a record is about."""
    return msgspec.structs.replace(
        about,
        at=now,
        verdict=agreement,
        source=source,
        how="said",
        probability=1.0,
        look=b"",
        seq=0,
    )


def _to_judge(case: Case) -> list[int]:
    """The best place first, then the nearest."""
    others = [at for at in range(len(case.near)) if at != case.verdict.best]
    return [case.verdict.best, *others][:_JUDGED]


def _one_look(records: Sequence[Evidence]) -> list[Evidence]:
    """The look on the first record alone; none where no verdict was reached."""
    look = next((one.look for one in records if one.look), b"")
    return [
        msgspec.structs.replace(one, look=b"" if at else look) for at, one in enumerate(records)
    ]
