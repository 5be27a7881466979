"""`askonce tune`: settings for a log, what they bring and what they risk."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.lab.columns import aligned
from askonce.lab.traffic import advice, meaning, repeats, report
from askonce.lab.traffic.advice import Advice
from askonce.lab.traffic.replay import Lives, Played, Replay, Stage
from askonce.lab.traffic.report import NOW, Job, LogOptions, LogReport
from askonce.lab.traffic.rules import Guarded
from askonce.lab.traffic.tables import percent, saved, span
from askonce.lab.traffic.toml import snippet
from askonce.settings.parse import build, from_table
from askonce.trust.account.budget import PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.config import Config
    from askonce.lab.traffic.ingest import Traffic
    from askonce.lab.traffic.readings import KeptReadings
    from askonce.lab.vectors import Progress
    from askonce.ports import Embedder

_DAY = 86400.0
_LONG = 7 * 86400.0
_TIMED = 32
"""Questions embedded to know how long one takes."""


class TuneReport(msgspec.Struct, frozen=True, kw_only=True):
    """The advice, and the log that it rests on."""

    advice: tuple[Advice, ...]
    toml: str
    now: Played
    then: Played
    """With the advice taken, but for what is optional."""
    log: LogReport


class _Seen(NamedTuple):
    """One log, ready to be asked."""

    traffic: Traffic
    stage: Stage
    config: Config
    embedder: Embedder | None
    readings: KeptReadings | None


async def tuned(
    traffic: Traffic,
    config: Config,
    opened: tuple[Embedder, KeptReadings] | None,
    options: LogOptions,
    progress: Progress,
) -> TuneReport:
    """Replay, advise, and replay with the advice."""
    embedder, readings = opened or (None, None)
    stage = await report.staged(traffic, readings, options, progress)
    seen = _Seen(traffic, stage, config, embedder, readings)
    dim = embedder.dim if embedder is not None else 0
    chosen = msgspec.structs.replace(
        options,
        budgets=tuple(sorted({report.budget_of(config), *_presets()})),
        floors=tuple(sorted({*options.floors, config.semantic.floor})),
    )
    todo = [job for job in report.jobs(config, chosen, dim) if job.rule != "per-entry"]
    played = report.play_all(stage, todo, config, progress)
    advised = tuple(await _advise(seen, played))
    toml = snippet(advised)
    changed = applied(config, toml)
    if traffic.calls:
        progress("replaying with the advice taken")
    job = Job(NOW, 0.0, lambda: report.current_rule(changed, dim))
    lives = report.lives_of(changed)
    then = Replay(stage, job.made(), lives, changed.semantic.neighbours).run("then", 0.0)
    name = embedder.id if embedder is not None else ""
    log = report.reported(stage, played, chosen, name, config)
    return TuneReport(advice=advised, toml=toml, now=played[0], then=then, log=log)


def _presets() -> list[float]:
    return [preset.share for preset in PRESETS.values()]


async def _advise(seen: _Seen, played: Sequence[Played]) -> list[Advice]:
    traffic, config = seen.traffic, seen.config
    calls = traffic.calls
    timed = traffic.timed
    seconds = calls[-1].time - calls[0].time if timed and calls else 0.0
    again = repeats.repeats(traffic)
    found = [advice.exact_ttl(again, config, seconds)]
    if seen.embedder is not None and seen.readings is not None and config.semantic.enabled:
        found.append(advice.semantic_ttl(_ages(seen), config, seconds))
        found += meaning.by_meaning(meaning.evidence(played, traffic.namespaces), config)
        if timed:
            took = await _times(seen, seen.readings)
            found += advice.embedder(advice.timing(calls, took), config)
    ttl = found[0].then
    life = float(ttl)
    if timed:
        longest = max([life, *(float(one.then) for one in found if one.key == "semantic.ttl")])
        found += advice.sizes(repeats.demand(traffic, life, longest), config)
    found.append(advice.tenants(repeats.sharing(traffic, life), config, len(calls)))
    return found


def _ages(seen: _Seen) -> list[float]:
    """Ages of answers by meaning, had all lived for a week."""
    rule = Guarded(seen.config.semantic.floor)
    lives = Lives(seen.config.exact.ttl, _LONG)
    return Replay(seen.stage, rule, lives, seen.config.semantic.neighbours).run("", 0.0).ages


async def _times(seen: _Seen, readings: KeptReadings) -> list[float]:
    """Seconds that reading a question takes here, measured anew: kept ones cost nothing."""
    keys = list(dict.fromkeys(call.key for call in seen.stage.calls if call.semantic))
    step = max(1, len(keys) // _TIMED)
    for key in keys[::step][:_TIMED]:
        await readings.measure(seen.traffic.text(key))
    return readings.took


def applied(config: Config, toml: str) -> Config:
    """The configuration with a snippet laid over it; raises ConfigError."""
    over = build(from_table(tomllib.loads(toml), "the advice"))
    given = tomllib.loads(toml)
    merged = _merged(msgspec.to_builtins(config), given)
    return msgspec.convert(merged, type(over))


def _merged(below: dict[str, object], above: dict[str, object]) -> dict[str, object]:
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        both = isinstance(value, dict) and isinstance(under, dict)
        merged[name] = _merged(under, value) if both else value  # type: ignore[arg-type]
    return merged


def render(found: TuneReport) -> str:
    """The table, what it brings, and the snippet."""
    parts = [aligned(rows(found), left=5)]
    risks = [f"  {one.key}: {one.risk}" for one in found.advice if one.changes and one.risk]
    if risks:
        parts.append("What the changes may cost\n" + "\n".join(risks))
    parts += [_brings(found), f"Put this into askonce.toml:\n\n{found.toml}"]
    return "\n\n".join(parts)


def rows(found: TuneReport) -> list[list[str]]:
    """The table of all advice, heads first."""
    return [["", "setting", "now", "advised", "evidence"], *map(_row, found.advice)]


def _row(one: Advice) -> list[str]:
    mark = " " if not one.changes else "?" if one.optional else "*"
    then = _shown(one.then) if one.changes else "as is"
    return [mark, one.key, _shown(one.now), then, one.why]


def _shown(value: advice.Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:.12g}"


def _brings(found: TuneReport) -> str:
    table = [["", "answered %", "exact %", "semantic %", "wrong of judged", "tokens saved"]]
    for name, played in (("now", found.now), ("advised", found.then)):
        total = played.total
        table.append(
            [
                name,
                percent(total.hits, total.calls),
                percent(total.exact, total.calls),
                percent(total.semantic, total.calls),
                f"{total.different} of {total.judged}",
                saved(found.log, total),
            ]
        )
    short = ""
    if found.log.span < _DAY:
        short = f"The log covers {span(found.log.span)}: lives and peaks are as sure as that.\n"
    return short + (
        f"On the first {found.log.replayed} calls (*: changes, ?: for you to decide)\n"
        + aligned(table, left=1)
    )
