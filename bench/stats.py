"""Samples of rounds, ratios between them, and the bars they must clear."""

from __future__ import annotations

import math
import operator
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class Sample:
    """One figure of each round, in the order of the rounds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The round in the middle."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The least round."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The greatest round."""
        return max(self.values)

    def over(self, other: Sample) -> Sample:
        """The ratio of each round to the same round of another sample."""
        return self._with(other, _divide)

    def minus(self, other: Sample) -> Sample:
        """The difference of each round to the same round of another sample."""
        return self._with(other, operator.sub)

    def _with(self, other: Sample, act: Callable[[float, float], float]) -> Sample:
        return Sample(tuple(act(*pair) for pair in zip(self.values, other.values, strict=True)))


def _divide(value: float, by: float) -> float:
    return value / by if by else math.nan


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Bar:
    """What a median must reach."""

    relation: Literal[">=", "<=", "<"]
    limit: float

    def cleared_by(self, sample: Sample) -> bool:
        """Whether the median is on the right side."""
        return _RELATIONS[self.relation](sample.median, self.limit)


@dataclass(frozen=True)
class Line:
    """One row of the report."""

    what: str
    sample: Sample
    unit: str
    bar: Bar | None = None


@dataclass
class Report:
    """What one benchmark found, and what it could not measure."""

    name: str
    about: str
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, what: str, sample: Sample, unit: str, bar: Bar | None = None) -> None:
        """Append one row."""
        self.lines.append(Line(what, sample, unit, bar))
