"""One request's way through the semantic tier: what was found, and what becomes of it."""

from __future__ import annotations

import asyncio
from functools import cached_property, partial
from typing import TYPE_CHECKING

from askonce.cache.case import Case
from askonce.cache.learning import id_of
from askonce.cache.steps import Skipped
from askonce.canonical.key import partition_key
from askonce.errors import EntryUnreadable
from askonce.flow import Hit
from askonce.ports import IndexedText
from askonce.tiers.semantic import one_question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.cache.ask import Ask
    from askonce.cache.confirm import Gate
    from askonce.cache.parts import Parts
    from askonce.canonical.entry import Entry
    from askonce.canonical.request import Question
    from askonce.flow import LookSemantic, State
    from askonce.ports import Neighbour
    from askonce.tiers.semantic import Finding


class ByMeaning:
    """Looks for the same question in other words; later indexes, forgets and teaches."""

    def __init__(self, parts: Parts, ask: Ask, gate: Gate) -> None:
        """Nothing happens before `look`."""
        self._parts = parts
        self._ask = ask
        self._gate = gate
        self._finding: Finding | None = None
        self._would = False
        """There would be a hit, were it not for shadow mode."""
        self._lost: list[bytes] = []
        self._one: dict[bytes, bool] = {}
        """What was found of candidates' histories, by key."""
        self.indexable = ask.plan.semantic_ttl > 0
        """Whether a fresh answer may serve other questions."""

    async def look(self, state: LookSemantic) -> State:
        """A hit, or what comes next; raises nothing."""
        found = await self._parts.steps.attempt(
            "semantic", self._parts.limits.semantic_deadline, self._search
        )
        after = self._after(state, found)
        learning, finding = self._parts.learning, self._finding
        if learning is not None and finding is not None and not isinstance(after, Hit):
            unserved = partial(learning.unserved, finding, self._ask, self._partition)
            self._parts.steps.guard("trust", unserved)
        return after

    def _after(self, state: LookSemantic, found: tuple[Entry, Neighbour] | str | Skipped) -> State:
        if isinstance(found, str):
            return state.missed(found)
        if isinstance(found, Skipped):
            self.indexable = found.cause != "too_long"
            return state.missed(found.detail)
        entry, neighbour = found
        return state.found(entry, neighbour.score, self._parts.clock.now())

    async def _search(self) -> tuple[Entry, Neighbour] | str:
        """The first proven candidate whose entry is alive, or why there is none."""
        semantic, question = self._parts.semantic, self._ask.question
        learning = self._parts.learning
        if semantic is None or question is None:
            return ""
        mode = "on" if learning is None else learning.mode(self._ask.scope)
        if mode == "off":
            self.indexable = False
            return ""
        end = self._parts.clock.monotonic() + self._parts.limits.semantic_deadline
        self._finding = finding = await semantic.find(self._partition, question.text)
        if learning is not None:
            since = learning.drifted_at(self._ask.scope)
            if question.open or since:
                finding.near = await self._fitting(question, finding.near, since)
            await learning.weigh(finding, self._ask, self._partition, until=end)
        served = await self._first_fit(question, finding)
        if served is None:
            return "unconfirmed" if self._gate.withheld else finding.detail
        self._would = mode == "shadow"
        return "shadow_hit" if self._would else served

    async def _first_fit(
        self, question: Question, finding: Finding
    ) -> tuple[Entry, Neighbour] | None:
        """The best proven candidate that lives, belongs to this context and is confirmed."""
        for neighbour in finding.passed():
            entry = await self._entry_of(neighbour)
            if entry is None:
                self._lost.append(neighbour.item.key)
            elif not await self._is_one(question, entry):
                finding.estranged()
            elif not self._gate.withholds(entry, "semantic"):
                return entry, neighbour
        return None

    async def _fitting(
        self, question: Question, near: Sequence[Neighbour], since: float
    ) -> list[Neighbour]:
        """Candidates that can teach about texts.

        Those whose histories leave it at them, and whose answers are no older than the last drift.
        """
        kept = []
        for neighbour in near:
            entry = await self._entry_of(neighbour)
            if entry is None:
                self._lost.append(neighbour.item.key)
            elif entry.created_at >= since and await self._is_one(question, entry):
                kept.append(neighbour)
        return kept

    async def _is_one(self, question: Question, entry: Entry) -> bool:
        """Others have their turn in between, and the deadline: callers choose how much is read."""
        known = self._one.get(entry.key)
        if known is None:
            if question.open:
                await asyncio.sleep(0)
            known = self._one[entry.key] = one_question(question, entry)
        return known

    async def _entry_of(self, neighbour: Neighbour) -> Entry | None:
        exact, key = self._parts.exact, neighbour.item.key
        entry = exact.peek(key)
        if entry is None or not self._gate.opens(entry, "semantic"):  # a worker may know more
            try:
                entry = await exact.find(key)
            except EntryUnreadable:
                return None
        if entry is None or entry.question != neighbour.item.text or not self._ours(entry):
            return None
        return entry if entry.semantic_until > self._parts.clock.now() else None

    def _ours(self, entry: Entry) -> bool:
        """Whether it is in reach of the one who asks, whatever a shared index says."""
        origin, scope = entry.origin, self._ask.scope
        return (origin.tenant, origin.namespace) == (scope.tenant.hex(), scope.namespace)

    async def keep(self, entry: Entry) -> None:
        """Index the question of an entry that is stored; raises nothing."""
        parts, semantic = self._parts, self._parts.semantic
        if semantic is None or not entry.semantic_until:
            return
        item = IndexedText(entry.key, entry.question, entry.semantic_until)
        read = None if self._finding is None else self._finding.read
        kept = await parts.steps.attempt(
            "semantic_write",
            parts.limits.write_deadline,
            lambda: semantic.keep(self._partition, item, read),
        )
        if isinstance(kept, Skipped) and kept.cause == "busy" and parts.late is not None:
            parts.late.take(self._partition, item)

    async def forget_lost(self) -> None:
        """Take questions out of the index whose entries are gone; raises nothing."""
        parts, semantic = self._parts, self._parts.semantic
        if semantic is not None and self._lost:
            deadline = parts.limits.write_deadline
            await parts.steps.attempt(
                "semantic_write", deadline, lambda: semantic.forget(self._lost)
            )

    def tell(self, served: Entry | None, kept: Entry | None) -> None:
        """Let the case teach, where there are two answers to compare or may be.

        served: what a hit by meaning answered with. kept: the engine's, as it is stored.
        """
        learning, finding = self._parts.learning, self._finding
        if learning is None or finding is None or finding.verdict is None:
            return
        if served is None and kept is None:
            return
        learning.saw(
            Case(
                place=learning.place(self._ask.scope, self._partition),
                request=id_of(self._ask),
                mode="shadow" if learning.mode(self._ask.scope) == "shadow" else "on",
                text=finding.text,
                near=finding.near,
                verdict=finding.verdict,
                served=served,
                fresh=None if kept is None else kept.answer,
                would=self._would,
                ask=self._ask,
            )
        )

    @cached_property
    def _partition(self) -> bytes:
        question = self._ask.question
        return b"" if question is None else partition_key(self._ask.scope, question)
