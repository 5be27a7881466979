"""All evidence of a deployment: global, namespace, partition; and the decision for one request.

Every label counts at all three. A namespace opens on labels of its own, with the rates of all
namespaces as its prior. A partition goes by its namespace's level until it has spoken: most
partitions, such as the turns of a conversation, never get labels enough, and the budget holds
over all of them together. One that turns out worse is held stricter at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from askonce.trust.account.asked import Place, Step
from askonce.trust.account.bound import JudgeError
from askonce.trust.account.budget import (
    CLOSED,
    Budget,
    Caution,
    Decision,
    Level,
    chance,
    decide,
    level,
)
from askonce.trust.account.calibration import SHIPPED, Node, Prior
from askonce.trust.account.evidence import Label, cell_of, middle

_PATIENCE = 5
"""Verdicts until the level is worked out anew; a wrong one on what is served never waits."""

_ALPHA = 0.05

_WORSE = 1.3
"""Standard deviations above the parent's rates at which a partition is held stricter."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator set."""

    budget: Budget = Budget()
    """Where a namespace has none of its own."""
    budgets: Mapping[bytes, Budget] = {}
    caution: Caution = Caution()
    judge: JudgeError = JudgeError()
    memory: float = 5_000.0
    """Requests after which a count has faded to 1/e."""
    speaks: float = 200.0
    """Labels from which a partition has a level of its own."""
    places: int = 4096
    """Most namespaces and partitions remembered, 3 KiB each; the longest unused leave first."""


class Standing(msgspec.Struct, frozen=True):
    """What an operator sees of a place."""

    open: bool
    score: float
    """The lowest log odds that are served."""
    labels: float
    """Verdicts at or above that score."""
    wrong: float
    estimate: float
    """Wrong share of what is served, past and ahead, at the end that the account reckons with."""
    bound: float
    """The wrong rate of its hits is below this, whenever one looks, at 95 %, by audits alone."""
    hits: int
    """Hits since the last drift; the bound is over these."""
    drifts: int


class _Held:
    """A node and the level that it has come to."""

    __slots__ = ("at", "node", "waiting")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.at = Level()
        self.waiting = 0


class Ledger:
    """Evidence in, decisions out; deterministic, bounded in memory, used from one thread."""

    def __init__(self, policy: Policy, seed: bytes) -> None:
        """seed: makes audits and forced misses unpredictable to callers, and repeatable to us."""
        self._policy = policy
        self._seed = seed
        self._root = self._fresh()
        self._held: OrderedDict[tuple[bytes, ...], _Held] = OrderedDict()

    def decide(self, place: Place, score: float | None, request: bytes) -> Decision:
        """Count the request and say what to do with its best candidate, if it has one."""
        if score is None:
            self.count(place, None, served=False)
            return Decision(serve=False, audit=False, chance=1.0)
        caution = self._policy.caution
        chances = (chance(self._seed, request, b"forced"), chance(self._seed, request, b"audit"))
        decision = decide(score, self._level(place), caution, chances)
        self.count(place, cell_of(score), served=decision.serve)
        return decision

    def count(self, place: Place, cell: int | None, *, served: bool) -> None:
        """Count a request with its best candidate in this cell."""
        self.repeat(Step(*place, cell, "served" if served else "asked"))

    def repeat(self, step: Step) -> None:
        """Count what was decided of a request, here or elsewhere, or what came of it."""
        cell = step.cell
        for held in self._chain(Place(step.namespace, step.partition)):
            node = held.node
            if step.what in {"asked", "served"}:
                node.ask(cell)
            if step.what == "unwatched":
                node.unwatch()
            if cell is not None and step.what == "served":
                node.serve(cell)
            if cell is not None and step.what == "withdrawn":
                node.withdraw(cell)

    def threshold(self, place: Place) -> float:
        """The log odds from which on this place is served; infinite while it is not."""
        at = self._level(place)
        return middle(at.lowest) if at.lowest < CLOSED else float("inf")

    def knows(self, place: Place) -> bool:
        """Whether there is evidence of this very place."""
        return tuple(place) in self._held

    def opened(self, place: Place) -> bool:
        """Whether anything is served here now."""
        return self._level(place).lowest < CLOSED

    def learn(self, place: Place, label: Label) -> bool:
        """Take a verdict; returns whether it told of a drift: then older evidence was dropped."""
        path = tuple(place)
        self._keep(path)
        self._keep(path[:1])
        drifted = False
        prior = SHIPPED
        for depth, held in enumerate(self._chain(place)):
            gone = held.node.learn(label)
            held.waiting += 1
            urgent = label.wrong and cell_of(label.score) >= held.at.lowest
            if gone or urgent or held.waiting >= _PATIENCE:
                self._refresh(held, prior, self._budget(place) if depth else None)
            prior = held.node.prior()
            drifted |= gone
        return drifted

    def reset(self, place: Place, *, whole: bool = False) -> None:
        """Forget a partition, or its whole namespace: the content or the model has changed."""
        path = tuple(place)
        gone = [key for key in self._held if key == path or (whole and key[0] == place.namespace)]
        for key in gone:
            del self._held[key]

    def standing(self, place: Place) -> Standing:
        """How far this place may go now, and on what evidence."""
        chain = self._chain(place)
        node, at = chain[-1].node, self._level(place)
        labels = sum(node.cells.counts(node.cells.labels)[at.lowest :])
        wrong = sum(node.cells.counts(node.cells.wrong)[at.lowest :])
        return Standing(
            open=at.lowest < CLOSED,
            score=middle(at.lowest) if at.lowest < CLOSED else float("inf"),
            labels=labels,
            wrong=wrong,
            estimate=at.limit,
            bound=self._policy.judge.ceiling(node.checked.bound(_ALPHA), 2.0),
            hits=node.checked.hits,
            drifts=sum(held.node.drifts for held in chain),
        )

    @property
    def places(self) -> int:
        """How many namespaces and partitions are remembered."""
        return len(self._held)

    def _fresh(self) -> _Held:
        return _Held(Node(self._policy.judge, self._policy.memory))

    def _budget(self, place: Place) -> Budget:
        return self._policy.budgets.get(place.namespace, self._policy.budget)

    def _chain(self, place: Place) -> list[_Held]:
        """From the root down, as far as there is evidence."""
        path = tuple(place)
        found = [self._root]
        for key in (path[:1], path):
            held = self._held.get(key)
            if held is not None:
                found.append(held)
        return found

    def _keep(self, key: tuple[bytes, ...]) -> None:
        if key not in self._held:
            self._held[key] = self._fresh()
        self._held.move_to_end(key)
        if len(self._held) > self._policy.places:
            self._held.popitem(last=False)

    def _level(self, place: Place) -> Level:
        above = self._held.get((place.namespace,))
        own = self._held.get(tuple(place))
        if above is None:
            return Level()
        if own is None:
            return above.at
        if sum(own.node.cells.labels) >= self._policy.speaks * own.node.cells.unit:
            return own.at
        rates = above.node.rates
        worse = rates is not None and own.node.surprise(rates) > _WORSE
        return max(above.at, own.at, key=_strictness) if worse else above.at

    def _refresh(self, held: _Held, prior: Prior, budget: Budget | None) -> None:
        held.waiting = 0
        rates = held.node.refresh(prior)
        if budget is not None:
            policy = self._policy
            held.at = level(held.node.cells, rates, budget, policy.caution, policy.judge)


def _strictness(at: Level) -> int:
    return at.lowest
