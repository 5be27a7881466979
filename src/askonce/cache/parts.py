"""What the leaders of all flights work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from askonce.cache.ask import Limits, Look
from askonce.cache.confirm import Confirmations
from askonce.cache.fleet import Fleet
from askonce.cache.late import LateIndex
from askonce.cache.learning import Learning
from askonce.cache.steps import Skipped, Steps
from askonce.cache.write_back import WriteBack
from askonce.flow import Hit, fresh_hit
from askonce.policy.doorkeeper import Doorkeeper
from askonce.ports import Clock, Sink
from askonce.tiers.exact import ExactTier
from askonce.tiers.semantic import SemanticTier

if TYPE_CHECKING:
    from askonce.flow import Plan


class Parts(msgspec.Struct, frozen=True):
    """What every leader works with."""

    exact: ExactTier
    semantic: SemanticTier | None
    steps: Steps
    limits: Limits
    clock: Clock
    sink: Sink
    learning: Learning | None = None
    """Without it the floor and the guards decide about answers by meaning."""
    writer: WriteBack | None = None
    """Where the store takes many entries at once."""
    fleet: Fleet | None = None
    """Where replicas share engine calls."""
    doorkeeper: Doorkeeper | None = None
    """Where answers are stored only when their request comes again."""
    stamp: Callable[[], int] = int
    """The newest revocation that is known, for entries and flights to come."""
    confirmations: Confirmations | None = None
    """Where callers share answers."""
    late: LateIndex | None = None
    """Where questions are to be indexed that the embedder had no time for."""

    def peek(self, key: bytes, plan: Plan, author: bytes) -> Hit | None:
        """The hot exact hit; no I/O."""
        entry = self.steps.guard("hot", lambda: self.exact.peek(key))
        if entry is None or isinstance(entry, Skipped):
            return None
        hit = fresh_hit(entry, "exact", plan, self.clock.now())
        return hit if hit is not None and self.opens(hit, author) else None

    async def look(self, key: bytes) -> Look:
        """What the store holds; raises nothing."""
        if self.steps.guard("store", lambda: self.exact.surely_absent(key)) is True:
            return _ABSENT
        found = await self.steps.attempt(
            "store", self.limits.exact_deadline, lambda: self.exact.find(key)
        )
        if isinstance(found, Skipped):
            return Look(None, found.detail, away=found.cause in {"error", "breaker"})
        return Look(found)

    def opens(self, hit: Hit, author: bytes) -> bool:
        """Whether this caller may be answered so."""
        known = self.confirmations
        return known is None or known.opens(hit.entry, author, hit.tier)


_ABSENT = Look()
