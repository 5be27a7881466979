"""What the neighbours' answers say together: a row for each different answer among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

NAMES = (
    "best", "any", "margin", "ahead", "mass", "votes", "answers", "rival", "share",
    "neighbours", "nearest", "behind", "cosine",
)  # fmt: skip
"""The columns of `agreement`, brought to about one unit."""
_UNITS = np.array([1, 0.5, 1, 10, 5, 0.3, 0.3, 1, 1, 0.1, 1, 10, 5], dtype=np.float32)
_NO_RIVAL = -6.0
_SHARPNESS = 15.0
_ALONE = 0.05
"""How far ahead in cosine an answer counts that has no rival."""


def agreement(
    logits: Floats, cosines: Floats, answers: Sequence[Hashable]
) -> tuple[Floats, NDArray[np.intp]]:
    """Rows as in NAMES, one an answer, and for each the place of its most likely neighbour."""
    numbers: dict[Hashable, int] = {}
    group = np.array([numbers.setdefault(answer, len(numbers)) for answer in answers])
    mine = group == np.arange(len(numbers))[:, None]  # (answers, neighbours)
    own = np.where(mine, logits, -np.inf)
    places = own.argmax(axis=1)
    best = own.max(axis=1)
    rival = np.maximum(_beside(best), _NO_RIVAL)
    nearest = np.where(mine, cosines, -np.inf).max(axis=1)
    beside = _beside(nearest)
    beside = np.where(np.isfinite(beside), beside, cosines.min() - _ALONE)
    behind = cosines - cosines.max()
    mass = np.exp(_SHARPNESS * behind)
    odds = np.where(mine, np.logaddexp(0, logits), 0).sum(axis=1)
    total = np.logaddexp.reduce(logits)
    columns = (
        best,
        np.log(np.expm1(np.minimum(odds, 20.0)) + 1e-9),
        best - rival,
        nearest - beside,
        mine @ (mass / mass.sum()),
        mine.sum(axis=1),
        len(mine),
        rival,
        np.logaddexp.reduce(own, axis=1) - total,
        len(cosines),
        mine[:, 0],
        behind[places],
        cosines[places],
    )
    rows = np.empty((len(mine), len(NAMES)), dtype=np.float32)
    for at, column in enumerate(columns):
        rows[:, at] = column
    return rows * _UNITS, places


def _beside(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """For each entry the largest of the others, -inf if there is none."""
    if len(values) < 2:
        return np.full(len(values), -np.inf)
    second, first = np.argsort(values)[-2:]
    others = np.full(len(values), values[first])
    others[first] = values[second]
    return others
