"""The live desk's rule as a player: what its ledger makes of a view, and of its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from askonce.lab.stream import Choice
from askonce.trust.account.asked import Place
from askonce.trust.account.budget import chance
from askonce.trust.account.evidence import Label
from askonce.trust.account.thrift import Spending
from askonce.trust.text.guards import veto

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from askonce.lab.mind import View
    from askonce.trust.account.evidence import Source
    from askonce.trust.account.ledger import Ledger
    from askonce.trust.sight import Manners

_HERE = Place(b"lab", b"lab")
_ALL = Place(b"lab", b"")


class Decided(NamedTuple):
    """What a player does with one question, and what of it will be learned."""

    choice: Choice = Choice()
    chance: float = 1.0
    """Probability that the labels are seen."""
    static: int = -1
    """Place, among those that count, that the static rule served."""


class Live:
    """Cold by the static rule, warm by the budget; made to follow `trust.desk.TrustDesk`."""

    def __init__(
        self, words: Sequence[str], ledger: Ledger, manners: Manners, seed: int = 0
    ) -> None:
        """Words by row; the ledger fresh."""
        self._words = words
        self._ledger = ledger
        self._manners = manners
        self._seed = b"%d" % seed
        self._spending = Spending(manners.thrift)
        self._labels = 0.0
        self._settled = False
        """Evidence has opened a level, or has shown the static rule wrong."""
        self._mistaken = False

    def decide(self, query: int, view: View | None) -> Decided:
        """As `TrustDesk.decide`."""
        self._spending.requests += 1
        request = query.to_bytes(8, "big")
        decision = self._ledger.decide(_HERE, None if view is None else view.odds, request)
        if view is None:
            return Decided()
        if self._cold():
            return self._static(query, view)
        if not decision.serve:
            return Decided()
        return self._served(query, int(view.kept[view.look.best]), decision.chance)

    def note(self, view: View, told: NDArray[np.bool_], decided: Decided) -> bool:
        """Take what the view's neighbours turned out to be; returns whether it told of a drift."""
        best = view.look.best
        source: Source = "audit" if decided.choice.audited else "miss"
        label = Label(view.odds, not told[best], source, decided.chance)
        self._mistaken |= decided.static >= 0 and not told[decided.static]
        self._labels += 1
        drifted = self._ledger.learn(_HERE, label)
        if drifted:
            self._labels = max(self._labels, self._manners.enough)
        if self._labels < self._manners.enough:
            self._settled = self._ledger.opened(_ALL)
        return drifted

    def _cold(self) -> bool:
        if self._mistaken or self._labels >= self._manners.enough:
            return False
        return not self._settled

    def _static(self, query: int, view: View) -> Decided:
        near = view.near
        for at, (row, cosine) in enumerate(zip(near.rows.tolist(), near.cosines, strict=True)):
            if not cosine >= self._manners.floor:
                break
            if veto(self._words[query], self._words[row]) is None:
                decided = self._served(query, int(view.kept[at]), self._manners.cold_audit)
                return decided._replace(static=at)
        return Decided()

    def _served(self, query: int, at: int, wanted: float) -> Decided:
        cold = self._cold()
        share = self._spending.chance(wanted, cold=cold)
        self._spending.hit(share, cold=cold)
        drawn = chance(self._seed, query.to_bytes(8, "big"), b"audit") < share
        if drawn:
            self._spending.audits.note(told=True)
        return Decided(Choice(at, drawn), share if drawn else 1.0)
