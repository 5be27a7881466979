"""Evidence on the live path: labels from misses and audits, the log they share, what they teach.

Nothing here is waited for by a request but `weigh`, which only computes. Evidence goes into the
log first and is taken from there, so that every worker, and the next start, takes the same.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from askonce.cache.audits import ask_again, text_of
from askonce.cache.steps import Skipped
from askonce.errors import EntryUnreadable
from askonce.events import Judged, TrustMoved
from askonce.ports import Evidence
from askonce.trust.account.allowance import Allowance
from askonce.trust.account.asked import Place
from askonce.trust.account.budget import chance
from askonce.trust.account.evidence import LEAST_AUDIT
from askonce.trust.account.thrift import UNWATCHED
from askonce.trust.labels import LOST, one_look, requests, said, whole_requests
from askonce.trust.names import question_digest
from askonce.units import Seconds
from askonce.worker import WorkerBusy, WorkerClosed, gently

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from askonce.cache.ask import Ask
    from askonce.cache.case import Case
    from askonce.cache.means import Effort, Parts
    from askonce.canonical.answer import Answer
    from askonce.canonical.entry import Entry
    from askonce.canonical.key import Scope
    from askonce.events import Part
    from askonce.ports import Agreement, LabelSource
    from askonce.tiers.semantic import Finding
    from askonce.trust.names import Mode
    from askonce.trust.sight import Sight, Verdict

T = TypeVar("T")

_WAITING = 64
"""Cases under way at most; beyond it one more teaches nothing."""
_DEADLINE = Seconds(60.0)
"""For one step of a case, a judge's own calls included; nobody waits for it."""
_AT_ONCE = 64
_DRAW = b"allowance"
_COMPARED = frozenset({"audit", "miss", "shadow"})
"""Whose verdicts, and lack of them, say how often the judge can tell."""
_QUEUED = 8
"""Audits that may wait for others to end."""
SHARE = 0.05
"""Of one core, for learning beside requests; the evidence of earlier days is learned at once."""
FOLLOW_INTERVAL = 0.5
"""Seconds until another worker's evidence counts here."""
ASKED_INTERVAL = 5.0
"""Seconds until the log knows of requests that left no other evidence; with it, it does at once."""


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
        self._drawn = 0
        per_hour = effort.audits_per_hour
        burst = min(per_hour, max(1.0, per_hour / 6))
        self._allowance = Allowance(per_hour=per_hour, burst=burst)
        self._cases: set[asyncio.Task[None]] = set()
        self._told_at = parts.clock.monotonic()

    def mode(self, scope: Scope) -> Mode:
        """What the operator allows where this request belongs."""
        return self._parts.names.rules(scope.namespace).mode

    def place(self, scope: Scope, partition: bytes) -> Place:
        """Where a request belongs."""
        return Place(self._parts.names.label(scope.namespace, scope.tenant).encode(), partition)

    def drifted_at(self, scope: Scope) -> float:
        """When answers there last went out of date, however long they live; 0 if never."""
        return self._parts.desk.since(self.place(scope, b""))

    async def weigh(self, finding: Finding, ask: Ask, partition: bytes, *, until: float) -> None:
        """Let the desk decide about what was found; raises nothing.

        until: on the monotonic clock, when the request waits no longer.
        """
        guard, desk = self._parts.steps.guard, self._parts.desk
        place = self.place(ask.scope, partition)

        def look() -> tuple[Sight, bool]:
            sight = desk.look(place, finding.text, finding.read, finding.near)
            return sight, self._parts.second is not None and desk.in_doubt(sight)

        looked = guard("trust", look)
        if isinstance(looked, Skipped):
            return
        sight, doubt = looked
        hold = False
        if doubt:
            found = await self._second_opinion(sight, until)
            hold = isinstance(found, Skipped)
            if isinstance(found, Skipped):
                finding.detail = found.detail
            else:
                sight = desk.advised(sight, found)
        guard("trust", lambda: finding.weighed(desk.decide(sight, id_of(ask), hold=hold)))

    async def _second_opinion(self, sight: Sight, until: float) -> float | Skipped:
        second, cached = self._parts.second, sight.near[sight.best].item.text
        steps, deadline = self._parts.steps, self._effort.second_deadline
        late = self._parts.clock.monotonic() + deadline > until
        if second is None or late or second.expected_time(sight.text, cached) > deadline:
            return steps.shed("verifier")
        return await steps.attempt("verifier", deadline, lambda: second.verify(sight.text, cached))

    def unserved(self, finding: Finding, ask: Ask, partition: bytes) -> None:
        """Take back a decision to serve that came to nothing."""
        if finding.verdict is not None:
            self._parts.desk.withdraw(self.place(ask.scope, partition), finding.verdict)

    def saw(self, case: Case) -> None:
        """Learn from a case in the background; one too many is let go, and one not to be kept."""
        if len(self._cases) >= _WAITING or not case.ask.plan.store:
            self._unwatched(case)
        elif case.verdict.best >= 0:
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

    async def remember(self, patience: Seconds) -> None:
        """Take the evidence of earlier days, as far as that is quick; raises nothing."""
        await self._parts.steps.attempt("evidence", patience, self.catch_up)

    async def follow(self) -> None:
        """Take other workers' evidence as it comes, and tell of requests; runs until cancelled."""
        self._share = SHARE
        while True:
            due = self._parts.clock.monotonic() - self._told_at >= ASKED_INTERVAL
            step = self.tell if due else self.catch_up
            await self._parts.steps.attempt("evidence", _DEADLINE, step)
            await asyncio.sleep(FOLLOW_INTERVAL)

    async def tell(self) -> None:
        """Log the requests that no record tells of, and catch up; raises StoreError."""
        await self._log([])
        await self.catch_up()

    async def hear(self, request: str, agreement: Agreement, tenant: bytes) -> bool:
        """Take a caller's word on an answer that it got; False for one that is not its own.

        Only the first word on a request counts. Raises StoreError.
        """
        records = await self._parts.log.of_request(request)
        hit = next((one for one in records if one.source == "hit"), None)
        if hit is None or not self._parts.names.belongs(hit.namespace, tenant):
            return False
        await self.tell()
        await self._parts.log.say(said(hit, agreement, "caller", self._parts.clock.now()))
        await self.catch_up()
        return True

    async def close(self, grace: float) -> None:
        """Let cases end for `grace` seconds, then give them up."""
        if self._cases:
            await asyncio.wait(self._cases, timeout=grace)
        late = list(self._cases)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        await self._parts.steps.attempt("evidence", Seconds(max(grace, 1.0)), self.tell)
        await self._parts.judge.close()
        await self._parts.worker.close()

    async def _learn_from(self, case: Case) -> None:
        served = case.served
        if served is None:
            source: LabelSource = "shadow" if case.would else "miss"
            places = case.places(case.verdict.best)
            await self._append(await self._judged(case, case.fresh, source, places))
            return
        at = next(at for at, one in enumerate(case.near) if one.item.key == served.key)
        share = self._audit_share(case.verdict)
        hit = self._record(case, at, ("unsure", "" if share else UNWATCHED), "hit")
        await self._append([hit])
        if not share:
            self._unwatched(case)
        if case.verdict.audit and chance(_DRAW, case.request.encode(), b"allowance") < share:
            self._allowance.settle(1.0)
            self._drawn += 1
            try:
                async with self._auditing:
                    await self._audit(case, at, case.verdict.chance * share)
            finally:
                self._drawn -= 1

    def _audit_share(self, verdict: Verdict) -> float:
        """Share of the wanted audits that are made: known before the draw, so that none is biased.

        It falls with the allowance and the hour's money. There are none where they would be so rare
        that their weight could say anything, nor while a slow engine has many before it.
        """
        waits = self._drawn - self._effort.audits_at_once >= _QUEUED
        if waits or not self._effort.audits_per_hour or not verdict.watched:
            return 0.0
        share = self._allowance.share(self._parts.clock.monotonic()) * self._parts.purse.share
        return share if share * verdict.chance >= LEAST_AUDIT else 0.0

    def _unwatched(self, case: Case) -> None:
        if case.served is not None:
            self._parts.desk.unwatch(case.place, case.verdict)

    async def _audit(self, case: Case, at: int, seen: float) -> None:
        """seen: the probability of this audit, whatever becomes of it."""
        served, *others = case.places(at)
        again = partial(ask_again, case.ask, self._effort.max_answer_bytes, self._parts.purse)
        fresh = await self._attempt("audit", again)
        (found,) = await self._judged(case, fresh, "audit", [served])
        await self._append([msgspec.structs.replace(found, probability=seen)])
        if found.verdict == "different":
            forget = partial(self._parts.semantic.forget, [found.entry])
            await self._attempt("semantic_write", forget)
        near = await self._judged(case, fresh, "miss", others)
        await self._append([msgspec.structs.replace(one, probability=seen) for one in near])

    async def _judged(
        self, case: Case, fresh: Answer | None, source: LabelSource, places: Sequence[int]
    ) -> list[Evidence]:
        """The engine's answer beside those of the nearest questions."""
        records = []
        for at in places:
            verdict = await self._attempt("trust", partial(self._judge, case, at, fresh))
            records.append(self._record(case, at, verdict or ("unsure", LOST), source))
        return records

    async def _judge(self, case: Case, at: int, fresh: Answer | None) -> tuple[Agreement, str]:
        entry = None if fresh is None else await self._entry(case, at)
        if entry is None or fresh is None:
            return "unsure", LOST
        cached_text, fresh_text = text_of(entry.answer), text_of(fresh)
        if cached_text is None or fresh_text is None:
            return "unsure", "no_text"
        verdict = await self._parts.judge.judge(case.text, cached_text, fresh_text)
        return verdict.agreement, verdict.how

    async def _entry(self, case: Case, at: int) -> Entry | None:
        near, exact = case.near[at], self._parts.exact
        key = near.item.key
        if case.served is not None and case.served.key == key:
            return case.served
        try:
            entry = exact.peek(key) or await exact.find(key)
        except EntryUnreadable:
            return None
        return entry if entry is not None and entry.question == near.item.text else None

    def _record(
        self, case: Case, at: int, verdict: tuple[Agreement, str], source: LabelSource
    ) -> Evidence:
        agreement, how = verdict
        would = source == "shadow" and at == case.verdict.order[0]
        told = "miss" if source == "shadow" and not would else source
        if told in {"audit", "shadow"} or agreement != "unsure":
            self._parts.sink.emit(Judged(told, agreement))
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
            probability=1.0 if case.served is None else case.verdict.chance,
            mode=case.mode,
            look=desk.packed(case.verdict) if agreement != "unsure" else b"",
            embedder=self._parts.embedder,
        )

    async def _attempt(self, part: Part, step: Callable[[], Awaitable[T]]) -> T | None:
        """The step's result; None where it is skipped."""
        done = await self._parts.steps.attempt(part, _DEADLINE, step)
        return None if isinstance(done, Skipped) else done

    async def _append(self, records: Sequence[Evidence]) -> None:
        """Into the log, and from there to the desk; without the log this process learns alone."""
        steps = self._parts.steps
        logged = await steps.attempt("evidence", _DEADLINE, lambda: self._log(records))
        if not isinstance(logged, Skipped):
            await self._attempt("evidence", self.catch_up)
        elif logged.cause != "deadline":  # else the log may have it all the same
            await self._attempt("trust", lambda: self._take(records))

    async def _log(self, records: Sequence[Evidence]) -> int:
        """Before them go the requests that were decided before them: the order is evidence."""
        parts, self._told_at = self._parts, self._parts.clock.monotonic()
        packed = parts.desk.asked.packed()
        asked = requests(packed, parts.process, parts.clock.now(), parts.embedder)
        return await parts.log.append([*([asked] if packed else []), *one_look(records)])

    async def _take_next(self) -> bool:
        async with self._taking:
            records = await self._parts.log.since(self._seq, _AT_ONCE)
            more = len(records) == _AT_ONCE
            whole = whole_requests(records) if more else records
            if whole:
                self._seq = whole[-1].seq
                await self._take(whole)
        return more

    async def _take(self, records: Sequence[Evidence]) -> None:
        desk, own = self._parts.desk, self._parts.process
        known = [one for one in records if one.embedder == self._parts.embedder]
        news = [one for one in known if one.source != "asked" or one.request_id != own]
        lessons = desk.take(news)
        if lessons:
            try:
                await self._parts.worker.run(lambda: gently(desk.study(lessons), self._share))
            except (WorkerBusy, WorkerClosed):
                return
        told = [one for one in news if one.verdict != "unsure" or one.source in _COMPARED]
        for namespace in {one.namespace for one in told}:
            place = Place(namespace.encode(), b"")
            at = desk.standing(place)
            moved = TrustMoved(namespace, at.score, at.bound, desk.labels(place), desk.told(place))
            self._parts.sink.emit(moved)


def id_of(ask: Ask) -> str:
    """What a request is known by in the evidence."""
    return ask.request_id or ask.key.hex()
