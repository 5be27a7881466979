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
    group = [numbers.setdefault(answer, len(numbers)) for answer in answers]
    behind = cosines - np.maximum.reduce(cosines)
    mass = np.exp(_SHARPNESS * behind)
    mass /= np.add.reduce(mass)
    own, odds = logits, np.logaddexp(0, logits)
    if len(numbers) < len(group):
        mine = np.array(group) == np.arange(len(numbers))[:, None]  # (answers, neighbours)
        own = np.logaddexp.reduce(np.where(mine, logits, -np.inf), axis=1)
        mass, odds = mine @ mass, np.add.reduce(np.where(mine, odds, 0), axis=1)
    rows, places = _compared(group, logits.tolist(), cosines.tolist(), behind.tolist())
    found = np.array(rows, dtype=np.float32)
    found[:, 1] = np.log(np.expm1(np.minimum(odds, 20.0)) + 1e-9)
    found[:, 4] = mass
    found[:, 8] = own - np.logaddexp.reduce(logits)
    found *= _UNITS
    return found, np.array(places, dtype=np.intp)


def _compared(
    group: Sequence[int], logits: list[float], cosines: list[float], behind: list[float]
) -> tuple[list[tuple[float, ...]], list[int]]:
    """The columns that take no more than comparing, 0 in the others; and the places."""
    places: list[int] = []
    best: list[float] = []
    nearest: list[float] = []
    for at, (answer, logit, cosine) in enumerate(zip(group, logits, cosines, strict=True)):
        if answer == len(places):
            places.append(at)
            best.append(logit)
            nearest.append(cosine)
            continue
        nearest[answer] = max(nearest[answer], cosine)
        if logit > best[answer]:
            places[answer], best[answer] = at, logit
    rivals = [max(one, _NO_RIVAL) for one in _beside(best, _NO_RIVAL)]
    beside = _beside(nearest, float(np.float32(min(cosines)) - np.float32(_ALONE)))
    rows: list[tuple[float, ...]] = [
        (best[at], 0.0, best[at] - rivals[at], nearest[at] - beside[at], 0.0, group.count(at),
         len(places), rivals[at], 0.0, len(group), not at, behind[place], cosines[place])
        for at, place in enumerate(places)
    ]  # fmt: skip
    return rows, places


def _beside(values: Sequence[float], alone: float) -> list[float]:
    """For each the largest of the others, or what stands for it where there is none."""
    if len(values) < 2:
        return [alone]
    *_, second, first = sorted(values)
    others = [first] * len(values)
    others[values.index(first)] = second
    return others
