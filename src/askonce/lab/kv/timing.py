"""Time to first token of every request, given what local caches and store hold.

A replica prefills one request at a time, in the order in which they are ready; loads of one replica
share its link and all loads share the store's. A replica goes on computing while blocks load. What
stands in the caches is the same for all rules, so that they differ in nothing but what they load.
"""

from __future__ import annotations

import bisect
import heapq
import math
import random
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from askonce.kv.curves import LENGTHS, Curve
from askonce.kv.gate import Decision, Gate, Load, Offer
from askonce.kv.ledger import Ledger
from askonce.kv.prefill import PrefillModel, StoreModel
from askonce.kv.usage import Usage
from askonce.units import Bytes, Seconds, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.lab.kv.replicas import Routed
    from askonce.lab.kv.tiers import Content
    from askonce.lab.kv.traces import Request, Trace

Rule = Literal["none", "always", "gate"]
"""Load nothing, load all that is found, or load what the gate says."""
RULES: Final[tuple[Rule, ...]] = get_args(Rule)

_DECODE: Final = 0.02
"""Seconds a token of output."""
_SLOTS: Final = 64
"""Requests that decode at a time; a full engine prefills slower by _BUSY."""
_BUSY: Final = 0.3
_LINE: Final = 0.9
"""Share of a link's rate that payload gets."""
_PREFILL_NOISE: Final = 0.05
_LOAD_NOISE: Final = 0.15


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The machines."""

    truth: Curve
    """What prefill costs; published points are followed exactly."""
    believed: Curve
    """What the gate believes at its start."""
    gigabits: float
    """Of one replica's link."""
    replicas: int
    block_bytes: int
    round_trip: float = 0.002
    store_links: float = 4.0
    """The store's rate, in links."""
    seed: int = 0

    @property
    def bytes_per_second(self) -> float:
        """What one link carries."""
        return self.gigabits * 1e9 / 8 * _LINE


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule came to."""

    rule: Rule
    first_token: tuple[float, ...]
    """Seconds, per request."""
    ledger: Ledger
    engine_use: float
    """Share of the time in which the replicas prefilled."""

    @property
    def mean(self) -> float:
        """Mean time to first token."""
        return sum(self.first_token) / max(1, len(self.first_token))

    def share(self, share: float) -> float:
        """The time within which that share of requests had their first token."""
        ordered = sorted(self.first_token)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


class PublishedPrefill:
    """A published curve between its points, and on beyond them as it bends."""

    def __init__(self, curve: Curve) -> None:
        """curve: with points, or its formula is followed."""
        self._curve = curve
        self._points = curve.points
        self._fixed = curve.fixed
        if curve.points:
            first, second = curve.points[:2]
            slope = (second - first) / (LENGTHS[1] - LENGTHS[0])
            self._fixed = first - slope * LENGTHS[0]

    def seconds(self, new: int, context: int) -> float:
        """Prefill of `new` tokens behind `context` others."""
        return self._fixed + self._at(context + new) - self._at(context)

    def _at(self, tokens: int) -> float:
        if not self._points:
            return self._curve.seconds(tokens)
        last = LENGTHS[-1]
        if tokens > last:
            beyond = self._curve.seconds(tokens) - self._curve.seconds(last)
            return self._points[-1] + beyond
        right = bisect.bisect_left(LENGTHS, tokens)
        start, low = (LENGTHS[right - 1], self._points[right - 1]) if right else (0, self._fixed)
        return low + (self._points[right] - low) * (tokens - start) / (LENGTHS[right] - start)


class _Job(msgspec.Struct, gc=False):
    """A request on its way to its first token."""

    number: int
    context: int
    decision: Decision | None = None
    began: float = 0.0
    came: float = 0.0
    ahead: float = 0.0


class _Engine:
    """One replica's clock."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.free = 0.0
        self.link_free = 0.0
        self.ready: list[tuple[float, int, _Job]] = []
        self.decoding: list[float] = []
        self.engine_use = Usage()
        self.link_use = Usage()
        self.worked = 0.0

    def busy(self, now: float) -> float:
        """Share of the slots that decode."""
        while self.decoding and self.decoding[0] <= now:
            heapq.heappop(self.decoding)
        return min(1.0, len(self.decoding) / _SLOTS)


class _Run:
    """One rule over one trace."""

    def __init__(
        self, trace: Trace, routed: Routed, content: Content, setting: Setting, rule: Rule
    ) -> None:
        self._trace = trace
        self._routed = routed
        self._content = content
        self._setting = setting
        self._rule = rule
        self._truth = PublishedPrefill(setting.truth)
        self._draw = random.Random(setting.seed)  # noqa: S311 - reproducible, not secret
        self._noise = [
            (
                self._draw.lognormvariate(0.0, _PREFILL_NOISE),
                self._draw.lognormvariate(0.0, _LOAD_NOISE),
            )
            for _ in trace.requests
        ]
        self._engines = [self._engine() for _ in range(setting.replicas)]
        self._store_free = 0.0
        self._times = [0.0] * len(trace.requests)
        self._ledger = Ledger()

    def _engine(self) -> _Engine:
        setting = self._setting
        prefill = PrefillModel(setting.believed)
        store = StoreModel(Seconds(setting.round_trip), setting.bytes_per_second)
        return _Engine(Gate(prefill, store))

    def times(self, tick: Callable[[], None]) -> Times:
        """Play all requests."""
        for number, request in enumerate(self._trace.requests):
            engine = self._engines[self._routed.replica[number]]
            self._work(engine, request.at)
            self._arrive(engine, number, request)
            if number % 500 == 0:
                tick()
        for engine in self._engines:
            self._work(engine, math.inf)
        ended = max((engine.free for engine in self._engines), default=0.0)
        worked = sum(engine.worked for engine in self._engines)
        return Times(
            rule=self._rule,
            first_token=tuple(self._times),
            ledger=self._ledger,
            engine_use=worked / max(ended * len(self._engines), 1e-9),
        )

    def _arrive(self, engine: _Engine, number: int, request: Request) -> None:
        size = self._trace.block_tokens
        local = min(self._routed.local[number] * size, request.tokens - 1)
        decision = self._decide(engine, number, request, local)
        loaded = decision.blocks * size
        self._ledger.request(
            local=Tokens(local),
            store=Tokens(loaded),
            computed=Tokens(request.tokens - local - loaded),
        )
        job = _Job(number, local + loaded, began=request.at)
        if decision.blocks:
            job.decision = decision
            self._load(engine, job, decision.size)
        elif decision.why == "recompute":
            self._ledger.refuse()
        heapq.heappush(engine.ready, (max(job.came, request.at), number, job))

    def _decide(self, engine: _Engine, number: int, request: Request, local: int) -> Decision:
        found = self._content.found[number] if self._rule != "none" else 0
        offer = Offer(
            tokens=Tokens(request.tokens),
            local=Tokens(local),
            found=found,
            block_tokens=Tokens(self._trace.block_tokens),
            block_bytes=Bytes(self._setting.block_bytes),
        )
        now = request.at
        ahead = max(0.0, engine.link_free - now) * self._setting.bytes_per_second
        load = Load(
            wait=Seconds(max(0.0, engine.free - now)),
            busy=engine.busy(now),
            ahead=Bytes(int(ahead)),
            engine_use=engine.engine_use.share(now),
            link_use=engine.link_use.share(now),
        )
        decision = engine.gate.decide(offer, load)
        if self._rule == "always":
            most = min(found, (request.tokens - local - 1) // self._trace.block_tokens)
            size = Bytes(most * self._setting.block_bytes)
            return msgspec.structs.replace(decision, blocks=most, size=size)
        return decision

    def _load(self, engine: _Engine, job: _Job, size: int) -> None:
        """The replica's link and the store's are each first come, first served."""
        rate = self._setting.bytes_per_second
        took = size / rate * self._noise[job.number][1]
        job.ahead = max(0.0, engine.link_free - job.began) * rate
        engine.link_free = max(engine.link_free, job.began) + took
        self._store_free = max(self._store_free, job.began) + took / self._setting.store_links
        job.came = max(engine.link_free, self._store_free) + self._setting.round_trip
        engine.link_use.add(job.began, took)

    def _work(self, engine: _Engine, now: float) -> None:
        """Prefill what is ready by now."""
        while engine.ready and engine.ready[0][0] <= now:
            ready, number, job = heapq.heappop(engine.ready)
            start = max(ready, engine.free)
            busy = engine.busy(start)
            new = self._trace.requests[number].tokens - job.context
            took = self._truth.seconds(new, job.context) * (1 + _BUSY * busy)
            took *= self._noise[number][0]
            engine.free = start + took
            engine.worked += took
            engine.engine_use.add(start, took)
            output = self._trace.requests[number].output
            heapq.heappush(engine.decoding, engine.free + output * _DECODE)
            self._finish(engine, job, new, took, busy)

    def _finish(self, engine: _Engine, job: _Job, new: int, took: float, busy: float) -> None:
        self._times[job.number] = engine.free - job.began
        if self._rule == "gate":
            engine.gate.prefill.observe(
                Tokens(new), Seconds(took), context=Tokens(job.context), busy=busy
            )
        if job.decision is not None:
            loading = Seconds(job.came - job.began)
            engine.gate.store.observe(job.decision.size, loading, ahead=Bytes(int(job.ahead)))
            self._ledger.loaded(job.decision, loading)


def play(
    trace: Trace,
    routed: Routed,
    content: Content,
    *,
    setting: Setting,
    rule: Rule,
    tick: Callable[[], None],
) -> Times:
    """Time every request under one rule; `tick` is called now and then."""
    return _Run(trace, routed, content, setting, rule).times(tick)
