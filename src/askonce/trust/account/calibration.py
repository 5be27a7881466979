"""How likely a score is wrong, here: what was seen of it, on top of what the other scores say.

The prior of a cell is a straight line in log odds, fitted to all labels of the node and held to
the line of its parent, above a floor that the labels of high scores tell, with some doubt added.
So thousands of labels of low scores say something about the few of high ones, and where a cell
has labels of its own they outweigh it. The floor is what keeps a budget when the curve flattens
out at the top, as it does where questions that look the same want different answers.
"""

from __future__ import annotations

from bisect import bisect_left
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from askonce.trust.account.bound import Tally, upper
from askonce.trust.account.evidence import LEAST_AUDIT, MIDDLES, TRUST, Cells, cell_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from askonce.trust.account.bound import JudgeError
    from askonce.trust.account.evidence import Label

    Floats = NDArray[np.float64]

BORROWED = 20.0
"""Labels that the prior of a cell is worth."""
FLOOR = 0.02
"""Wrong rate at the highest scores, before labels say what it is here."""
_LEAST_FLOOR = 0.005
"""No score is believed to be wrong less often without labels of its own."""
_FLOOR_WORTH = 50.0
"""Labels that this is worth: one wrong verdict, assumed before any is seen."""
_HIGH = 0.05
"""Wrong rate on the line below which a score is high; where the line misfits elsewhere is no floor.
"""

_MIDDLES = np.array(MIDDLES)
_STEPS = 2
_LARGEST_STEP = 1.0
_EDGE = 1e-6

_WEIGHTS = (*(1.25**step for step in range(18)), 1 / LEAST_AUDIT)

_WORSE = 4.0
"""The drift looked for: the odds of a wrong answer grow this many times."""
_ALARM = 1e7
"""A false alarm costs far more than the few wrong answers by which a true one comes later."""
_SETTLED = 100.0
"""Labels before drift can be told from first surprises."""


class Line(NamedTuple):
    """Log odds of a wrong answer: height - slope x score."""

    height: float = 0.0
    slope: float = 1.0


class Prior(NamedTuple):
    """The line a node starts from, and how firmly it is held to it, in labels."""

    line: Line = Line()
    height: float = 1.0
    slope: float = 5.0
    floor: float = FLOOR


SHIPPED = Prior()
"""A score is believed until labels come."""


class Rates(NamedTuple):
    """Labels and wrong ones by cell, the prior's share included."""

    labels: Floats
    wrong: Floats
    noise: Floats
    """Variance of `wrong` over what its count would have; from a judge that errs."""
    doubt: Floats
    """Standard deviation of `wrong` that the floor brings: in all cells together or in none."""
    swayed: Floats
    """The same that comes of not knowing the judge's own error better."""

    def rate(self, cell: int) -> float:
        """Estimated wrong rate of a cell."""
        return float(self.wrong[cell] / self.labels[cell])


class Drift(msgspec.Struct):
    """Likelihood ratio of 'worse since' against 'as before', restarted whenever it falls to 1.

    The last restart is the likeliest moment of the change, so the labels since then are kept.
    """

    ratio: float = 1.0

    def saw(self, expected: float, weight: float = 1.0, *, wrong: bool) -> bool:
        """Take one verdict of this expected chance; returns whether there is an alarm."""
        worse = _WORSE * expected / (1 + (_WORSE - 1) * expected)
        times = worse / expected if wrong else (1 - worse) / (1 - expected)
        self.ratio = max(1.0, self.ratio * times**weight)
        return self.ratio >= _ALARM


class Checked(msgspec.Struct):
    """What audits alone say of the hits since the last drift; nothing fades."""

    hits: int = 0
    wrong: list[int] = msgspec.field(default_factory=lambda: [0] * len(_WEIGHTS))
    """By the weight of the audit, 1 over its probability, rounded up."""

    def found(self, chance: float) -> None:
        """An audit that was to happen with this probability found a wrong answer."""
        self.wrong[bisect_left(_WEIGHTS, min(1 / chance, _WEIGHTS[-1]))] += 1

    def bound(self, alpha: float) -> float:
        """The wrong rate of the hits is below this, whenever one looks, but for alpha."""
        found = tuple(zip(_WEIGHTS, map(float, self.wrong), strict=True))
        return upper(Tally(self.hits - sum(self.wrong), found), alpha, _WEIGHTS[-1])


class Node:
    """Evidence of one namespace or partition."""

    def __init__(self, judge: JudgeError, memory: float) -> None:
        """memory: requests after which a count has faded to 1/e."""
        self._judge = judge
        self._memory = memory
        self.cells = Cells(memory=memory)
        self.line = Line()
        self.floor = FLOOR
        self.rates: Rates | None = None
        self._drift = Drift()
        self._since = Cells(memory=memory)
        self.drifts = 0
        self.checked = Checked()

    def ask(self, cell: int | None) -> None:
        """One request came."""
        self.cells.ask(cell)
        self._since.ask(cell)

    def serve(self, cell: int) -> None:
        """It was answered from the cache."""
        self.cells.serve(cell)
        self._since.serve(cell)
        self.checked.hits += 1

    def withdraw(self, cell: int) -> None:
        """It was not, in the end."""
        self.cells.withdraw(cell)
        self._since.withdraw(cell)
        self.unwatch()

    def unwatch(self) -> None:
        """No audit could have found it wrong, so it says nothing for the bound."""
        self.checked.hits = max(0, self.checked.hits - 1)

    def learn(self, label: Label) -> bool:
        """Take one verdict; returns whether older evidence was dropped because of drift."""
        cell, weight = cell_of(label.score), TRUST[label.source]
        drifted = self._watch(cell, weight, wrong=label.wrong)
        self.cells.add(cell, float(label.wrong), weight)
        self._since.add(cell, float(label.wrong), weight)
        if label.source == "audit" and label.wrong:
            self.checked.found(label.chance)
        if drifted:
            self.cells, self._since = self._since, Cells(memory=self._memory)
            self.line, self._drift, self.checked = Line(), Drift(), Checked()
            self.floor = FLOOR
            self.drifts += 1
        return drifted

    def _watch(self, cell: int, weight: float, *, wrong: bool) -> bool:
        alarm = False
        if self.rates is not None and sum(self.cells.labels) >= _SETTLED * self.cells.unit:
            expected = min(max(self._judge.seen(self.rates.rate(cell)), _EDGE), 1 - _EDGE)
            alarm = self._drift.saw(expected, weight, wrong=wrong)
        if self._drift.ratio <= 1.0:
            self._since = Cells(memory=self._memory)
        return alarm

    def refresh(self, prior: Prior) -> Rates:
        """Work the rates out anew from the counts; the same cost whatever they are."""
        labels = np.array(self.cells.labels) / self.cells.unit
        wrong = _true(self._judge, np.array(self.cells.wrong) / self.cells.unit, labels)
        for _ in range(_STEPS):
            self.line = _stepped(self.line, prior, labels, wrong)
        noise = self._judge.alarm * (1 - self._judge.alarm) / self._judge.gain**2
        expected = rates_of(self.line)
        floor, doubt = self._floored(prior, labels, wrong, expected)
        self.rates = Rates(
            labels + BORROWED,
            wrong + BORROWED * (floor + (1 - floor) * expected),
            labels * noise,
            BORROWED * doubt * (1 - expected),
            labels * self._judge.doubt / self._judge.gain,
        )
        return self.rates

    def _floored(
        self, prior: Prior, labels: Floats, wrong: Floats, line: Floats
    ) -> tuple[float, float]:
        """Move the floor one step of EM towards the likeliest; returns it and its deviation."""
        high = line < _HIGH
        share = self.floor / (self.floor + (1 - self.floor) * line[high])
        told = _FLOOR_WORTH * prior.floor + float(wrong[high] @ share)
        worth = _FLOOR_WORTH + float(labels[high].sum())
        self.floor = told / worth
        return max(_LEAST_FLOOR, self.floor), sqrt(self.floor / worth)

    def prior(self) -> Prior:
        """What a node below this one starts from."""
        return Prior(self.line, 5.0, 25.0, self.floor)

    def surprise(self, rates: Rates) -> float:
        """How many standard deviations more was wrong here than these rates say."""
        unit = self.cells.unit
        labels, judged = np.array(self.cells.labels) / unit, np.array(self.cells.wrong) / unit
        expected = self._judge.alarm + rates.wrong / rates.labels * self._judge.gain
        spread = float(labels @ (expected * (1 - expected)))
        return (float(judged.sum()) - float(labels @ expected)) / sqrt(spread + 1.0)


def _true(judge: JudgeError, judged: Floats, labels: Floats) -> Floats:
    """Wrong ones behind those judged wrong; as `JudgeError.true`, by cell."""
    return np.maximum(0.0, judged - judge.alarm * labels) / judge.gain


def rates_of(line: Line) -> Floats:
    """Wrong rate by cell, floor apart."""
    return 1 / (1 + np.exp(line.slope * _MIDDLES - line.height))


def _stepped(line: Line, prior: Prior, labels: Floats, wrong: Floats) -> Line:
    """One Newton step towards the likeliest line; the lowest cell has no middle and stays out."""
    rates = rates_of(line)[1:]
    off = wrong[1:] - labels[1:] * rates
    bend = labels[1:] * rates * (1 - rates)
    bent = bend * _MIDDLES[1:]
    up = prior.height * (prior.line.height - line.height) + float(off.sum())
    turn = prior.slope * (prior.line.slope - line.slope) - float(off @ _MIDDLES[1:])
    uu, ut = prior.height + float(bend.sum()), -float(bent.sum())
    tt = prior.slope + float(bent @ _MIDDLES[1:])
    scale = uu * tt - ut * ut
    return Line(
        line.height + _limited((tt * up - ut * turn) / scale),
        line.slope + _limited((uu * turn - ut * up) / scale),
    )


def _limited(step: float) -> float:
    return max(-_LARGEST_STEP, min(_LARGEST_STEP, step))
