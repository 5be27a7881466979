"""How likely a score is wrong, here: what this node has seen, on top of what its parent knows.

A node's prior is its parent's rate in each cell, moved by a straight line in log odds that is
fitted to the node's own labels and held back by a ridge. So thousands of labels of low scores say
something about the few of high ones; where a cell has labels of its own, they outweigh it.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.trust.bound import JudgeError
from askonce.trust.evidence import CELLS, MIDDLES, Cells, cell_of

if TYPE_CHECKING:
    from collections.abc import Sequence

BORROWED = 20.0
"""Labels that the prior of a cell is worth."""

_RIDGE_ROOT = (1.0, 5.0)
_RIDGE_CHILD = (5.0, 25.0)
"""Held-back of the line's height and slope, in labels."""
_STEPS = 3
_LARGEST_STEP = 1.0
_EDGE = 1e-6

_WORSE = 4.0
"""The drift looked for: the odds of a wrong answer grow this many times."""
_ALARM = 1e5
_SETTLED = 100.0
"""Labels before drift can be told from first surprises."""


class Line(NamedTuple):
    """Log odds added to the parent's rates: height + tilt x (middle of the cell)."""

    height: float = 0.0
    tilt: float = 0.0


class Rates(NamedTuple):
    """Labels and wrong ones by cell, the prior's share included."""

    labels: Sequence[float]
    wrong: Sequence[float]
    noise: Sequence[float]
    """Variance of `wrong` over what its count would have; from a judge that errs."""

    def rate(self, cell: int) -> float:
        """Estimated wrong rate of a cell."""
        return self.wrong[cell] / self.labels[cell]


class Parent(NamedTuple):
    """What a node starts from: log odds of a wrong answer by cell."""

    log_odds: Sequence[float]
    ridge: tuple[float, float]


SHIPPED = Parent(tuple(-score for score in MIDDLES), _RIDGE_ROOT)
"""A score is believed until labels come."""


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

    def ask(self, cell: int | None) -> None:
        """One request came."""
        self.cells.ask(cell)
        self._since.ask(cell)

    def serve(self, cell: int) -> None:
        """It was answered from the cache."""
        self.cells.serve(cell)

    def learn(self, score: float, weight: float, *, wrong: bool) -> bool:
        """Take one verdict; returns whether older evidence was dropped because of drift."""
        cell = cell_of(score)
        drifted = self._watch(cell, wrong=wrong)
        self.cells.add(cell, float(wrong), weight)
        self._since.add(cell, float(wrong), weight)
        if drifted:
            self.cells, self._since = self._since, Cells(memory=self._memory)
            self._drift = Drift()
            self.line = Line()
            self.drifts += 1
        return drifted

    def _watch(self, cell: int, *, wrong: bool) -> bool:
        if self.rates is None or sum(self.cells.labels) < _SETTLED * self.cells.unit:
            return False
        expected = min(max(self._judge.seen(self.rates.rate(cell)), _EDGE), 1 - _EDGE)
        alarm = self._drift.saw(expected, wrong=wrong)
        if self._drift.ratio <= 1.0:
            self._since = Cells(memory=self._memory)
        return alarm

    def refresh(self, parent: Parent) -> Rates:
        """Work the rates out anew from the counts; the same cost whatever they are."""
        labels = self.cells.counts(self.cells.labels)
        judged = self.cells.counts(self.cells.wrong)
        wrong = [_true(self._judge, w, n) for w, n in zip(judged, labels, strict=True)]
        self.line = fitted(self.line, parent, labels, wrong)
        prior = moved(parent, self.line)
        noise = self._judge.alarm * (1 - self._judge.alarm) / self._judge.gain**2
        self.rates = Rates(
            [n + BORROWED for n in labels],
            [w + BORROWED * p for w, p in zip(wrong, prior, strict=True)],
            [n * noise for n in labels],
        )
        return self.rates

    def as_parent(self) -> Parent:
        """What a partition below this node starts from."""
        if self.rates is None:
            return Parent(SHIPPED.log_odds, _RIDGE_CHILD)
        inside = (min(max(self.rates.rate(cell), _EDGE), 1 - _EDGE) for cell in range(CELLS))
        return Parent([log(rate / (1 - rate)) for rate in inside], _RIDGE_CHILD)

    def surprise(self, parent: Parent) -> float:
        """How many standard deviations more was wrong than the parent's rates say."""
        more = spread = 0.0
        labels = self.cells.counts(self.cells.labels)
        judged = self.cells.counts(self.cells.wrong)
        for cell, many in enumerate(labels):
            if many:
                expected = self._judge.seen(_chance(parent.log_odds[cell]))
                more += judged[cell] - many * expected
                spread += many * expected * (1 - expected)
        return more / sqrt(spread + 1.0)


def _true(judge: JudgeError, judged: float, labels: float) -> float:
    return labels * judge.true(judged / labels) if labels else 0.0


def _chance(log_odds: float) -> float:
    return 1 / (1 + exp(-log_odds)) if log_odds > -700 else 0.0


def moved(parent: Parent, line: Line) -> list[float]:
    """The parent's rates, moved by the line."""
    return [
        _chance(odds + line.height + line.tilt * score)
        for odds, score in zip(parent.log_odds, MIDDLES, strict=True)
    ]


def fitted(
    line: Line, parent: Parent, labels: Sequence[float], wrong: Sequence[float]
) -> Line:
    """A few Newton steps from the line towards the likeliest one."""
    for _ in range(_STEPS):
        line = _stepped(line, parent, labels, wrong)
    return line


def _stepped(
    line: Line, parent: Parent, labels: Sequence[float], wrong: Sequence[float]
) -> Line:
    ridge_height, ridge_tilt = parent.ridge
    up, turn = -ridge_height * line.height, -ridge_tilt * line.tilt
    uu, ut, tt = ridge_height, 0.0, ridge_tilt
    rates = moved(parent, line)
    for cell in range(1, CELLS):  # the lowest cell has no middle
        many, bad, rate, score = labels[cell], wrong[cell], rates[cell], MIDDLES[cell]
        off = bad - many * rate
        bend = many * rate * (1 - rate)
        up += off
        turn += off * score
        uu += bend
        ut += bend * score
        tt += bend * score * score
    scale = uu * tt - ut * ut
    return Line(
        line.height + _limited((tt * up - ut * turn) / scale),
        line.tilt + _limited((uu * turn - ut * up) / scale),
    )


def _limited(step: float) -> float:
    return max(-_LARGEST_STEP, min(_LARGEST_STEP, step))
