"""A linear model with coefficients that are never negative, fitted as observations come.

Weighted recursive least squares over relative errors, so that 10 ms off at 20 ms counts like 1 s
off at 2 s. Old observations fade, outliers are held down (Huber), and a prior keeps the fit
well-posed while all observations look alike. State is a matrix of the number of features; a call
is O(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_SWEEPS: Final = 6
_HUBER: Final = 1.5
_LEAST_SPREAD: Final = 0.02
_LEAST_PRIOR: Final = 0.02
"""Share of the prior's weight that never fades."""


class NonNegativeFit:
    """value = coefficients . features, with coefficients >= 0."""

    def __init__(
        self, prior: Sequence[float], anchors: Sequence[Sequence[float]], *, keep: float = 0.98
    ) -> None:
        """prior: coefficients. anchors: features at which it counts as observed. keep: weight
        that an observation has left after the next one."""
        self.coefficients = list(prior)
        self.spread = 1.0
        """Relative error of late, as a mean of its absolute values; 1 before any observation."""
        self._keep = keep
        self._faded = 1.0
        size = range(len(self.coefficients))
        self._gram = [[0.0 for _ in size] for _ in size]
        self._moment = [0.0 for _ in size]
        self._prior_gram = [[0.0 for _ in size] for _ in size]
        for anchor in anchors:
            scaled = self._scaled(anchor)
            _add(self._prior_gram, scaled, 1.0)
        self._prior_moment = [
            sum(row[column] * self.coefficients[column] for column in size)
            for row in self._prior_gram
        ]

    def predict(self, features: Sequence[float]) -> float:
        """The model's value."""
        pairs = zip(self.coefficients, features, strict=True)
        return sum(coefficient * feature for coefficient, feature in pairs)

    def observe(self, features: Sequence[float], value: float) -> None:
        """Learn one value; features and value are not negative."""
        said = max(self.predict(features), 1e-9)
        off = abs(value / said - 1.0)
        weight = min(1.0, _HUBER * self.spread / off) if off else 1.0
        self.spread = max(_LEAST_SPREAD, 0.95 * self.spread + 0.05 * min(off, 4 * self.spread))
        for row in self._gram:
            row[:] = [self._keep * each for each in row]
        scaled = [feature / said for feature in features]
        _add(self._gram, scaled, weight)
        self._moment = [
            self._keep * held + weight * each * value / said
            for held, each in zip(self._moment, scaled, strict=True)
        ]
        self._faded = max(_LEAST_PRIOR, self._faded * self._keep)
        self._solve()

    def _solve(self) -> None:
        """Coordinate descent from the last solution, which is near."""
        known = self.coefficients
        size = range(len(known))
        for _ in range(_SWEEPS):
            for row in size:
                slope = rest = 0.0
                for column in size:
                    cell = self._gram[row][column] + self._faded * self._prior_gram[row][column]
                    if column == row:
                        slope = cell
                    else:
                        rest += cell * known[column]
                aim = self._moment[row] + self._faded * self._prior_moment[row]
                known[row] = max(0.0, (aim - rest) / slope) if slope else 0.0

    def _scaled(self, features: Sequence[float]) -> list[float]:
        said = max(self.predict(features), 1e-9)
        return [feature / said for feature in features]


def _add(gram: list[list[float]], features: Sequence[float], weight: float) -> None:
    for row, one in zip(gram, features, strict=True):
        for column, other in enumerate(features):
            row[column] += weight * one * other
