"""The whole study: every trace, GPU, link, tier policy and rule, as one report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import ConfigError
from askonce.kv.curves import TERAFLOPS, Curve, estimated, published
from askonce.lab.kv.replicas import ROUTINGS, Routed, Routing, route
from askonce.lab.kv.tiers import POLICIES, Content, Policy, Shared, replay
from askonce.lab.kv.timing import RULES, PublishedPrefill, Rule, Setting, Times, play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.lab.kv.traces import Trace

GIGABITS = (1.0, 10.0, 25.0, 100.0)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The model that is served."""

    name: str
    parallel: int
    bytes_per_token: int
    parameters: float
    attention: float
    """Layers x heads x head size."""


SUBJECTS = {
    "llama-8b": Subject(
        name="llama-8b",
        parallel=1,
        bytes_per_token=131_072,
        parameters=8.0e9,
        attention=32 * 4096,
    ),
    "llama-70b": Subject(
        name="llama-70b",
        parallel=4,
        bytes_per_token=327_680,
        parameters=70.6e9,
        attention=80 * 8192,
    ),
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to try."""

    model: str = "llama-8b"
    gpus: tuple[str, ...] = ("A100", "H100")
    gigabits: tuple[float, ...] = GIGABITS
    replicas: int = 4
    local_tokens: int = 1_000_000
    budgets: tuple[int, ...] = (268_000_000_000,)
    """The first one is timed; hit rates are given for all."""
    routings: tuple[Routing, ...] = ("round-robin", "prefix-hash")
    """The first one is timed."""
    use: float = 0.6
    """Share of the time in which engines would prefill without a tier, where a trace does not say
    when its sessions begin."""
    tell_every: float = 5.0


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What one tier policy held, and what that was worth."""

    trace: str
    routing: str
    budget: int
    policy: Policy
    tokens: int
    """Of all prompts."""
    local: int
    """Tokens that replicas had themselves."""
    store: int
    """Tokens found in the store besides."""
    read: int
    """Bytes, if all that is found is loaded."""
    written: int


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """Time to first token under one rule, on one GPU, over one link."""

    trace: str
    gpu: str
    gigabits: float
    rule: Rule
    mean: float
    half: float
    most: float
    """p99."""
    engine_use: float
    local: float
    """Share of prompt tokens by source; the rest was computed."""
    store: float
    read: int
    load_seconds: float
    saved_seconds: float
    lost_seconds: float
    loads: int
    lost: int
    refused: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    options: Options
    held: tuple[Held, ...]
    timed: tuple[Timed, ...]
    seconds: float
    """How long the study took."""


class Progress:
    """Tells how far a study is and how long it will take; at most once a second."""

    def __init__(
        self,
        steps: int,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """steps: how many will be begun."""
        self._clock = clock
        self._steps = steps
        self._tell = tell
        self._begun = 0
        self._start = clock()
        self._last = self._start
        self._what = ""

    def begin(self, what: str) -> None:
        """Another step begins."""
        self._begun += 1
        self._what = what
        self.tick()

    def tick(self) -> None:
        """Something was done."""
        now = self._clock()
        if now - self._last < 1.0:
            return
        self._last = now
        done = self._begun - 1
        left = f"{(now - self._start) / done * (self._steps - done):.0f} s left" if done else ""
        self._tell(f"{done}/{self._steps} {self._what} {left}".rstrip())


def run(traces: Sequence[Trace], options: Options, tell: Callable[[str], None]) -> Report:
    """Run everything; raises ConfigError for an unknown model, GPU, routing or an empty trace."""
    curves = _checked(traces, options)
    each = len(options.routings) * len(options.budgets) * len(POLICIES)
    steps = len(traces) * (each + len(options.gigabits) * (1 + len(options.gpus) * len(RULES)))
    progress = Progress(steps, tell)
    start = time.monotonic()
    held: list[Held] = []
    timed: list[Timed] = []
    for trace in traces:
        placed = paced(trace, options, curves)
        held += _hold_all(placed, options, progress)
        timed += _time_all(placed, options, curves, progress)
    return Report(
        options=options,
        held=tuple(held),
        timed=tuple(timed),
        seconds=time.monotonic() - start,
    )


def paced(trace: Trace, options: Options, curves: Sequence[Curve]) -> Trace:
    """With its sessions so dense that the slowest GPU is in use for the wanted share of time."""
    if not trace.sessions:
        return trace
    slow = PublishedPrefill(max(curves, key=lambda curve: curve.seconds(8192)))
    window = sum(one.tokens for each in trace.sessions for one in each) / 2000.0
    placed = trace.laid_out(window)
    for _ in range(3):
        routed = route(placed, options.replicas, options.local_tokens, options.routings[0])
        work = 0.0
        for one, known in zip(placed.requests, routed.local, strict=True):
            local = min(known * trace.block_tokens, one.tokens - 1)
            work += slow.seconds(one.tokens - local, local)
        window = max(1.0, work / options.replicas / options.use)
        placed = trace.laid_out(window)
    return placed


def believed(gpu: str, subject: Subject) -> Curve:
    """What the gate starts from: arithmetic, not the curve that it is to learn."""
    return estimated(
        gpu, subject.parallel, parameters=subject.parameters, attention=subject.attention
    )


def _checked(traces: Sequence[Trace], options: Options) -> list[Curve]:
    if options.model not in SUBJECTS:
        raise ConfigError(f"unknown model {options.model}; known: {', '.join(SUBJECTS)}")
    for routing in options.routings:
        if routing not in ROUTINGS:
            raise ConfigError(f"unknown routing {routing}; known: {', '.join(ROUTINGS)}")
    for trace in traces:
        if not trace.requests and not any(trace.sessions):
            raise ConfigError(f"{trace.name}: there are no requests in it")
    subject = SUBJECTS[options.model]
    curves = [published(gpu, subject.name, subject.parallel) for gpu in options.gpus]
    for gpu, curve in zip(options.gpus, curves, strict=True):
        if curve is None or gpu not in TERAFLOPS:
            raise ConfigError(f"no prefill curve was published for {options.model} on {gpu}")
    return [curve for curve in curves if curve is not None]


def _hold_all(trace: Trace, options: Options, progress: Progress) -> list[Held]:
    held = []
    for routing in options.routings:
        routed = route(trace, options.replicas, options.local_tokens, routing)
        for budget in options.budgets:
            for policy in POLICIES:
                progress.begin(f"{trace.name}, {routing}, {policy}")
                shared = _shared(trace, options, budget, float("inf"))
                content = replay(trace, routed, policy, shared, progress.tick)
                held.append(_held(trace, routing, routed, content, shared))
    return held


def _shared(trace: Trace, options: Options, budget: int, rate: float) -> Shared:
    return Shared(
        budget=budget,
        block_bytes=SUBJECTS[options.model].bytes_per_token * trace.block_tokens,
        replicas=options.replicas,
        write_rate=rate,
        tell_every=options.tell_every,
    )


def _held(trace: Trace, routing: Routing, routed: Routed, content: Content, shared: Shared) -> Held:
    size = trace.block_tokens
    return Held(
        trace=trace.name,
        routing=routing,
        budget=shared.budget,
        policy=content.policy,
        tokens=sum(one.tokens for one in trace.requests),
        local=size * sum(routed.local),
        store=size * sum(content.found),
        read=shared.block_bytes * sum(content.found),
        written=shared.block_bytes * sum(content.written),
    )


def _time_all(
    trace: Trace, options: Options, curves: Sequence[Curve], progress: Progress
) -> list[Timed]:
    """Over every link, with AskOnce's admission for all rules alike."""
    timed = []
    routed = route(trace, options.replicas, options.local_tokens, options.routings[0])
    content: Content | None = None
    for gigabits in sorted(options.gigabits):
        progress.begin(f"{trace.name}, {gigabits:g} Gb/s")
        if content is None or content.dropped:
            rate = gigabits * 1e9 / 8 * 0.9
            shared = _shared(trace, options, options.budgets[0], rate)
            shared = msgspec.structs.replace(shared, tell_every=0.0)
            content = replay(trace, routed, "askonce", shared, progress.tick)
        for gpu, curve in zip(options.gpus, curves, strict=True):
            subject = SUBJECTS[options.model]
            setting = Setting(
                truth=curve,
                believed=believed(gpu, subject),
                gigabits=gigabits,
                replicas=options.replicas,
                block_bytes=subject.bytes_per_token * trace.block_tokens,
            )
            for rule in RULES:
                progress.begin(f"{trace.name}, {gpu}, {gigabits:g} Gb/s, {rule}")
                times = play(trace, routed, content, setting=setting, rule=rule, tick=progress.tick)
                timed.append(_timed(trace.name, gpu, gigabits, times))
    return timed


def _timed(trace: str, gpu: str, gigabits: float, times: Times) -> Timed:
    ledger = times.ledger
    tokens = max(1, ledger.local_tokens + ledger.store_tokens + ledger.computed_tokens)
    return Timed(
        trace=trace,
        gpu=gpu,
        gigabits=gigabits,
        rule=times.rule,
        mean=times.mean,
        half=times.share(0.5),
        most=times.share(0.99),
        engine_use=times.engine_use,
        local=ledger.local_tokens / tokens,
        store=ledger.store_tokens / tokens,
        read=ledger.bytes_read,
        load_seconds=ledger.load_seconds,
        saved_seconds=ledger.saved_seconds,
        lost_seconds=ledger.lost_seconds,
        loads=ledger.loads,
        lost=ledger.lost,
        refused=ledger.refused,
    )
