"""What one namespace has beside its ledger."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from askonce.trust.account.thrift import Telling

if TYPE_CHECKING:
    from askonce.trust.account.thrift import Spending
    from askonce.trust.verifier import Learner

_MOST_SCARS = 4096
SIGHTED = 0.5
"""Share of comparisons that must bring a verdict for evidence to decide."""


class Namespace:
    """What one namespace has beside its ledger."""

    __slots__ = ("labels", "learner", "misses", "mistaken", "open", "since", "spending")

    def __init__(self, learner: Learner, spending: Spending) -> None:
        """Nothing is known yet."""
        self.learner = learner
        self.spending = spending
        self.misses = Telling()
        self.labels = 0.0
        self.mistaken = False
        """The static rule was shown to be wrong."""
        self.open = False
        """Evidence has opened a level."""
        self.since = 0.0
        """When the last drift was noticed."""

    @property
    def told(self) -> float:
        """How often the judge can tell, of hits or of what might be one, whichever is less."""
        return min(self.spending.audits.share, self.misses.share)

    @property
    def blind(self) -> bool:
        """It mostly cannot, so the verdicts that there are may be the rosy ones."""
        return self.told < SIGHTED

    def missed(self, *, told: bool, would: bool) -> None:
        """One more comparison behind a miss; would: evidence would have served it.

        Where nothing is served nothing is audited, so there such a one speaks for the hits: else a
        judge that has got better could never show it.
        """
        if would and self.mistaken and self.blind:
            self.spending.audits.note(told=told)
        self.misses.note(told=told)


class Scars:
    """What namespaces that had to be forgotten must not do again: bounded, the oldest leave first.

    Who brings many namespaces could else have the verdict against a fixed rule forgotten, or the
    drift since which older entries serve nobody.
    """

    def __init__(self) -> None:
        """None yet."""
        self._of: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()

    def keep(self, name: bytes, lost: Namespace) -> None:
        """Take what is to be remembered of one that is forgotten."""
        if lost.mistaken or lost.since:
            self._of[name] = (lost.mistaken, lost.since)
        if len(self._of) > _MOST_SCARS:
            self._of.popitem(last=False)

    def restore(self, name: bytes, fresh: Namespace) -> None:
        """Give it back to one that returns."""
        fresh.mistaken, fresh.since = self._of.pop(name, (False, 0.0))
