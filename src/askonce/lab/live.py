"""The live desk's rule as a player: verifier, ledger, and what the judge says of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from askonce.lab.stream import Choice, Near
from askonce.trust.answers import SameAnswers
from askonce.trust.asked import Place
from askonce.trust.budget import chance
from askonce.trust.evidence import Label
from askonce.trust.guards import veto
from askonce.trust.prior import shipped
from askonce.trust.thrift import Spending
from askonce.trust.verifier import Learner, Look, score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from askonce.lab.measured import Sight
    from askonce.trust.ledger import Ledger
    from askonce.trust.sight import Manners

_HERE = Place(b"lab", b"lab")
_ALL = Place(b"lab", b"")
_HEAVIEST = 5.0


class _Last(NamedTuple):
    """What was decided last, until its labels come."""

    look: Look
    kept: NDArray[np.intp]
    """Places among the near that count since the last drift."""
    static: int = -1
    """Place, among the kept, that the static rule served."""
    chance: float = 1.0
    """Probability that the labels are seen."""


class Live:
    """Cold by the static rule, warm by the budget; made to follow `trust.desk.TrustDesk`."""

    def __init__(
        self,
        words: Sequence[str],
        sight: Sight,
        ledger: Ledger,
        manners: Manners,
        seed: int = 0,
    ) -> None:
        """Words by row; the ledger fresh."""
        self._words = words
        self._sight = sight
        self._ledger = ledger
        self._manners = manners
        self._seed = b"%d" % seed
        self._learner = Learner(shipped(), sight.dim, limit=manners.remembered)
        self._answers = SameAnswers()
        self._spending = Spending(manners.thrift)
        self._labels = 0.0
        self._settled = False
        """Evidence has opened a level, or has shown the static rule wrong."""
        self._mistaken = False
        self._last: _Last | None = None
        self._stored: dict[int, int] = {}
        self._tick = 0
        self._since = 0

    def choose(self, query: int, near: Near) -> Choice:
        """As `TrustDesk.judge`."""
        self._tick += 1
        self._spending.requests += 1
        request = query.to_bytes(8, "big")
        kept = self._current(near)
        if not len(kept):
            self._last = None
            self._ledger.decide(_HERE, None, request)
            return Choice()
        near = near.only(kept)
        look = self._look(query, near)
        decision = self._ledger.decide(_HERE, float(look.logits.max()), request)
        self._last = _Last(look, kept)
        if self._cold():
            return self._static(self._last, query, near)
        if not decision.serve:
            return Choice()
        return self._served(query, int(kept[look.best]), decision.chance)

    def learn(self, query: int, near: Near, same: NDArray[np.bool_], choice: Choice) -> None:
        """As `TrustDesk.take` and `TrustDesk.study`."""
        if choice.serve < 0:
            self._stored[query] = self._tick
        if self._last is None:
            return
        look, kept, static, seen = self._last
        told = same[kept]
        label = Label(
            float(look.logits.max()),
            not told[look.best],
            "audit" if choice.audited else "miss",
            seen,
        )
        self._note(label, mistaken=static >= 0 and not told[static])
        said = {_name(row): bool(one) for row, one in zip(near.rows[kept], told, strict=True)}
        self._answers.place(_name(query), said)
        self._learner.learn(look, told.tolist(), min(1 / seen, _HEAVIEST))
        if self._learner.due:
            self._learner.refit()

    def _current(self, near: Near) -> NDArray[np.intp]:
        ages = np.array([self._stored.get(row, 0) for row in near.rows.tolist()], dtype=np.int64)
        return np.flatnonzero(ages >= self._since)

    def _look(self, query: int, near: Near) -> Look:
        rows = near.rows.tolist()
        seen = self._sight.see(query, near)
        answers = [self._answers.of(_name(row), _name(row)) for row in rows]
        return score(self._learner.coefficients, seen, answers)

    def _cold(self) -> bool:
        if self._mistaken or self._labels >= self._manners.enough:
            return False
        return not self._settled

    def _static(self, last: _Last, query: int, near: Near) -> Choice:
        for at, (row, cosine) in enumerate(zip(near.rows.tolist(), near.cosines, strict=True)):
            if not cosine >= self._manners.floor:
                break
            if veto(self._words[query], self._words[row]) is None:
                self._last = last._replace(static=at)
                return self._served(query, int(last.kept[at]), self._manners.cold_audit)
        return Choice()

    def _served(self, query: int, at: int, wanted: float) -> Choice:
        cold = self._cold()
        share = self._spending.chance(wanted, cold=cold)
        self._spending.hit(share, cold=cold)
        drawn = chance(self._seed, query.to_bytes(8, "big"), b"audit") < share
        if drawn and self._last is not None:
            self._spending.audits.note(told=True)
            self._last = self._last._replace(chance=share)
        return Choice(at, drawn)

    def _note(self, label: Label, *, mistaken: bool) -> None:
        self._mistaken |= mistaken
        self._labels += 1
        if self._ledger.learn(_HERE, label):
            self._since = self._tick
            self._labels = max(self._labels, self._manners.enough)
        if self._labels < self._manners.enough:
            self._settled = self._ledger.standing(_ALL).open


def _name(row: int) -> bytes:
    return int(row).to_bytes(8, "big")
