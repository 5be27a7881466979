"""Every promise about answers by meaning, measured on labelled sets in one run."""

from __future__ import annotations

import time
from collections.abc import Callable  # noqa: TC003 - a NamedTuple's field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

from askonce.errors import ConfigError
from askonce.lab import pairwise, sets
from askonce.lab.compare import FLOORS, SHARES, Outcome
from askonce.lab.live import Live
from askonce.lab.players import Budgeted, ByCosine, PerEntry, Static
from askonce.lab.readings import Readings
from askonce.lab.scoring import Tally
from askonce.lab.stream import Log, Neighbourhood, by_group, erring, play, shuffled
from askonce.lab.verdicts import FAQ_BUDGET, PER_REQUEST, StreamResult, SuiteReport
from askonce.trust.bound import excess_chance, judge_error
from askonce.trust.budget import Budget
from askonce.trust.desk import Manners
from askonce.trust.ledger import Ledger, Policy
from askonce.units import Cosine

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from askonce.lab.pairwise import PairRead
    from askonce.lab.stream import Player
    from askonce.lab.vectors import Progress
    from askonce.ports import Embedder
    from askonce.trust.verifier import Text

STATICS = tuple(sorted({*FLOORS, *(round(0.9 + 0.0025 * step, 4) for step in range(40))}))
"""Thresholds among which the best in hindsight is sought."""
LATE = 2000
"""Questions at the end of each order that show where the hits are going."""
ERR = 0.05
_COSTS = {"static": 1, "per-entry": 1, "cosine": 2, "askonce": 40}
"""How long a rule takes beside the others, to tell the time left."""
_CHECKED = (400, 20)
"""Labelled pairs by which the erring judge's own error is known: all, and false verdicts."""


class SuiteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much to measure."""

    orders: int = 5
    """Random orders of each set, by seeds 0, 1, ..."""
    limit: int = 10_000
    """Rows of each set; 0 takes all."""
    budgets: tuple[float, ...] = SHARES
    names: tuple[str, ...] = ()
    """Sets to take; empty takes all."""
    neighbours: int = 8
    floor: float = 0.97
    """Of the static rule, as `semantic.floor`."""
    by_meaning: bool = False
    """Whether earlier turns are compared by meaning, as `semantic.conversations` says."""
    cache: Path | None = None


class Questions(NamedTuple):
    """A group set, read."""

    name: str
    words: Sequence[str]
    texts: Sequence[Text]
    groups: Sequence[Hashable]
    neighbourhood: Neighbourhood


class Job(NamedTuple):
    """One rule at one setting."""

    rule: str
    setting: float
    made: Callable[[int], Player]
    per: Literal["hit", "request"] = "hit"
    errs: float = 0.0
    """Share of the judge's verdicts that are turned."""


async def run(
    folder: Path, embedder: Embedder, options: SuiteOptions, progress: Progress
) -> SuiteReport:
    """Measure everything; raises ConfigError for a folder without sets."""
    readings = Readings(embedder, options.cache, progress)
    streams: list[StreamResult] = []
    report = SuiteReport(embedder.id, options.orders)
    for path in chosen(folder, options.names):
        labelled = sets.load(path, limit=options.limit)
        if labelled.asked:
            name = f"{labelled.name}.group"
            read = await readings.read(name, (each.text for each in labelled.asked))
            streams.append(measure(_questions(labelled, read), options, progress))
            timing = report.timing or pairwise.time_decisions(read)
            report = msgspec.structs.replace(report, timing=timing)
            continue
        texts = [side.text for *both, _ in pairwise.sides(labelled) for side in both]
        read = await readings.read(f"{labelled.name}.pairs", texts)
        progress(f"{labelled.name}: {len(labelled.pairs)} pairs")
        pairs = pairwise.ready(labelled, read, by_meaning=options.by_meaning)
        report = _with_pairs(report, labelled.name, pairs, options)
    return msgspec.structs.replace(report, streams=tuple(streams))


def chosen(folder: Path, names: Sequence[str]) -> list[Path]:
    """The sets in the folder, or those named; raises ConfigError for one that is not there."""
    found = sets.find([folder])
    there = {path.name.partition(".")[0] for path in found}
    if absent := set(names) - there:
        raise ConfigError(f"no set {', '.join(sorted(absent))} in {folder}")
    return [path for path in found if not names or path.name.partition(".")[0] in names]


def _with_pairs(
    report: SuiteReport, name: str, pairs: Sequence[PairRead], options: SuiteOptions
) -> SuiteReport:
    """Sets whose pairs have kinds are traps; the others are learned from as they come."""
    if not pairs:
        return report
    traps = report.traps + tuple(pairwise.cold(name, pairs, options.floor))
    recalls = report.recalls
    if all(pair.kind == "all" for pair in pairs):
        recalls += (pairwise.learning(name, pairs),)
    return msgspec.structs.replace(report, traps=traps, recalls=recalls)


def _questions(labelled: sets.LabelledSet, read: dict[str, Text]) -> Questions:
    kept = [each for each in labelled.asked if each.text in read]
    if not kept:
        raise ConfigError(f"{labelled.name} has no question that the tier compares")
    texts = [read[each.text] for each in kept]
    return Questions(
        labelled.name,
        [each.text for each in kept],
        texts,
        [each.group for each in kept],
        Neighbourhood(np.stack([text.vector for text in texts])),
    )


def measure(questions: Questions, options: SuiteOptions, progress: Progress) -> StreamResult:
    """Every rule at every setting on one set."""
    jobs = _jobs(questions, options)
    begun = time.monotonic()
    outcomes, done, cost = [], 0, sum(_COSTS[job.rule] for job in jobs)
    for count, job in enumerate(jobs, 1):
        outcomes.append(_outcome(questions, options, job))
        done += _COSTS[job.rule]
        left = (time.monotonic() - begun) / done * (cost - done)
        named = f"{job.rule} {job.setting:g}"
        progress(f"{questions.name}: {count}/{len(jobs)} {named}, about {left:.0f} s left")
    told = list(zip(jobs, outcomes, strict=True))
    return StreamResult(
        questions.name,
        len(questions.groups),
        outcomes[0].runs[0].asked,
        tuple(one for job, one in told if job.per == "hit" and not job.errs),
        tuple(one for job, one in told if job.per == "request"),
        tuple(one for job, one in told if job.errs),
    )


def _jobs(questions: Questions, options: SuiteOptions) -> list[Job]:
    jobs = [Job("static", floor, _static(floor)) for floor in STATICS]
    for share in options.budgets:
        policy = Policy(budget=Budget(share))
        jobs += [
            Job("per-entry", share, _per_entry(share)),
            Job("cosine", share, _cosine(policy)),
            Job("askonce", share, _live(questions, options, policy)),
        ]
    per_request = Policy(budget=Budget(PER_REQUEST, "request"))
    jobs.append(Job("askonce", PER_REQUEST, _live(questions, options, per_request), "request"))
    told = Policy(budget=Budget(FAQ_BUDGET), judge=judge_error(_CHECKED, _CHECKED))
    jobs.append(Job("askonce", FAQ_BUDGET, _live(questions, options, told), errs=ERR))
    return jobs


def _static(floor: float) -> Callable[[int], Player]:
    return lambda _: Static(floor)


def _per_entry(share: float) -> Callable[[int], Player]:
    return lambda seed: PerEntry(share, seed)


def _cosine(policy: Policy) -> Callable[[int], Player]:
    return lambda seed: Budgeted(ByCosine(), Ledger(policy, b"%d" % seed))


def _live(questions: Questions, options: SuiteOptions, policy: Policy) -> Callable[[int], Player]:
    manners = Manners(floor=Cosine(options.floor))
    words, texts = questions.words, questions.texts
    return lambda seed: Live(words, texts, Ledger(policy, b"%d" % seed), manners, seed)


def _outcome(questions: Questions, options: SuiteOptions, job: Job) -> Outcome:
    runs, late, over = [], 0.0, 0
    for seed in range(options.orders):
        log = _played(questions, options, job, seed)
        tally = Tally(len(log.hit), int(log.hit.sum()), int(log.wrong.sum()))
        runs.append(tally)
        late += float(log.hit[-LATE:].mean()) / options.orders
        over += job.rule != "static" and exceeds(tally, job.setting, job.per)
    return Outcome(job.rule, job.setting, tuple(runs), late, over)


def _played(questions: Questions, options: SuiteOptions, job: Job, seed: int) -> Log:
    judge = by_group(questions.groups)
    if job.errs:
        judge = erring(judge, job.errs, seed)
    return play(
        shuffled(len(questions.groups), seed),
        questions.neighbourhood,
        job.made(seed),
        questions.groups,
        judge=judge,
        k=1 if job.rule == "static" else options.neighbours,
    )


def exceeds(tally: Tally, share: float, per: str) -> bool:
    """Whether the wrong answers are too many for the budget to be chance, at 5 %."""
    of = tally.hits if per == "hit" else tally.asked
    return of > 0 and excess_chance(tally.wrong, of, share) <= 0.05
