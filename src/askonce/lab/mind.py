"""What players know of pairs and answers, as `trust.desk.TrustDesk` would; they may share it."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from askonce.trust.answers import SameAnswers
from askonce.trust.prior import shipped
from askonce.trust.verifier import Learner, Look, score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from askonce.lab.measured import Sight
    from askonce.lab.stream import Near

_HEAVIEST = 5.0


class View(NamedTuple):
    """One question beside what counts of its neighbours."""

    look: Look
    near: Near
    """Those that were stored since the last drift."""
    kept: NDArray[np.intp]
    """Their places among all the near."""

    @property
    def odds(self) -> float:
        """Log odds that the best one's answer is right."""
        return float(self.look.logits.max())


class Mind:
    """A verifier, the answers that it takes for one, and how old entries are."""

    def __init__(self, sight: Sight, remembered: int) -> None:
        """remembered: pairs that the verifier learns from."""
        self._sight = sight
        self._learner = Learner(shipped(), sight.dim, limit=remembered)
        self._answers = SameAnswers()
        self._stored: dict[int, int] = {}
        self._tick = 0
        self._since = 0

    def view(self, query: int, near: Near) -> View | None:
        """As `TrustDesk.look`; None where nothing near counts."""
        self._tick += 1
        kept = self.current(near)
        if not len(kept):
            return None
        near = near.only(kept) if len(kept) < len(near.rows) else near
        seen = self._sight.see(query, near)
        answers = [self._answers.of(name, name) for name in map(_name, near.rows.tolist())]
        return View(score(self._learner.coefficients, seen, answers), near, kept)

    def store(self, query: int) -> None:
        """The question that was viewed last has become an entry."""
        self._stored[query] = self._tick

    def learn(self, query: int, view: View, told: NDArray[np.bool_], weight: float) -> None:
        """Take the labels of a view's neighbours, as `TrustDesk.study`; refit when it is time."""
        labels = told.tolist()
        self._answers.place(
            _name(query), dict(zip(map(_name, view.near.rows.tolist()), labels, strict=True))
        )
        self._learner.learn(view.look, labels, min(weight, _HEAVIEST))
        if self._learner.due:
            self._learner.refit()

    def drift(self) -> None:
        """What was stored before now counts no more."""
        self._since = self._tick

    def current(self, near: Near) -> NDArray[np.intp]:
        """Places of those that count."""
        if not self._since:
            return np.arange(len(near.rows))
        ages = np.array([self._stored.get(row, 0) for row in near.rows.tolist()], dtype=np.int64)
        return np.flatnonzero(ages >= self._since)

    def copy(self) -> Mind:
        """Another that knows the same, and learns for itself from now on."""
        other = copy(self)
        other._learner, other._answers = deepcopy((self._learner, self._answers))
        other._stored = dict(self._stored)
        return other


def _name(row: int) -> bytes:
    return row.to_bytes(8, "big")
