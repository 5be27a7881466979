"""What players know of pairs and answers, as `trust.desk.TrustDesk` would; they may share it."""

from __future__ import annotations

from copy import deepcopy
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


class Known:
    """A verifier, the answers that it takes for one, and how old entries are."""

    def __init__(self, dim: int, remembered: int) -> None:
        """dim: of the vectors. remembered: pairs that the verifier learns from."""
        self.learner = Learner(shipped(), dim, limit=remembered)
        self.answers = SameAnswers()
        self.stored: dict[int, int] = {}
        """By row, the question that it came with, counted from 1."""
        self.tick = 0
        self.since = 0
        """The question that told of the last drift."""


class Mind:
    """Sees with a sight, and learns."""

    def __init__(self, sight: Sight, known: Known) -> None:
        """known: is changed."""
        self._sight = sight
        self._known = known

    def view(self, query: int, near: Near) -> View | None:
        """As `TrustDesk.look`; None where nothing near counts."""
        known = self._known
        known.tick += 1
        kept = self._current(near)
        if not len(kept):
            return None
        near = near.only(kept) if len(kept) < len(near.rows) else near
        seen = self._sight.see(query, near)
        answers = [known.answers.of(name, name) for name in map(_name, near.rows.tolist())]
        return View(score(known.learner.coefficients, seen, answers), near, kept)

    def store(self, query: int) -> None:
        """The question that was viewed last has become an entry."""
        self._known.stored[query] = self._known.tick

    def learn(self, query: int, view: View, told: NDArray[np.bool_], weight: float) -> None:
        """Take the labels of a view's neighbours, as `TrustDesk.study`; refit when it is time."""
        learner, labels = self._known.learner, told.tolist()
        names = map(_name, view.near.rows.tolist())
        self._known.answers.place(_name(query), dict(zip(names, labels, strict=True)))
        learner.learn(view.look, labels, min(weight, _HEAVIEST))
        if learner.due:
            learner.refit()

    def drift(self) -> None:
        """What was stored before now counts no more."""
        self._known.since = self._known.tick

    def copy(self) -> Mind:
        """Another that knows the same, and learns for itself from now on."""
        return Mind(self._sight, deepcopy(self._known))

    def _current(self, near: Near) -> NDArray[np.intp]:
        """Places of those that count."""
        stored, since = self._known.stored, self._known.since
        if not since:
            return np.arange(len(near.rows))
        ages = np.array([stored.get(row, 0) for row in near.rows.tolist()], dtype=np.int64)
        return np.flatnonzero(ages >= since)


def _name(row: int) -> bytes:
    return row.to_bytes(8, "big")
