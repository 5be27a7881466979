"""Logistic regression with a ridge to a prior, by Newton steps solved with conjugate gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_CLOSE = 0.02
_GAIN = 1e-4
_LEAST = 1e-3


class Ridge(NamedTuple):
    """Where each coefficient rests while nothing is known, and how firmly."""

    centre: Floats
    precision: Floats


class Labelled(NamedTuple):
    """Rows with labels 0 or 1 and their weights."""

    rows: Floats
    labels: Floats
    weights: Floats


class Effort(NamedTuple):
    """Steps at most."""

    newton: int = 5
    solve: int = 15
    """Of conjugate gradients for each of them."""


COLD = Effort()
WARM = Effort(2, 8)
"""Enough where the start is the solution for nearly the same rows."""


def fit(data: Labelled, ridge: Ridge, start: Floats, effort: Effort = COLD) -> Floats:
    """The coefficients of least penalised loss, near enough; a step is halved until it gains."""
    here = _reached(data, ridge, start.astype(np.float32))
    for _ in range(effort.newton):
        step, size = _newton(data, ridge, here, effort.solve), np.float32(1)
        while (
            there := _reached(data, ridge, here.at + size * step)
        ).loss > here.loss and size > _LEAST:
            size /= np.float32(2)
        before, here = here.loss, there
        if before - here.loss <= _GAIN * max(1.0, before):
            break
    return here.at


class _Reached(NamedTuple):
    """Coefficients on the way, and what they make of the rows."""

    at: Floats
    logits: Floats
    loss: float


def probability(logits: Floats) -> Floats:
    """From log-odds."""
    chances: Floats = (1 / (1 + np.exp(-np.clip(logits, -30, 30)))).astype(np.float32)
    return chances


def _reached(data: Labelled, ridge: Ridge, at: Floats) -> _Reached:
    logits = data.rows @ at
    misfit = data.weights @ (np.logaddexp(0, logits) - data.labels * logits)
    return _Reached(at, logits, float(misfit + 0.5 * (ridge.precision @ (at - ridge.centre) ** 2)))


def _newton(data: Labelled, ridge: Ridge, here: _Reached, most: int) -> Floats:
    """Solve for the Newton step, with the diagonal as preconditioner."""
    at, chances = here.at, probability(here.logits)
    curve = data.weights * np.maximum(chances * (1 - chances), np.float32(1e-6))
    left = -(data.rows.T @ (data.weights * (chances - data.labels)))
    left -= ridge.precision * (at - ridge.centre)
    scale = np.einsum("nd,nd,n->d", data.rows, data.rows, curve) + ridge.precision
    goal = _CLOSE * float(np.linalg.norm(left))
    step, direction = np.zeros_like(at), left / scale
    energy = float(left @ direction)
    for _ in range(most):
        if float(np.linalg.norm(left)) <= goal:
            break
        bent = data.rows.T @ (curve * (data.rows @ direction)) + ridge.precision * direction
        along = np.float32(energy / float(direction @ bent))
        step += along * direction
        left -= along * bent
        eased = left / scale
        before, energy = energy, float(left @ eased)
        direction = eased + np.float32(energy / before) * direction
    return step
