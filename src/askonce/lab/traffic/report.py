"""`askonce evaluate --log`: every rule on one log, and what was left out of it."""

from __future__ import annotations

import time
from collections.abc import Callable  # noqa: TC003 - a NamedTuple's field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.lab.players import PerEntry
from askonce.lab.traffic.repeats import Repeats, repeats
from askonce.lab.traffic.replay import Lives, Played, Replay, Stage
from askonce.lab.traffic.rules import Bare, ByDesk, Guarded, Never, OnePerEntry, Rule
from askonce.trust.account.budget import Budget, Caution
from askonce.trust.account.ledger import Policy
from askonce.trust.desk import TrustDesk
from askonce.trust.prior import shipped
from askonce.trust.sight import Manners
from askonce.units import Cosine
from askonce.wiring import RULES_ERROR, namespaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.config import Config
    from askonce.lab.traffic.ingest import Asked, Traffic
    from askonce.lab.traffic.readings import KeptReadings
    from askonce.lab.vectors import Progress
    from askonce.trust.names import Mode

FLOORS = (0.80, 0.85, 0.90, 0.92, 0.95, 0.97, 0.99)
SHARES = (0.005, 0.01, 0.02, 0.05)
NOW = "now"
"""The rule that the configuration asks for."""
_SEED = b"askonce log"
_COSTS = {"exact": 1, "static": 2, "guards": 3, "per-entry": 8, "askonce": 40, NOW: 20}
_PLACES = 10


class Prices(msgspec.Struct, frozen=True):
    """US dollars for a million tokens; 0 where nobody said."""

    prompt: float = 0.0
    completion: float = 0.0

    @property
    def known(self) -> bool:
        """Whether money can be told."""
        return self.prompt > 0 or self.completion > 0

    def of(self, prompt: int, completion: int) -> float:
        """What so many tokens cost."""
        return (prompt * self.prompt + completion * self.completion) / 1e6


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to replay a log."""

    limit: int = 100_000
    """Calls read; 0 takes all."""
    questions: int = 5_000
    """Different questions embedded; the replay by meaning ends before the next one. 0 takes all."""
    budgets: tuple[float, ...] = SHARES
    floors: tuple[float, ...] = FLOORS
    cache: Path | None = None
    prices: Prices = Prices()


class Left(msgspec.Struct, frozen=True):
    """Lines left out for one reason."""

    reason: str
    lines: int
    first: tuple[str, ...]
    """Where the first of them stand."""


class PlaceRow(msgspec.Struct, frozen=True):
    """One partition under `now` and under AskOnce at the first budget."""

    namespace: str
    partition: str
    model: str
    sample: str
    questions: int
    calls: int
    exact: int
    semantic: int
    wrong: int
    judged: int


class NamespaceRow(msgspec.Struct, frozen=True):
    """One namespace under one rule."""

    namespace: str
    rule: str
    setting: float
    calls: int
    exact: int
    semantic: int
    wrong: int
    judged: int
    unsure: int
    bound: float


class LogReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found."""

    embedder: str
    """Empty where nothing was replayed by meaning."""
    lines: int
    calls: int
    cut: bool
    span: float
    """Seconds from the first call to the last."""
    untimed: int
    disordered: int
    estimated: int
    left_out: tuple[Left, ...]
    refused: dict[str, int]
    unasked: dict[str, int]
    prompt: int
    completion: int
    prices: Prices
    replayed: int
    """Calls at the start of the log that all rules were replayed on."""
    questions: int
    lives: tuple[float, float]
    budget: float
    """As configured."""
    repeats: Repeats
    played: tuple[Played, ...]
    namespaces: tuple[NamespaceRow, ...]
    partitions: tuple[PlaceRow, ...]


class Job(NamedTuple):
    """One rule at one setting."""

    rule: str
    setting: float
    made: Callable[[], Rule]


def desk_of(dim: int, config: Config, budget: float | None, mode: Callable[[str], Mode]) -> ByDesk:
    """The gateway's desk; budget: of all namespaces, None as configured."""
    names = namespaces(config)
    trust = config.trust
    desk = TrustDesk(
        shipped(),
        dim,
        policy=Policy(
            budget=names.rules("").budget if budget is None else Budget(budget),
            budgets=names if budget is None else {},
            caution=Caution(audit=trust.audit, forced=trust.forced),
            judge=RULES_ERROR,
        ),
        manners=Manners(floor=Cosine(config.semantic.floor)),
        seed=_SEED,
    )
    return ByDesk(desk, mode, trust.audits_per_hour, _SEED)


def current_rule(config: Config, dim: int) -> Rule:
    """What the configuration would have decided by."""
    if not config.semantic.enabled or not dim:
        return Never()
    if not config.trust.enabled:
        return Guarded(config.semantic.floor)
    names = namespaces(config)
    return desk_of(dim, config, None, lambda name: names.rules(name).mode)


def jobs(config: Config, options: LogOptions, dim: int) -> list[Job]:
    """Everything to compare; dim: of the embedder, 0 without one."""
    found = [
        Job(NOW, 0.0, lambda: current_rule(config, dim)),
        Job("exact", 0.0, Never),
    ]
    if not dim:
        return found
    floors, budgets = options.floors, options.budgets
    found += [Job("static", floor, partial(Bare, floor)) for floor in floors]
    found += [Job("guards", floor, partial(Guarded, floor)) for floor in floors]
    found += [Job("per-entry", share, partial(_per_entry, share)) for share in budgets]
    found += [
        Job("askonce", share, partial(desk_of, dim, config, share, _always_on)) for share in budgets
    ]
    return found


def _per_entry(share: float) -> Rule:
    return OnePerEntry(PerEntry(share, 0))


def _always_on(_name: str) -> Mode:
    return "on"


def budget_of(config: Config) -> float:
    """The share that holds where a namespace has none of its own."""
    return namespaces(config).rules("").budget.share


def learned(played: Sequence[Played], budget: float) -> Played | None:
    """AskOnce by evidence at this budget, or the next one there is."""
    found = [one for one in played if one.rule == "askonce"]
    return min(found, key=lambda one: abs(one.setting - budget), default=None)


def lives_of(config: Config) -> Lives:
    """As configured; 0 for a tier that is off."""
    exact, semantic = config.exact, config.semantic
    return Lives(exact.ttl if exact.enabled else 0.0, semantic.ttl if semantic.enabled else 0.0)


def window(traffic: Traffic, most: int) -> tuple[list[Asked], list[int]]:
    """Calls up to the bound of different questions, and the keys to embed among them.

    Alone in its partition and asked once, a question needs no vector: there is nothing to find.
    """
    seen: dict[int, int] = {}
    crowds: dict[int, int] = {}
    taken = len(traffic.calls)
    for number, call in enumerate(traffic.calls):
        place = traffic.places[call.key]
        if not call.semantic or place < 0:
            continue
        if call.key not in seen:
            if most and len(seen) >= most:
                taken = number
                break
            crowds[place] = crowds.get(place, 0) + 1
        seen[call.key] = seen.get(call.key, 0) + 1
    wanted = [key for key, times in seen.items() if times > 1 or crowds[traffic.places[key]] > 1]
    return traffic.calls[:taken], wanted


async def staged(
    traffic: Traffic, readings: KeptReadings | None, options: LogOptions, progress: Progress
) -> Stage:
    """Embed what is needed and work out the neighbourhoods."""
    if readings is None:
        return Stage(traffic, traffic.calls, None)
    calls, wanted = window(traffic, options.questions)
    texts = [traffic.questions[key] for key in wanted]
    await readings.fill(texts, traffic.texts.get, progress)
    progress(f"finding the neighbours of {len(wanted)} questions")
    return Stage(traffic, calls, readings)


def play_all(
    stage: Stage, todo: Sequence[Job], config: Config, progress: Progress
) -> tuple[Played, ...]:
    """Replay the log under every job."""
    begun, done = time.monotonic(), 0
    cost = sum(_COSTS[job.rule] for job in todo)
    played = []
    for number, job in enumerate(todo, 1):
        lives, k = lives_of(config), config.semantic.neighbours
        played.append(Replay(stage, job.made(), lives, k).run(job.rule, job.setting))
        done += _COSTS[job.rule]
        left = (time.monotonic() - begun) / done * (cost - done)
        named = f"{job.rule} {job.setting:g}" if job.setting else job.rule
        if stage.calls:
            progress(f"replay {number} of {len(todo)}: {named}, about {left:.0f} s left")
    return tuple(played)


def reported(
    stage: Stage, played: tuple[Played, ...], options: LogOptions, embedder: str, config: Config
) -> LogReport:
    """Put the report together; embedder: its id, empty without one."""
    traffic = stage.traffic
    calls = traffic.calls
    skipped = traffic.skipped
    return LogReport(
        embedder=embedder,
        lines=traffic.lines,
        calls=len(calls),
        cut=traffic.cut,
        span=calls[-1].time - calls[0].time if calls else 0.0,
        untimed=traffic.untimed,
        disordered=traffic.disordered,
        estimated=traffic.estimated,
        left_out=tuple(
            Left(reason, count, tuple(skipped.lines[reason]))
            for reason, count in skipped.counts.most_common()
        ),
        refused=dict(traffic.refused.most_common()),
        unasked=dict(traffic.unasked.most_common()),
        prompt=sum(call.prompt for call in stage.calls),
        completion=sum(call.completion for call in stage.calls),
        prices=options.prices,
        replayed=len(stage.calls),
        questions=sum(len(members) for members in stage.members.values()),
        lives=lives_of(config),
        budget=budget_of(config),
        repeats=repeats(traffic),
        played=played,
        namespaces=tuple(_namespaces(traffic, played)),
        partitions=tuple(_partitions(stage, learned(played, budget_of(config)) or played[0])),
    )


def _namespaces(traffic: Traffic, played: Sequence[Played]) -> list[NamespaceRow]:
    shown = [one for one in played if one.rule in {NOW, "askonce"}]
    return [
        NamespaceRow(
            traffic.namespaces[number],
            one.rule,
            one.setting,
            count.calls,
            count.exact,
            count.semantic,
            count.different,
            count.judged,
            count.unsure + count.unjudged,
            count.bound,
        )
        for one in shown
        for number, count in sorted(one.namespaces.items(), key=lambda each: -each[1].calls)
    ]


def _partitions(stage: Stage, best: Played) -> list[PlaceRow]:
    """The largest partitions under one rule."""
    largest = sorted(best.places, key=lambda place: -best.places[place].calls)[:_PLACES]
    rows = []
    for number in largest:
        place, count = stage.traffic.partitions[number], best.places[number]
        rows.append(
            PlaceRow(
                stage.traffic.namespaces[place.namespace],
                place.digest.hex()[:8],
                place.model,
                place.sample,
                len(stage.members.get(number, ())),
                count.calls,
                count.exact,
                count.semantic,
                count.different,
                count.judged,
            )
        )
    return rows
