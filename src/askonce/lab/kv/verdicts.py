"""The two promises, looked up in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from askonce.lab.kv.study import Held, Timed

if TYPE_CHECKING:
    from askonce.lab.kv.study import Report

SLOWER: Final = 1.05
"""Mean time to first token with the gate, over the better of loading nothing and everything."""
GAIN: Final = 2.0
"""Hit rate won by admission, over what storing everything wins."""
WRITES: Final = 1 / 3


class Regret(msgspec.Struct, frozen=True, kw_only=True):
    """The gate against the better of the two rules that do not think."""

    trace: str
    gpu: str
    gigabits: float
    none: Timed
    always: Timed
    gate: Timed

    @property
    def ratio(self) -> float:
        """Mean time to first token of the gate over the better of the others."""
        best = min(self.none.mean, self.always.mean)
        return self.gate.mean / best if best else 1.0

    @property
    def kept(self) -> bool:
        """Whether the gate is never slower."""
        return self.ratio <= SLOWER


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """Admission against storing everything, at one budget."""

    trace: str
    routing: str
    budget: int
    lru: Held
    askonce: Held
    bound: Held

    @property
    def promised(self) -> bool:
        """Whether the promise is about this trace: Mooncake's conversations, whose blocks mostly
        come once. Where nearly all come again, storing everything is as good."""
        return "conversation" in self.trace

    @property
    def reachable(self) -> bool:
        """Whether it is promised, and not more than the bound."""
        return self.promised and self.bound.store > 0 and GAIN * self.lru.store <= self.bound.store

    @property
    def kept(self) -> bool:
        """At least twice the gain, for fewer bytes written."""
        return (
            self.askonce.store >= GAIN * self.lru.store and self.askonce.written < self.lru.written
        )


def regrets(report: Report) -> list[Regret]:
    """One for each trace, GPU and link."""
    found: dict[tuple[str, str, float], dict[str, Timed]] = {}
    for each in report.timed:
        found.setdefault((each.trace, each.gpu, each.gigabits), {})[each.rule] = each
    return [
        Regret(trace=trace, gpu=gpu, gigabits=gigabits, **rules)
        for (trace, gpu, gigabits), rules in found.items()
    ]


def worths(report: Report) -> list[Worth]:
    """One for each trace, routing and budget."""
    found: dict[tuple[str, str, int], dict[str, Held]] = {}
    for each in report.held:
        found.setdefault((each.trace, each.routing, each.budget), {})[each.policy] = each
    return [
        Worth(
            trace=trace,
            routing=routing,
            budget=budget,
            lru=policies["lru"],
            askonce=policies["askonce"],
            bound=policies["clairvoyant"],
        )
        for (trace, routing, budget), policies in found.items()
    ]
