"""The decision: serve a score if all that is served down to it stays within the budget.

The account is kept over what was served and what would be served at this level in the time ahead:

    upper limit of (wrong so far + wrong ahead)  <=  budget x (hits so far + hits ahead)

with the newest rates on both sides, so what was overspent by bad luck is made up for, and what a
careful start left over can be spent.
"""

from __future__ import annotations

import hashlib
from math import log
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

from askonce.trust.account.bound import FLAWLESS, JudgeError, Tally, evidence_against, standardised
from askonce.trust.account.evidence import CELLS, LEAST_AUDIT, Cells, cell_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from askonce.trust.account.calibration import Rates

    Floats = NDArray[np.float64]

CLOSED = CELLS
"""The level at which nothing is served."""

_TINY = 1e-12
_MOST_AUDIT = 0.5

_JUDGE_Z = 2.0
"""Standard errors by which a judge may be better than measured before a proof is wrong."""


class Budget(msgspec.Struct, frozen=True):
    """How many answers from the cache may be wrong."""

    share: float = 0.01
    per: Literal["hit", "request"] = "hit"
    """`hit`: of what is served by meaning; `request`: of all requests that could have been."""


PRESETS = {"support": Budget(0.003), "docs": Budget(0.01), "search": Budget(0.03)}


class Caution(msgspec.Struct, frozen=True):
    """How sure is sure enough, and what is spent to know."""

    rule: Literal["account", "proof"] = "account"
    """`proof`: a level is served only once its wrong rate is proven within the budget as well."""
    alpha: float = 0.05
    """Chance that `proof` is wrong about any level at any time."""
    z: float = 0.8
    """Normal quantile of the upper limit in the end, where the budget is counted per hit. Counted
    per request, closing makes up for an excess, and the limit comes down to the mean."""
    sway: float = 0.45
    """The same of what is not known of the judge, always: it leans all verdicts one way, and
    nothing that is served shows it."""
    early: float = 1.0
    """Added to `z` without evidence: the first lucky look would open a level, and what few hits
    overspend nothing makes up for."""
    few: float = 4.0
    """Half of `early` is left at labels of which so many might be wrong within the budget."""
    unseen: float = 0.5
    """Wrong answers assumed beyond those seen, at the mean weight."""
    labels: float = 50.0
    """Least labels at or above a level, or the prior would speak; never fewer than 1 / budget."""
    ahead: float = 1000.0
    """Least requests the account looks ahead; as many as there have been, if that is more."""
    amends: float = 0.6
    """Share of the budget that the hits ahead may use while earlier ones have overspent it."""
    forced: float = 0.02
    """Share of would-be hits that ask the engine all the same, so that no level goes blind."""
    audit: float = 0.05
    """Mean share of hits that are audited in the long run, more where errors are likely."""
    first: float = 100.0
    """Further audits for each e-fold of the hits, which makes half of the first hits audited."""


class Decision(NamedTuple):
    """What to do with one request."""

    serve: bool
    audit: bool
    """Served, and the engine is asked in the background to know whether it was right."""
    chance: float
    """The probability with which the label of such a request is seen, a hit's or a miss's."""


class Level(NamedTuple):
    """What a node has come to."""

    lowest: int = CLOSED
    """The lowest cell that is served."""
    limit: float = 1.0
    """Upper limit of the wrong share at this level, over the account."""
    audits: Sequence[float] = (0.0,) * CELLS


class Account(NamedTuple):
    """What is reckoned for each level, a number a cell: that level's lowest."""

    hits: Floats
    """So far and ahead."""
    own: Floats
    """Labels at or above the level."""
    judged: Floats
    """Those of them that were judged wrong."""
    upper: Floats
    """Upper limit of wrong answers, so far and ahead."""
    allowed: Floats
    """Wrong answers that the budget has room for, so far and ahead."""


def account(
    cells: Cells, rates: Rates, budget: Budget, caution: Caution, *, sunk: bool = False
) -> Account:
    """Draw up the account for every level.

    sunk: what was served so far is left out, and as soon as a few wrong answers are allowed for,
    the limit is the middle of what is likely: the part of the budget left unused is the caution.
    """
    past = np.zeros(CELLS) if sunk else np.array(cells.served) / cells.unit
    return _judged(_sums(cells, rates, caution, past), cells, budget, caution, sunk=sunk)


class _Sums(NamedTuple):
    """What an account comes from, a number a cell: that level's lowest."""

    hits: Floats
    labels: Floats
    wrong: Floats
    weighted: Floats
    """Wrong answers, so far and ahead."""
    variance: Floats
    swayed: Floats


def _ahead(cells: Cells, caution: Caution) -> float:
    """Requests that the account looks ahead."""
    return max(caution.ahead, cells.requests / cells.unit)


def _sums(cells: Cells, rates: Rates, caution: Caution, past: Floats) -> _Sums:
    """past: what was served so far, by cell."""
    coming = np.array(cells.shares()) * _ahead(cells, caution)
    labels, wrong = rates.labels, rates.wrong
    noisy = wrong + rates.noise
    once, then = past / labels, (past + coming) / labels
    more = then - once
    above = _down(
        (coming, labels, more * wrong, (then**2 - once**2) * noisy, more * rates.doubt,
         more * rates.swayed, cells.labels, cells.wrong)
    )  # fmt: skip
    hits = np.add.reduce(past) + above[0]
    typical = hits / (above[1] + _TINY)
    variance = once**2 @ noisy + above[3]
    variance += (once @ rates.doubt + above[4]) ** 2
    return _Sums(
        hits,
        above[6] / cells.unit,
        above[7] / cells.unit,
        once @ wrong + above[2] + caution.unseen * typical,
        variance + caution.unseen * typical**2,
        once @ rates.swayed + above[5],
    )


def _judged(sums: _Sums, cells: Cells, budget: Budget, caution: Caution, *, sunk: bool) -> Account:
    hits, own = sums.hits, sums.labels
    ahead, requests = _ahead(cells, caution), cells.requests / cells.unit
    asked = ahead if sunk else requests + ahead
    allowed = budget.share * (hits if budget.per == "hit" else np.full(CELLS, asked))
    errors = own * allowed / np.maximum(hits, _TINY)
    if sunk:
        z = caution.early / (1 + errors**2)
    else:
        early = caution.early / (1 + errors / caution.few)
        z = early + (caution.z if budget.per == "hit" else 0.0)
    upper = standardised(sums.weighted, sums.variance, z) + caution.sway * sums.swayed
    return Account(hits, own, sums.wrong, upper, allowed)


def _down(counts: Sequence[Floats | Sequence[float]]) -> Floats:
    """Sums over the cells from the top down to each, row by row."""
    sums = np.empty((len(counts), CELLS))
    for row, each in zip(sums, counts, strict=True):
        row[:] = each
    np.add.accumulate(sums[:, ::-1], axis=1, out=sums[:, ::-1])
    return sums


def level(
    cells: Cells, rates: Rates, budget: Budget, caution: Caution, judge: JudgeError = FLAWLESS
) -> Level:
    """The lowest level whose account is within the budget, and how much to audit there."""
    sums = _sums(cells, rates, caution, np.array(cells.served) / cells.unit)
    drawn = _judged(sums, cells, budget, caution, sunk=False)
    found = _fitting(drawn, caution, 1.0)
    if not found:
        if any(cells.served):
            sums = _sums(cells, rates, caution, np.zeros(CELLS))
        drawn = _judged(sums, cells, budget, caution, sunk=True)
        found = _fitting(drawn, caution, caution.amends)
    if caution.rule == "proof":
        found = [cell for cell in found if _proven(drawn, cell, caution, judge)]
    best = found[0] if found else CLOSED
    limit = float(drawn.upper[best] / drawn.hits[best]) if found else 1.0
    mean = caution.audit + caution.first / (2 * caution.first + sum(cells.served) / cells.unit + 1)
    return Level(best, limit, audits(cells.shares(), rates, best, mean))


def _fitting(drawn: Account, caution: Caution, share: float) -> list[int]:
    """The levels within this share of what is allowed, lowest first."""
    needed = np.maximum(caution.labels, drawn.hits / np.maximum(drawn.allowed, _TINY))
    fits = (drawn.hits > 0) & (drawn.own >= needed) & (drawn.upper <= share * drawn.allowed)
    cells: list[int] = np.flatnonzero(fits).tolist()
    return cells


def _proven(drawn: Account, cell: int, caution: Caution, judge: JudgeError) -> bool:
    """Whether a bet against 'more is wrong than the budget' has paid off, at one of all levels."""
    seen = judge.floor(float(drawn.allowed[cell] / drawn.hits[cell]), _JUDGE_Z)
    own, judged = float(drawn.own[cell]), float(drawn.judged[cell])
    tally = Tally(own - judged, ((1.0, judged),))
    return seen >= 1 or evidence_against(seen, tally) >= log(CELLS / caution.alpha)


def audits(shares: Sequence[float], rates: Rates, lowest: int, mean: float) -> list[float]:
    """Audit probabilities by cell: as the square root of the wrong rate, which tells the most.

    Their mean over what is served is the one asked for, but for the limits.
    """
    asked = np.array(shares[lowest:])
    roots = np.sqrt(rates.wrong[lowest:] / rates.labels[lowest:])
    total = float(asked @ roots)
    scale = mean * float(asked.sum()) / total if total else 0.0
    chosen = np.minimum(_MOST_AUDIT, np.maximum(LEAST_AUDIT, scale * roots))
    return [0.0] * lowest + [float(one) for one in chosen]


def decide(score: float, at: Level, caution: Caution, chances: tuple[float, float]) -> Decision:
    """Serve or not; the two chances are the request's own, from `chance`."""
    cell = cell_of(score)
    if cell < at.lowest:
        return Decision(serve=False, audit=False, chance=1.0)
    if chances[0] < caution.forced:
        return Decision(serve=False, audit=False, chance=1.0)
    audit = at.audits[cell]
    return Decision(serve=True, audit=chances[1] < audit, chance=audit)


def chance(seed: bytes, request: bytes, purpose: bytes) -> float:
    """A number in [0, 1) that looks random and is always the same for the same request."""
    digest = hashlib.blake2b(request, digest_size=8, key=seed[:64], person=purpose[:16])
    return int.from_bytes(digest.digest(), "big") / 2**64
