"""What is known about how often a score is wrong: labels, counted in cells of the score.

A score is the log odds that the candidate's answer is right. Inside a cell the chance of seeing a
label depends on nothing else, so a plain mean over the labels of a cell is unbiased whether they
came from misses or from audits; weights come in only when cells are put together. That is why one
wrong audit moves a cell by one label and not by one over its probability.
"""

from __future__ import annotations

from math import log
from typing import Literal

import msgspec

CELLS = 42
LOWEST = -2.0
STEP = 0.25
"""Cell 0 is below LOWEST, each next one STEP higher, the last one open to the top."""

_HIGHEST = LOWEST + STEP * (CELLS - 2)

Source = Literal["miss", "audit", "operator", "caller"]
"""`miss`: a fresh answer against what would have been served; `audit`: the same after a hit."""

TRUST: dict[Source, float] = {"miss": 1.0, "audit": 1.0, "operator": 1.0, "caller": 0.25}
"""What one label counts."""

LEAST_AUDIT = 0.02
"""No hit is audited with less probability, or its weight could say anything."""

_COSINE_EVEN = 0.85
_COSINE_SCALE = 25.0
_LEAST = 1e-9
_HUGE = 1e9


class Label(msgspec.Struct, frozen=True):
    """One verdict on one candidate."""

    score: float
    """Log odds at the time of the decision, before the verdict was known."""
    wrong: bool
    source: Source
    chance: float = 1.0
    """The probability with which it was going to be seen."""


def odds_of_probability(probability: float) -> float:
    """Score of a verifier that says how likely the answer is right."""
    return log(max(probability, _LEAST) / max(1 - probability, _LEAST))


def odds_of_cosine(cosine: float) -> float:
    """Score where there is no verifier: even odds at 0.85, 43 to 1 at 1; labels correct it."""
    return _COSINE_SCALE * (cosine - _COSINE_EVEN)


def cell_of(score: float) -> int:
    """The cell of a score; what is no number is in the lowest."""
    if not score >= LOWEST:
        return 0
    return 1 + int((min(score, _HIGHEST) - LOWEST) / STEP)


def middle(cell: int) -> float:
    """The score that stands for a cell."""
    return LOWEST + STEP * (cell - 0.5)


MIDDLES = tuple(middle(cell) for cell in range(CELLS))


class Cells(msgspec.Struct):
    """Counts by cell, old ones fading; every step is O(1) and the size is fixed.

    Counts are kept in units that grow with time, which fades the old without touching them.
    """

    memory: float = 5_000.0
    """Requests after which a count has faded to 1/e."""
    sight: float = 800.0
    """The same for how often each cell is asked for."""
    unit: float = 1.0
    asked_unit: float = 1.0
    labels: list[float] = msgspec.field(default_factory=lambda: [0.0] * CELLS)
    wrong: list[float] = msgspec.field(default_factory=lambda: [0.0] * CELLS)
    served: list[float] = msgspec.field(default_factory=lambda: [0.0] * CELLS)
    asked: list[float] = msgspec.field(default_factory=lambda: [0.0] * CELLS)
    requests: float = 0.0
    recent: float = 0.0
    """All requests, candidate or not, in units of `asked_unit`."""

    def ask(self, cell: int | None) -> None:
        """One request came, with its best candidate in this cell, or with none."""
        self.unit /= 1 - 1 / self.memory
        self.asked_unit /= 1 - 1 / self.sight
        self.requests += self.unit
        self.recent += self.asked_unit
        if cell is not None:
            self.asked[cell] += self.asked_unit
        if self.asked_unit > _HUGE:
            self._rescale()

    def serve(self, cell: int) -> None:
        """The request was answered from the cache."""
        self.served[cell] += self.unit

    def withdraw(self, cell: int) -> None:
        """One that was to be answered so was not, in the end."""
        self.served[cell] = max(0.0, self.served[cell] - self.unit)

    def add(self, cell: int, wrong: float, weight: float) -> None:
        """One verdict."""
        self.labels[cell] += self.unit * weight
        self.wrong[cell] += self.unit * weight * wrong

    def counts(self, of: list[float]) -> list[float]:
        """One of the lists as counts."""
        return [one / self.unit for one in of]

    def shares(self) -> list[float]:
        """The share of the recent requests with their best candidate in each cell."""
        return [one / self.recent for one in self.asked] if self.recent else [0.0] * CELLS

    def _rescale(self) -> None:
        self.asked = [one / self.asked_unit for one in self.asked]
        self.recent /= self.asked_unit
        self.asked_unit = 1.0
        for counts in (self.labels, self.wrong, self.served):
            counts[:] = [one / self.unit for one in counts]
        self.requests /= self.unit
        self.unit = 1.0
