"""How likely a score is wrong, here: what was seen of it, on top of what the other scores say.

The prior of a cell is a straight line in log odds, fitted to all labels of the node and held to
the line of its parent, above a floor below which no score is believed without labels of its own.
So thousands of labels of low scores say something about the few of high ones, and where a cell
has labels of its own they outweigh it. The floor is what keeps a budget when the curve flattens
out at the top, as it does where questions that look the same want different answers.
"""

from __future__ import annotations

from bisect import bisect_left
from math import exp, sqrt
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.trust.bound import Tally, upper
from askonce.trust.evidence import CELLS, LEAST_AUDIT, MIDDLES, TRUST, Cells, cell_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.trust.bound import JudgeError
    from askonce.trust.evidence import Label

BORROWED = 20.0
"""Labels that the prior of a cell is worth."""
FLOOR = 0.01
"""Wrong rate of the prior at the highest scores."""

_STEPS = 2
_LARGEST_STEP = 1.0
_EDGE = 1e-6

_WEIGHTS = (*(1.25**step for step in range(18)), 1 / LEAST_AUDIT)

_WORSE = 4.0
"""The drift looked for: the odds of a wrong answer grow this many times."""
_ALARM = 1e5
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


SHIPPED = Prior()
"""A score is believed until labels come."""


class Rates(NamedTuple):
    """Labels and wrong ones by cell, the prior's share included."""

    labels: Sequence[float]
    wrong: Sequence[float]
    noise: Sequence[float]
    """Variance of `wrong` over what its count would have; from a judge that errs."""

    def rate(self, cell: int) -> float:
        """Estimated wrong rate of a cell."""
        return self.wrong[cell] / self.labels[cell]


class Drift(msgspec.Struct):
    """Likelihood ratio of 'worse since' against 'as before', restarted whenever it falls to 1.

    The last restart is the likeliest moment of the change, so the labels since then are kept.
    """

    ratio: float = 1.0

    def saw(self, expected: float, *, wrong: bool) -> bool:
        """Take one verdict of this expected chance; returns whether there is an alarm."""
        worse = _WORSE * expected / (1 + (_WORSE - 1) * expected)
        times = worse / expected if wrong else (1 - worse) / (1 - expected)
        self.ratio = max(1.0, self.ratio * times)
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
        drifted = self._watch(cell, wrong=label.wrong)
        self.cells.add(cell, float(label.wrong), weight)
        self._since.add(cell, float(label.wrong), weight)
        if label.source == "audit" and label.wrong:
            self.checked.found(label.chance)
        if drifted:
            self.cells, self._since = self._since, Cells(memory=self._memory)
            self.line, self._drift, self.checked = Line(), Drift(), Checked()
            self.drifts += 1
        return drifted

    def _watch(self, cell: int, *, wrong: bool) -> bool:
        alarm = False
        if self.rates is not None and sum(self.cells.labels) >= _SETTLED * self.cells.unit:
            expected = min(max(self._judge.seen(self.rates.rate(cell)), _EDGE), 1 - _EDGE)
            alarm = self._drift.saw(expected, wrong=wrong)
        if self._drift.ratio <= 1.0:
            self._since = Cells(memory=self._memory)
        return alarm

    def refresh(self, prior: Prior) -> Rates:
        """Work the rates out anew from the counts; the same cost whatever they are."""
        labels = self.cells.counts(self.cells.labels)
        judged = self.cells.counts(self.cells.wrong)
        wrong = [_true(self._judge, w, n) for w, n in zip(judged, labels, strict=True)]
        for _ in range(_STEPS):
            self.line = _stepped(self.line, prior, labels, wrong)
        noise = self._judge.alarm * (1 - self._judge.alarm) / self._judge.gain**2
        self.rates = Rates(
            [n + BORROWED for n in labels],
            [
                w + BORROWED * (FLOOR + (1 - FLOOR) * rate)
                for w, rate in zip(wrong, rates_of(self.line), strict=True)
            ],
            [n * noise for n in labels],
        )
        return self.rates

    def prior(self) -> Prior:
        """What a node below this one starts from."""
        return Prior(self.line, 5.0, 25.0)

    def surprise(self, rates: Rates) -> float:
        """How many standard deviations more was wrong here than these rates say."""
        more = spread = 0.0
        labels = self.cells.counts(self.cells.labels)
        judged = self.cells.counts(self.cells.wrong)
        for cell, many in enumerate(labels):
            expected = self._judge.seen(rates.rate(cell))
            more += judged[cell] - many * expected
            spread += many * expected * (1 - expected)
        return more / sqrt(spread + 1.0)


def _true(judge: JudgeError, judged: float, labels: float) -> float:
    return labels * judge.true(judged / labels) if labels else 0.0


def rates_of(line: Line) -> list[float]:
    """Wrong rate by cell, floor apart."""
    return [1 / (1 + exp(line.slope * score - line.height)) for score in MIDDLES]


def _stepped(line: Line, prior: Prior, labels: Sequence[float], wrong: Sequence[float]) -> Line:
    """One Newton step towards the likeliest line; the lowest cell has no middle and stays out."""
    up = prior.height * (prior.line.height - line.height)
    turn = prior.slope * (prior.line.slope - line.slope)
    uu, ut, tt = prior.height, 0.0, prior.slope
    rates = rates_of(line)
    for cell in range(1, CELLS):
        score, rate = MIDDLES[cell], rates[cell]
        off, bend = wrong[cell] - labels[cell] * rate, labels[cell] * rate * (1 - rate)
        up += off
        turn -= off * score
        uu += bend
        ut -= bend * score
        tt += bend * score * score
    scale = uu * tt - ut * ut
    return Line(
        line.height + _limited((tt * up - ut * turn) / scale),
        line.slope + _limited((uu * turn - ut * up) / scale),
    )


def _limited(step: float) -> float:
    return max(-_LARGEST_STEP, min(_LARGEST_STEP, step))
