"""A study as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.lab.columns import aligned
from askonce.lab.kv.verdicts import SLOWER, regrets, worths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.lab.kv.study import Held, Report
    from askonce.lab.kv.verdicts import Regret


def render(report: Report) -> str:
    """What the tier holds, what loading costs, and the verdicts."""
    options = report.options
    head = (
        f"{options.replicas} replicas of {options.model}, {options.local_tokens:,} tokens of their "
        f"own each; took {report.seconds:.0f} s"
    )
    return "\n\n".join([head, holding(report.held), timing(regrets(report)), verdict(report)])


def holding(held: Sequence[Held]) -> str:
    """Hit rate and bytes by tier policy."""
    heads = ["trace", "routing", "budget GB", "policy", "local %", "store +%", "of bound"]
    heads += ["read GB", "written GB"]
    bounds = {
        (one.trace, one.routing, one.budget): one.store
        for one in held
        if one.policy == "clairvoyant"
    }
    rows = []
    for one in held:
        bound = bounds.get((one.trace, one.routing, one.budget), 0)
        rows.append(
            [
                *(one.trace, one.routing, f"{one.budget / 1e9:,.0f}", one.policy),
                f"{100 * one.local / one.tokens:.1f}",
                f"{100 * one.store / one.tokens:.2f}",
                f"{one.store / bound:.2f}" if bound else "-",
                f"{one.read / 1e9:,.0f}",
                f"{one.written / 1e9:,.0f}",
            ]
        )
    return (
        "What the store holds: prompt tokens found by the replicas themselves, and in the store "
        "besides.\naskonce-alone: replicas do not tell each other what they saw.\n"
        "clairvoyant knows the future (Belady): no policy finds more in the same bytes.\n"
        + aligned([heads, *rows], left=4)
    )


def timing(found: Sequence[Regret]) -> str:
    """Time to first token by rule."""
    heads = ["trace", "GPU", "Gb/s", "none", "always", "gate", "ratio", "p50", "p99"]
    heads += ["store %", "read GB", "load s", "saved s", "lost s", "refused", "use"]
    rows = [
        [
            *(one.trace, one.gpu, f"{one.gigabits:g}"),
            *(_seconds(each.mean) for each in (one.none, one.always, one.gate)),
            f"{one.ratio:.3f}",
            *(_seconds(one.gate.half), _seconds(one.gate.most)),
            f"{100 * one.gate.store:.1f}",
            f"{one.gate.read / 1e9:,.0f}",
            f"{one.gate.load_seconds:,.0f}",
            f"{one.gate.saved_seconds:,.0f}",
            f"{one.gate.lost_seconds:,.0f}",
            str(one.gate.refused),
            f"{one.none.engine_use:.2f}",
        ]
        for one in found
    ]
    return (
        "Mean time to first token in seconds when nothing, everything, or what the gate says is "
        "loaded.\nratio: gate over the better of the others; p50 and what follows: of the gate; "
        "use: of the engines without a tier.\n" + aligned([heads, *rows])
    )


def verdict(report: Report) -> str:
    """The promises, kept or not."""
    lines = []
    found = regrets(report)
    if found:
        worst = max(found, key=lambda one: one.ratio)
        kept = sum(one.kept for one in found)
        lines.append(
            f"{_word(kept=kept == len(found))} never slower: {kept} of {len(found)} within "
            f"{100 * (SLOWER - 1):.0f} % of the better of none and always; worst {worst.ratio:.3f} "
            f"({worst.trace}, {worst.gpu}, {worst.gigabits:g} Gb/s)"
        )
    for one in worths(report):
        gains = [100 * each.store / each.tokens for each in (one.lru, one.askonce, one.bound)]
        times = f"{gains[1] / gains[0]:.1f} times" if gains[0] > 0.1 else "next to"
        share = one.askonce.written / one.lru.written if one.lru.written else 0.0
        word = _word(kept=one.kept) if one.reachable else "----"
        lines.append(
            f"{word} worth its bytes: {one.trace}, {one.routing}, "
            f"{one.budget / 1e9:,.0f} GB: +{gains[1]:.2f} points, {times} LRU's +{gains[0]:.2f} "
            f"(bound +{gains[2]:.2f}), for {share:.2f} of its writes"
        )
    lines.append(
        "----: nothing is promised: not a trace of conversations, or LRU is near the bound"
    )
    return "\n".join(lines)


def _word(*, kept: bool) -> str:
    return "PASS" if kept else "MISS"


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"
