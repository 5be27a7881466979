"""What the suite plays: each rule at each setting, one order at a time."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 - a NamedTuple's field
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

from askonce.errors import ConfigError
from askonce.lab.compare import FLOORS
from askonce.lab.live import Live
from askonce.lab.measured import Measured
from askonce.lab.players import Budgeted, ByCosine, PerEntry
from askonce.lab.scoring import Tally
from askonce.lab.stream import Neighbourhood, by_group, erring, play, play_static, shuffled
from askonce.lab.verdicts import PER_REQUEST
from askonce.trust.bound import judge_error
from askonce.trust.budget import Budget
from askonce.trust.ledger import Ledger, Policy
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


class Job(NamedTuple):
    """One rule at one setting; all static thresholds are one job."""

    rule: str
    setting: float
    made: Callable[[int], Player] | None
    cost: int
    """Time beside the others."""
    per: Literal["hit", "request"] = "hit"
    errs: float = 0.0
    """Share of the judge's verdicts that are turned."""


class Ran(msgspec.Struct, frozen=True):
    """One order under one rule at one setting."""

    tally: Tally
    early: Tally
    """Its first questions alone."""
    late: float
    """Hit share of its last questions."""


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


def jobs(asked: Questions, plan: Plan) -> list[Job]:
    """Everything that is played on one set, in the order in which it is told."""
    found = [Job("static", 0.0, None, 2)]
    for share in plan.budgets:
        policy = Policy(budget=Budget(share))
        found += [
            Job("per-entry", share, _per_entry(share), 4),
            Job("cosine", share, _cosine(policy), 6),
            Job("askonce", share, _live(asked, plan, policy), 20),
        ]
    per_request = Policy(budget=Budget(PER_REQUEST, "request"))
    found.append(Job("askonce", PER_REQUEST, _live(asked, plan, per_request), 20, "request"))
    for share in plan.erring:
        told = Policy(budget=Budget(share), judge=judge_error(_CHECKED, _CHECKED))
        found.append(Job("askonce", share, _live(asked, plan, told), 20, errs=ERR))
    return found


def _per_entry(share: float) -> Callable[[int], Player]:
    return lambda seed: PerEntry(share, seed)


def _cosine(policy: Policy) -> Callable[[int], Player]:
    return lambda seed: Budgeted(ByCosine(), Ledger(policy, b"%d" % seed))


def _live(asked: Questions, plan: Plan, policy: Policy) -> Callable[[int], Player]:
    manners = Manners(floor=Cosine(plan.floor))
    words, sight = asked.words, asked.sight
    return lambda seed: Live(words, sight, Ledger(policy, b"%d" % seed), manners, seed)


def played(asked: Questions, job: Job, seed: int, neighbours: int) -> list[Ran]:
    """One order under one job: one result, or one a threshold."""
    order = shuffled(len(asked.groups), seed)
    if job.made is None:
        logs = play_static(order, asked.neighbourhood, asked.groups, STATICS)
        return [_ran(log) for log in logs]
    judge = by_group(asked.groups)
    if job.errs:
        judge = erring(judge, job.errs, seed)
    player = job.made(seed)
    log = play(order, asked.neighbourhood, player, asked.groups, judge=judge, k=neighbours)
    return [_ran(log)]


def _ran(log: Log) -> Ran:
    first = Tally(len(log.hit[:EARLY]), int(log.hit[:EARLY].sum()), int(log.wrong[:EARLY].sum()))
    whole = Tally(len(log.hit), int(log.hit.sum()), int(log.wrong.sum()))
    return Ran(whole, first, float(log.hit[-LATE:].mean()))
