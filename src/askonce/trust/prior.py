"""What a verifier believes before its first label: coefficients that ship with the package."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from askonce.trust import agreement, features

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 1


class Stage(msgspec.Struct, frozen=True):
    """Coefficients of one stage by column, the constant last, and how firmly each is held."""

    names: list[str]
    centre: list[float]
    precision: list[float]


class Prior(msgspec.Struct, frozen=True):
    """A versioned file."""

    version: int
    mean: list[float]
    """Of each column of features.NAMES, to be taken off before it is weighed."""
    scale: list[float]
    """What the column is then divided by."""
    pair: Stage
    """Columns of features.NAMES, `differences`, `constant`."""
    answer: Stage
    """Columns of agreement.NAMES, `constant`."""
    metric_precision: float = 150.0
    """How firmly the learned metric is held to the plain cosine."""


PAIR_NAMES = (*features.NAMES, "differences", "constant")
ANSWER_NAMES = (*agreement.NAMES, "constant")


@lru_cache(maxsize=1)
def shipped() -> Prior:
    """The prior of this release."""
    source = resources.files("askonce.trust").joinpath("data", "prior.json").read_bytes()
    return parse(source)


def parse(source: bytes) -> Prior:
    """Read a prior; raises ValueError when it was made for other columns."""
    prior = msgspec.json.decode(source, type=Prior)
    made_for = (prior.version, tuple(prior.pair.names), tuple(prior.answer.names))
    if made_for != (VERSION, PAIR_NAMES, ANSWER_NAMES):
        raise ValueError("the prior was made for other features; train it again")
    return prior


def column(values: list[float]) -> NDArray[np.float32]:
    """A list of a prior as an array."""
    return np.array(values, dtype=np.float32)
