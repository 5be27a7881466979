"""What is spent to know: audits are paid by what hits save, and are few where they tell nothing.

All is counted in chances and not in draws, before the draw, so an audit's probability is known and
neither luck nor a slow engine overdraws the account: the chances add up to no more than was earned.
"""

from __future__ import annotations

import msgspec

from askonce.trust.account.evidence import LEAST_AUDIT

UNWATCHED = "unwatched"
"""How the record of a hit is marked of which no audit was possible."""

_KNOWN = 4.0
"""Comparisons with a verdict that are assumed before any was made."""
_MEMORY = 50.0
"""Comparisons after which one has faded to 1/e."""


class Thrift(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent in one namespace, in engine calls."""

    of_hits: float = 0.2
    """Audits as a share of the hits, each of which saves a call."""
    of_requests: float = 0.02
    """Audits before evidence decides, as a share of all requests."""


class Telling:
    """How often the latest comparisons of answers brought a verdict."""

    __slots__ = ("_all", "_told")

    def __init__(self) -> None:
        """A judge is thought able to tell until it is not."""
        self._all = self._told = _KNOWN

    @property
    def share(self) -> float:
        """Those with a verdict among all, the newest first of all."""
        return self._told / self._all

    def note(self, *, told: bool) -> None:
        """One more comparison, with a verdict or without."""
        kept = 1 - 1 / _MEMORY
        self._all = self._all * kept + 1
        self._told = self._told * kept + told


class Spending:
    """What one namespace has earned and spent."""

    __slots__ = ("_cold", "_planned", "_thrift", "audits", "hits", "requests")

    def __init__(self, thrift: Thrift) -> None:
        """Nothing earned yet."""
        self._thrift = thrift
        self.requests = 0
        self.hits = 0
        self._planned = 0.0
        self._cold = 0.0
        self.audits = Telling()

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
        useful = min(1.0, 2 * self.audits.share) ** 2
        affordable = min(max(wanted * useful, LEAST_AUDIT), wanted, left)
        return affordable if affordable >= LEAST_AUDIT else 0.0

    def hit(self, chance: float, *, cold: bool) -> None:
        """A hit was served, and was to be audited so likely."""
        self.hits += 1
        self._planned += chance
        self._cold += chance if cold else 0.0
