"""Answers that callers share: another caller's question must have brought the same one first.

A caller who wants others to be told something wrong can ask for it in words close to theirs. What
comes of that waits here, unserved to others, until the engine has said the same to somebody else.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from askonce.cache.audits import text_of
from askonce.events import Confirmation
from askonce.policy.confirmation import is_open, vouched_by
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.cache.ask import Ask
    from askonce.cache.steps import Steps
    from askonce.cache.write_back import WriteBack
    from askonce.canonical.entry import Entry
    from askonce.ports import Judge, Sink
    from askonce.tiers.exact import ExactTier

Tier = Literal["exact", "semantic"]

_WAITING = 64
"""Comparisons under way at most; beyond it one more confirms nothing."""
_DEADLINE = Seconds(60.0)


class Wanted(NamedTuple):
    """What the operator asks for."""

    callers: int
    """So many others must have been told the same."""
    exact: bool
    """The very same request waits for it as well."""


class Confirmations:
    """Says what may serve whom, and finds out more behind the answers."""

    def __init__(
        self,
        wanted: Wanted,
        *,
        exact: ExactTier,
        writer: WriteBack | None,
        judge: Judge,
        steps: Steps,
        sink: Sink,
    ) -> None:
        """judge: not closed here."""
        self._wanted = wanted
        self._exact = exact
        self._writer = writer
        self._judge = judge
        self._steps = steps
        self._sink = sink
        self._cases: set[asyncio.Task[None]] = set()

    def opens(self, entry: Entry, caller: bytes, tier: Tier) -> bool:
        """Whether the entry may serve this caller in this tier."""
        if tier == "exact" and not self._wanted.exact:
            return True
        return is_open(entry, caller, self._wanted.callers)

    def withheld(self) -> None:
        """An entry was not served."""
        self._sink.emit(Confirmation("withheld"))

    def saw(self, withheld: Sequence[Entry], question: str, fresh: Entry) -> None:
        """Compare what was withheld with what the engine said instead, in the background."""
        if len(self._cases) < _WAITING:
            task = asyncio.create_task(self._compare_all(withheld, question, fresh))
            self._cases.add(task)
            task.add_done_callback(self._cases.discard)

    async def settled(self) -> None:
        """Wait until no comparison is under way."""
        while self._cases:
            await asyncio.wait(list(self._cases))

    async def close(self, grace: float) -> None:
        """Let comparisons end for `grace` seconds, then give them up."""
        if self._cases:
            await asyncio.wait(self._cases, timeout=grace)
        late = list(self._cases)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _compare_all(self, withheld: Sequence[Entry], question: str, fresh: Entry) -> None:
        for old in withheld:
            step = partial(self._compare, old, question, fresh)
            await self._steps.attempt("evidence", _DEADLINE, step)

    async def _compare(self, old: Entry, question: str, fresh: Entry) -> None:
        told, said = text_of(old.answer), text_of(fresh.answer)
        if told is None or said is None:
            self._sink.emit(Confirmation("unsure"))
            return
        verdict = await self._judge.judge(question, told, said)
        if verdict.agreement != "same":
            self._sink.emit(Confirmation(verdict.agreement))
        elif old.key == fresh.key:  # which has taken its place
            await self._vouch(fresh, old.author)
        else:
            await self._vouch(old, fresh.author)

    async def _vouch(self, entry: Entry, caller: bytes) -> None:
        """Note it with the entry, unless that has gone or changed meanwhile."""
        now = self._exact.peek(entry.key) or await self._exact.find(entry.key)
        if now is None or now.created_at != entry.created_at:
            return
        known = vouched_by(now, caller)
        self._exact.hold(known)
        self._sink.emit(Confirmation("same"))
        if self._writer is None:
            await self._exact.keep(known)
        else:
            self._writer.take(known)


class Gate:
    """What one caller may be answered with; without confirmations, everything."""

    def __init__(self, confirmations: Confirmations | None, caller: bytes) -> None:
        """Nothing is withheld yet."""
        self._confirmations = confirmations
        self._caller = caller
        self.withheld: list[Entry] = []

    def opens(self, entry: Entry, tier: Tier) -> bool:
        """Whether the entry may serve."""
        known = self._confirmations
        return known is None or known.opens(entry, self._caller, tier)

    def withholds(self, entry: Entry, tier: Tier) -> bool:
        """Whether it may not, which is counted, and remembered for `told`."""
        known = self._confirmations
        if known is None or known.opens(entry, self._caller, tier):
            return False
        self.withheld.append(entry)
        known.withheld()
        return True

    def told(self, ask: Ask, fresh: Entry | None) -> None:
        """Let what was withheld be compared with what the engine said instead."""
        if self._confirmations is not None and self.withheld and fresh is not None:
            question = "" if ask.question is None else ask.question.text
            self._confirmations.saw(self.withheld, question, fresh)
