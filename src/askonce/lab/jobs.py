"""What the suite plays: each rule at each setting, one order at a time."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 - a NamedTuple's field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

from askonce.errors import ConfigError
from askonce.lab.live import Live
from askonce.lab.measured import Measured
from askonce.lab.outcomes import FLOORS
from askonce.lab.players import ByCosine, PerEntry
from askonce.lab.scoring import Tally
from askonce.lab.stream import Neighbourhood, by_group, erring, play, play_static, shuffled
from askonce.lab.together import Together, Troupe
from askonce.lab.verdicts import PER_REQUEST
from askonce.trust.account.bound import FLAWLESS, judge_error
from askonce.trust.account.budget import Budget
from askonce.trust.account.ledger import Ledger, Policy
from askonce.trust.sight import Manners
from askonce.units import Cosine

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from askonce.lab.measured import Sight
    from askonce.lab.sets import LabelledSet
    from askonce.lab.stream import Log, Player
    from askonce.trust.verifier import Text

STATICS = tuple(sorted({*FLOORS, *(round(0.9 + 0.0025 * step, 4) for step in range(40))}))
"""Thresholds among which the best in hindsight is sought."""
EARLY = 1000
"""Questions at the start of each order, as a short stream would have them."""
LATE = 2000
"""Questions at the end of each order that show where the hits are going."""
ERR = 0.05
_CHECKED = (400, 20)
"""Labelled pairs by which the erring judge's own error is known: all, and false verdicts."""


class Questions(NamedTuple):
    """A group set, read."""

    name: str
    words: Sequence[str]
    groups: Sequence[Hashable]
    neighbourhood: Neighbourhood
    sight: Sight


class Line(NamedTuple):
    """One rule at one setting."""

    rule: str
    setting: float
    per: Literal["hit", "request"] = "hit"
    errs: float = 0.0
    """Share of the judge's verdicts that are turned."""


class Job(NamedTuple):
    """What is played in one go."""

    lines: tuple[Line, ...]
    play: Callable[[int], list[Log]]
    """Takes the seed of an order; gives a log for each line."""
    cost: int
    """Time beside the others."""


class Ran(msgspec.Struct, frozen=True):
    """One order under one rule at one setting."""

    tally: Tally
    early: Tally
    """Its first questions alone."""
    late: float
    """Hit share of its last questions."""
    audits: int
    """Hits that the engine was asked about all the same."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is played on each set."""

    budgets: tuple[float, ...]
    erring: tuple[float, ...] = ()
    """Budgets that are played with an erring judge as well."""
    neighbours: int = 8
    floor: float = 0.97


def questions(labelled: LabelledSet, read: dict[str, Text]) -> Questions:
    """The set's questions that were read; raises ConfigError if none was."""
    kept = [each for each in labelled.asked if each.text in read]
    if not kept:
        raise ConfigError(f"{labelled.name} has no question that the tier compares")
    texts = [read[each.text] for each in kept]
    return Questions(
        labelled.name,
        [each.text for each in kept],
        [each.group for each in kept],
        Neighbourhood(np.stack([text.vector for text in texts])),
        Measured(texts),
    )


def lines(plan: Plan) -> list[Line]:
    """Everything that is played on one set, in the order in which it is told."""
    found = [Line("static", floor) for floor in STATICS]
    for share in plan.budgets:
        found += [Line(rule, share) for rule in ("per-entry", "cosine", "askonce")]
    found.append(Line("askonce", PER_REQUEST, "request"))
    return [*found, *(Line("askonce", share, errs=ERR) for share in plan.erring)]


def jobs(asked: Questions, plan: Plan) -> list[Job]:
    """The same in pieces: what is faster together is one."""
    told = lines(plan)
    static = tuple(line for line in told if line.rule == "static")
    ours = tuple(line for line in told if line.rule == "askonce")
    found = [
        Job(ours, lambda seed: _together(asked, plan, ours, seed), 18 * len(ours)),
        Job(static, lambda seed: _static(asked, static, seed), 1),
    ]
    return found + [
        Job((line,), partial(_alone, asked, plan, line), _COSTS[line.rule])
        for line in told
        if line.rule in _COSTS
    ]


_COSTS = {"per-entry": 1, "cosine": 6}


def _static(asked: Questions, told: Sequence[Line], seed: int) -> list[Log]:
    order = shuffled(len(asked.groups), seed)
    floors = [line.setting for line in told]
    return play_static(order, asked.neighbourhood, asked.groups, floors)


def _alone(asked: Questions, plan: Plan, line: Line, seed: int) -> list[Log]:
    order = shuffled(len(asked.groups), seed)
    player: Player = PerEntry(line.setting, seed)
    if line.rule == "cosine":
        player = ByCosine(_ledger(line, seed))
    return [play(order, asked.neighbourhood, player, asked.groups, k=plan.neighbours)]


def _together(asked: Questions, plan: Plan, told: Sequence[Line], seed: int) -> list[Log]:
    manners = Manners(floor=Cosine(plan.floor))
    judge = by_group(asked.groups)
    troupes = [
        Troupe(
            [Live(asked.words, _ledger(line, seed), manners, seed) for line in group],
            erring(judge, errs, seed) if errs else judge,
        )
        for errs, group in groupby(told, key=lambda line: line.errs)
    ]
    together = Together(troupes, asked.sight, asked.groups, manners.remembered)
    order = shuffled(len(asked.groups), seed)
    return together.play(order, asked.neighbourhood, plan.neighbours)


def _ledger(line: Line, seed: int) -> Ledger:
    known = judge_error(_CHECKED, _CHECKED) if line.errs else FLAWLESS
    policy = Policy(budget=Budget(line.setting, line.per), judge=known)
    return Ledger(policy, b"%d" % seed)


def played(job: Job, seed: int) -> list[Ran]:
    """One order under one job: a result for each line."""
    return [_ran(log) for log in job.play(seed)]


def _ran(log: Log) -> Ran:
    first = Tally(len(log.hit[:EARLY]), int(log.hit[:EARLY].sum()), int(log.wrong[:EARLY].sum()))
    whole = Tally(len(log.hit), int(log.hit.sum()), int(log.wrong.sum()))
    return Ran(whole, first, float(log.hit[-LATE:].mean()), int((log.hit & log.audited).sum()))
