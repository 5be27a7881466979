"""Every promise about answers by meaning, measured on labelled sets in one run."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.errors import ConfigError
from askonce.lab import pairwise, sets
from askonce.lab.jobs import Job, Line, Plan, Questions, Ran, jobs, lines, played, questions
from askonce.lab.outcomes import SHARES, Outcome
from askonce.lab.readings import Readings
from askonce.lab.verdicts import StreamResult, SuiteReport, exceeds
from askonce.lab.workers import processes, spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from askonce.lab.pairwise import PairRead
    from askonce.lab.vectors import Progress
    from askonce.ports import Embedder

_SAY_EVERY = 5.0


class SuiteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much to measure."""

    orders: int = 5
    """Random orders of each set."""
    first_seed: int = 0
    """Of the first order; each further one has the next."""
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
    processes: int = 0
    """0 takes as many as there are cores."""


class Suite(NamedTuple):
    """Everything that is to be measured, read; the pairs are measured already."""

    asked: Sequence[Questions]
    report: SuiteReport


def run(suite: Suite, options: SuiteOptions, progress: Progress) -> SuiteReport:
    """Play the streams; interrupted, it tells of the orders that were complete, if any were."""
    streams, orders = measure(suite.asked, options, progress)
    return msgspec.structs.replace(suite.report, streams=tuple(streams), orders=orders)


async def read(
    folder: Path, embedder: Embedder, options: SuiteOptions, progress: Progress
) -> Suite:
    """Read every set and measure its pairs; raises ConfigError for a folder without sets."""
    readings = Readings(embedder, options.cache, progress)
    asked: list[Questions] = []
    report = SuiteReport(embedder.id, options.orders, first_seed=options.first_seed)
    for path in chosen(folder, options.names):
        labelled = sets.load(path, limit=options.limit)
        if labelled.asked:
            name = f"{labelled.name}.group"
            found = await readings.read(name, (each.text for each in labelled.asked))
            progress(f"{name}: {len(found)} questions")
            asked.append(questions(labelled, found))
            timing = report.timing or pairwise.time_decisions(found)
            report = msgspec.structs.replace(report, timing=timing)
            continue
        texts = [side.text for *both, _ in pairwise.sides(labelled) for side in both]
        found = await readings.read(f"{labelled.name}.pairs", texts)
        progress(f"{labelled.name}: {len(labelled.pairs)} pairs")
        pairs = pairwise.ready(labelled, found, by_meaning=options.by_meaning)
        report = _with_pairs(report, labelled.name, pairs, options)
    return Suite(asked, report)


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


class Piece(NamedTuple):
    """What is played in one go on one set; every order consists of the same."""

    at: int
    """Place of the set."""
    job: Job
    cost: int
    """Time beside the others."""


def measure(
    asked: Sequence[Questions], options: SuiteOptions, progress: Progress
) -> tuple[list[StreamResult], int]:
    """Every rule at every setting on every set; a result a set, and how many orders it is over."""
    plan = Plan(
        budgets=options.budgets,
        erring=options.budgets,
        neighbours=options.neighbours,
        floor=options.floor,
    )
    pieces = [
        Piece(at, job, job.cost * len(each.groups))
        for at, each in enumerate(asked)
        for job in jobs(each, plan)
    ]
    orders = _played(pieces, options, Told(asked, pieces, options, progress))

    def runs(at: int) -> dict[Line, list[Ran]]:
        return {
            line: [order[number][place] for order in orders]
            for number, piece in enumerate(pieces)
            for place, line in enumerate(piece.job.lines)
            if piece.at == at
        }

    return [_result(each, lines(plan), runs(at)) for at, each in enumerate(asked)], len(orders)


def _played(pieces: Sequence[Piece], options: SuiteOptions, told: Told) -> list[list[list[Ran]]]:
    """What came of each piece of each order, over as many processes as there are cores.

    An interrupt ends it after the orders that are complete; it is raised where none is.
    """
    if not pieces:
        return [[]] * options.orders
    many = len(pieces)
    ended: dict[int, list[Ran]] = {}

    def work(number: int) -> list[Ran]:
        order, place = divmod(number, many)
        return played(pieces[place].job, options.first_seed + order)

    try:
        for number, ran in spread(work, many * options.orders, options.processes or processes()):
            ended[number] = ran
            told.done(number)
    except KeyboardInterrupt:
        if not ended.keys() >= set(range(many)):
            raise
        told.interrupted()
    whole = itertools.takewhile(
        lambda first: all(number in ended for number in range(first, first + many)),
        range(0, many * options.orders, many),
    )
    return [[ended[first + at] for at in range(many)] for first in whole]


class Told:
    """Says now and then how far the work is and how long it will take."""

    def __init__(
        self,
        asked: Sequence[Questions],
        pieces: Sequence[Piece],
        options: SuiteOptions,
        progress: Progress,
    ) -> None:
        """pieces: of one order."""
        self._names = [each.name for each in asked]
        self._pieces = pieces
        self._options = options
        self._progress = progress
        self._begun = self._said = time.monotonic()
        self._done = self._count = 0

    def done(self, number: int) -> None:
        """One more piece is done."""
        order, place = divmod(number, len(self._pieces))
        piece = self._pieces[place]
        self._done += piece.cost
        self._count += 1
        now = time.monotonic()
        if now - self._said < _SAY_EVERY and self._count < len(self._pieces) * self._options.orders:
            return
        self._said = now
        every = sum(each.cost for each in self._pieces) * self._options.orders
        left = (now - self._begun) / self._done * (every - self._done)
        seed = self._options.first_seed + order
        self._progress(
            f"{100 * self._done / every:.0f} %, {self._names[piece.at]} seed {seed}, "
            f"about {left / 60:.1f} min left"
        )

    def interrupted(self) -> None:
        """No more is coming."""
        self._progress("interrupted: what follows is over the orders that were complete")


def _result(
    asked: Questions, told: Sequence[Line], runs: Mapping[Line, Sequence[Ran]]
) -> StreamResult:
    outcomes: dict[str, list[Outcome]] = {"hit": [], "request": [], "erring": []}
    for line in told:
        outcomes["erring" if line.errs else line.per].append(_outcome(line, runs[line]))
    return StreamResult(
        asked.name,
        len(asked.groups),
        len(asked.groups),
        tuple(outcomes["hit"]),
        tuple(outcomes["request"]),
        tuple(outcomes["erring"]),
    )


def _outcome(line: Line, runs: Sequence[Ran]) -> Outcome:
    learns = line.rule != "static"
    over = sum(exceeds(run.tally, line.setting, line.per) for run in runs) if learns else 0
    late = sum(run.late for run in runs) / len(runs)
    early = tuple(run.early for run in runs) if learns and line.per == "hit" else ()
    tallies, audits = tuple(run.tally for run in runs), sum(run.audits for run in runs)
    return Outcome(line.rule, line.setting, tallies, late, over, early, audits)
