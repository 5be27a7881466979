"""Settings about answers by meaning that a replayed log speaks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from askonce.lab.traffic.advice import FEW, Advice
from askonce.lab.traffic.report import budget_of
from askonce.lab.traffic.tables import percent
from askonce.policy.controls import MAX_NAME
from askonce.trust.account.bound import excess_chance
from askonce.trust.account.budget import PRESETS
from askonce.wiring import namespaces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from askonce.config import Config
    from askonce.lab.traffic.replay import Count, Played
    from askonce.trust.names import Mode

CALLS = 200
"""Calls of a namespace below which nothing is said of it."""
_MANY = 1000
"""Calls from which it counts that nothing was found."""
_WORTH = 0.005
"""Share of the calls below which answers by meaning are not worth their embedding."""
_CHEAP = 0.01
"""Share of the calls that a stricter preset may cost."""
_BETTER = 1.02
_ALPHA = 0.05
_MOST_NAMESPACES = 20
_LEAST_FLOOR = 0.9
"""No lower one is advised: a log cannot show the look-alikes that have not come yet."""


class Evidence(NamedTuple):
    """Replays that the advice rests on."""

    guards: Mapping[float, Played]
    """By floor."""
    budgets: Mapping[float, Played]
    """By share, under AskOnce."""
    names: Sequence[str]


def evidence(played: Sequence[Played], names: Sequence[str]) -> Evidence:
    """The replays by what they are."""
    return Evidence(
        {one.setting: one for one in played if one.rule == "guards"},
        {one.setting: one for one in played if one.rule == "askonce"},
        names,
    )


def by_meaning(found: Evidence, config: Config) -> list[Advice]:
    """Floor, evidence, preset, and the mode of each namespace."""
    share = budget_of(config)
    learned = found.budgets[share].total
    plain = found.guards[config.semantic.floor].total
    idle = max(learned.semantic, plain.semantic) < _WORTH * learned.calls
    if idle and learned.calls >= _MANY:
        return [_not_worth(learned, config)]
    if learned.calls < CALLS or max(learned.judged, plain.judged) < FEW:
        return [_too_few(max(learned.judged, plain.judged), config)]
    general, why = _mode(learned, share)
    known = _counts(found, share)
    modes = {name: _mode(count, share) for name, count in known.items()}
    apart = {name: told for name, told in modes.items() if told[0] != _own(config, name, general)}
    trusting = _trust(plain, learned, share, config, apart=bool(apart) or general != "on")
    advice: list[Advice | None] = [_floor(found, share, config), trusting]
    if trusting.then:
        preset = _preset(found, share, config)
        advice += [
            Advice(
                key="trust.mode",
                now=config.trust.mode,
                then=general,
                why=why,
                risk=_RISKS[general],
            ),
            preset,
            *(_namespace(name, told, config) for name, told in apart.items()),
            *(_stricter(found, name, str(preset.then), config) for name in known),
        ]
    return [one for one in advice if one is not None]


_RISKS: dict[Mode, str] = {
    "on": "answers by meaning, wrong ones within the budget",
    "shadow": "nothing is served by meaning; the embedder works, evidence gathers",
    "off": "nothing is served by meaning",
}


def _too_few(judged: int, config: Config) -> Advice:
    now = config.semantic.floor
    why = f"only {judged} judged answers by meaning: too few to tell"
    return Advice(key="semantic.floor", now=now, then=now, why=why)


def _not_worth(learned: Count, config: Config) -> Advice:
    share = percent(learned.semantic, learned.calls, digits=2)
    return Advice(
        key="semantic.enabled",
        now=config.semantic.enabled,
        then=False,
        why=f"only {share} % of {learned.calls} calls could be answered by meaning",
        risk="questions in other words go to the engine",
    )


def _mode(count: Count, share: float) -> tuple[Mode, str]:
    """What the evidence allows, and the evidence."""
    told = (
        f"{percent(count.semantic, count.calls)} % of {count.calls} calls by meaning,"
        f" {count.different} of {count.judged} judged were wrong"
    )
    if count.semantic < _WORTH * count.calls and count.calls >= _MANY:
        return "off", f"{told}: not worth the embedding"
    if count.judged < FEW:
        return "shadow", f"{told}: too few to be sure"
    if excess_chance(count.different, count.judged, share) <= _ALPHA:
        return "shadow", f"{told}: more than the budget of {100 * share:g} %"
    bound = f"below {100 * count.bound:.1f} % at 95 %"
    proven = "proven" if count.bound <= share else "not proven yet"
    return "on", f"{told} ({bound}): the budget of {100 * share:g} % holds, {proven}"


def _counts(found: Evidence, share: float) -> dict[str, Count]:
    """The namespaces with enough calls, by name, the largest first."""
    counts = found.budgets[share].namespaces
    largest = sorted(counts, key=lambda number: -counts[number].calls)
    named = ((found.names[number], counts[number]) for number in largest)
    usable = [(name, count) for name, count in named if count.calls >= CALLS and _usable(name)]
    return dict(usable[:_MOST_NAMESPACES])


def _usable(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and name.isprintable()


def _trust(plain: Count, learned: Count, share: float, config: Config, *, apart: bool) -> Advice:
    """Whether evidence decides better than the floor and the guards."""
    over = excess_chance(plain.different, plain.judged, share) <= _ALPHA
    more = learned.hits > _BETTER * plain.hits
    told = (
        f"floor and guards: {percent(plain.hits, plain.calls)} % answered,"
        f" {plain.different} of {plain.judged} wrong; by evidence:"
        f" {percent(learned.hits, learned.calls)} %, {learned.different} of {learned.judged} wrong"
    )
    return Advice(
        key="trust.enabled",
        now=config.trust.enabled,
        then=config.trust.enabled or over or more or apart,
        why=told,
        risk=f"audits ask the engine again, here {learned.audits} times",
    )


def _floor(found: Evidence, share: float, config: Config) -> Advice:
    """The lowest floor shown to keep the budget in other words, or the next up that is not over."""
    now = config.semantic.floor
    then = min([now, *_proven(found, share)])
    if _over(found.guards[now].total, share):
        then = _next_up(found, share, now)
    replayed = min(then, max(found.guards))
    at = found.guards[replayed].total
    return Advice(
        key="semantic.floor",
        now=now,
        then=then,
        why=f"from {replayed:g} on {at.reworded_different} of {at.reworded_judged} judged hits in"
        f" other words were wrong, below {100 * at.reworded_bound:.1f} %;"
        f" {percent(at.hits, at.calls)} % answered",
        risk="decides alone where there is no evidence: look-alikes that the log does not have",
    )


def _proven(found: Evidence, share: float) -> list[float]:
    """From the top down, floors whose hits in other words are shown to keep the budget."""
    kept: list[float] = []
    for floor in sorted(found.guards, reverse=True):
        total = found.guards[floor].total
        clear = total.reworded_judged >= max(FEW, total.unsure + total.unjudged)
        if floor < _LEAST_FLOOR or _over(total, share):
            break
        if clear and total.reworded_bound <= share:
            kept.append(floor)
    return kept


def _over(total: Count, share: float) -> bool:
    """Whether more hits in other words are wrong than chance allows within the budget."""
    wrong, of = total.reworded_different, total.reworded_judged
    return of > 0 and excess_chance(wrong, of, share) <= _ALPHA


def _next_up(found: Evidence, share: float, now: float) -> float:
    above = sorted(floor for floor in found.guards if floor > now)
    return next((floor for floor in above if not _over(found.guards[floor].total, share)), 1.0)


def _preset(found: Evidence, share: float, config: Config) -> Advice:
    """A stricter one where it costs next to nothing; never a looser one."""
    answered = {name: one.total.hit_share for name, one in _presets(found).items()}
    told = ", ".join(
        f"{name} ({100 * PRESETS[name].share:g} %) {100 * hit:.1f} %"
        for name, hit in answered.items()
    )
    now = config.trust.preset
    here = found.budgets[share].total.hit_share
    return Advice(
        key="trust.preset",
        now=now,
        then=now if config.trust.budget else _strictest(answered, here, share) or now,
        why=f"answered with {told}",
        risk=_FEWER,
    )


_FEWER = "fewer hits in exchange for fewer wrong ones"


def _presets(found: Evidence) -> dict[str, Played]:
    """The replays under each preset."""
    known = {name: preset.share for name, preset in PRESETS.items()}
    return {name: found.budgets[of] for name, of in known.items() if of in found.budgets}


def _strictest(answered: Mapping[str, float], here: float, share: float) -> str | None:
    """The strictest preset that answers about as much as `here`, if it is stricter than share."""
    cheap = [
        name
        for name, hit in answered.items()
        if PRESETS[name].share < share and hit >= here - _CHEAP
    ]
    return min(cheap, key=lambda name: PRESETS[name].share, default=None)


def _stricter(found: Evidence, name: str, general: str, config: Config) -> Advice | None:
    """A stricter preset for one namespace, where that costs it next to nothing."""
    own = config.trust.namespaces.get(name)
    if config.trust.budget or (own is not None and (own.budget or own.preset)):
        return None
    number = found.names.index(name)
    answered = {preset: one.namespaces[number].hit_share for preset, one in _presets(found).items()}
    then = _strictest(answered, answered.get(general, 1.0), PRESETS[general].share)
    if then is None:
        return None
    return Advice(
        key=f"trust.namespaces.{name}.preset",
        now=general,
        then=then,
        why=f"{100 * answered[then]:.1f} % answered, with {general}"
        f" {100 * answered[general]:.1f} %",
        risk=_FEWER,
    )


def _own(config: Config, name: str, general: Mode) -> Mode:
    """The mode of a namespace if the general one were taken."""
    own = config.trust.namespaces.get(name)
    return own.mode if own is not None and own.mode is not None else general


def _namespace(name: str, told: tuple[Mode, str], config: Config) -> Advice:
    known = namespaces(config).rules(name)
    mode, why = told
    return Advice(
        key=f"trust.namespaces.{name}.mode", now=known.mode, then=mode, why=why, risk=_RISKS[mode]
    )
