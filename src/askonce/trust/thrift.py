"""What is spent to know: audits are paid by what hits save, and are few where they tell nothing.

All is counted in chances and not in draws, before the draw, so an audit's probability is known and
neither luck nor a slow engine overdraws the account: the chances add up to no more than was earned.
"""

from __future__ import annotations

import msgspec

from askonce.trust.evidence import LEAST_AUDIT

UNWATCHED = "unwatched"
"""How the record of a hit is marked of which no audit was possible."""

_KNOWN = 4.0
"""Audits with a verdict that are assumed before any was made."""
_MEMORY = 50.0
"""Audits after which one has faded to 1/e."""


class Thrift(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent in one namespace, in engine calls."""

    of_hits: float = 0.2
    """Audits as a share of the hits, each of which saves a call."""
    of_requests: float = 0.02
    """Audits before evidence decides, as a share of all requests."""


class Spending:
    """What one namespace has earned and spent, and how often its audits brought a verdict."""

    __slots__ = ("_audited", "_cold", "_planned", "_thrift", "_told", "hits", "requests")

    def __init__(self, thrift: Thrift) -> None:
        """Nothing earned yet."""
        self._thrift = thrift
        self.requests = 0
        self.hits = 0
        self._planned = 0.0
        self._cold = 0.0
        self._audited = self._told = _KNOWN

    @property
    def told(self) -> float:
        """Share of the audits that brought a verdict, the newest first of all."""
        return self._told / self._audited

    @property
    def planned(self) -> float:
        """Audits so far, as their chances add up."""
        return self._planned

    def chance(self, wanted: float, *, cold: bool) -> float:
        """How likely the next hit is to be audited, if it were `wanted` of a judge who can tell.

        0, or at least `LEAST_AUDIT`: what is seen less often could not be weighed.
        """
        left = self._thrift.of_hits * (self.hits + 1) - self._planned
        if cold:
            left = min(left, self._thrift.of_requests * self.requests - self._cold)
        useful = min(1.0, 2 * self.told) ** 2
        affordable = min(max(wanted * useful, LEAST_AUDIT), wanted, left)
        return affordable if affordable >= LEAST_AUDIT else 0.0

    def hit(self, chance: float, *, cold: bool) -> None:
        """A hit was served, and was to be audited so likely."""
        self.hits += 1
        self._planned += chance
        self._cold += chance if cold else 0.0

    def audited(self, *, told: bool) -> None:
        """An audit ended, with a verdict or without."""
        kept = 1 - 1 / _MEMORY
        self._audited = self._audited * kept + 1
        self._told = self._told * kept + told
