"""Events counted in plain Python, shown to Prometheus when it asks."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from math import exp
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)

from askonce import __version__
from askonce.events import (
    AdmissionRefused,
    BreakerMoved,
    Confirmation,
    Embedded,
    Event,
    Evicted,
    GuardVetoed,
    HeldBytes,
    IndexedLate,
    Judged,
    Paid,
    Part,
    Recorded,
    Served,
    StepSkipped,
    Tier,
    TrustMoved,
    Unreadable,
)
from askonce.telemetry.figures import (
    BUCKETS,
    Figures,
    Histogram,
    Series,
    read_snapshots,
    snapshot,
    total,
    write_snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Value = TypeVar("Value")

CONTENT_TYPE = CONTENT_TYPE_LATEST
PUBLISH_EVERY = 1.0
MOST_NAMESPACES = 64
"""Whose trust is shown: those heard of last. As many learn at a time."""
_OF_NAMESPACES = (
    "askonce_trust_threshold",
    "askonce_wrong_rate_bound",
    "askonce_trust_labels",
    "askonce_verdict_share",
)
"""Seconds between two publications of a worker's figures."""


class Metric(NamedTuple):
    """One metric as Prometheus sees it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS = (
    Metric("askonce_requests_total", "counter", ("tier", "outcome"), "Requests answered"),
    Metric("askonce_request_seconds", "histogram", ("tier",), "Request read to last byte"),
    Metric("askonce_ttft_seconds", "histogram", ("tier",), "Request read to first body byte"),
    Metric("askonce_admission_refused_total", "counter", ("reason",), "Answers not stored"),
    Metric("askonce_guard_vetoes_total", "counter", ("guard",), "Semantic candidates refused"),
    Metric("askonce_steps_skipped_total", "counter", ("part", "cause"), "Cache steps given up"),
    Metric(
        "askonce_breaker_state", "gauge", ("part",), "0 closed, 1 half open, 2 open; worst worker"
    ),
    Metric("askonce_evictions_total", "counter", ("part", "cause"), "Entries that left"),
    Metric(
        "askonce_unreadable_total", "counter", ("part", "reason"), "Stored values of no use: misses"
    ),
    Metric("askonce_held_bytes", "gauge", ("part",), "Bytes that a part holds"),
    Metric("askonce_held_entries", "gauge", ("part",), "Entries that a part holds"),
    Metric("askonce_embedding_seconds", "histogram", (), "Time to embed one text"),
    Metric(
        "askonce_indexed_late_total",
        "counter",
        ("outcome",),
        "Questions that a busy embedder had no time for: put off, and indexed or lost later",
    ),
    Metric("askonce_tokens_saved_total", "counter", ("kind",), "Tokens not computed again"),
    Metric("askonce_evidence_total", "counter", ("source", "verdict"), "Cached answers judged"),
    Metric("askonce_audits_total", "counter", ("verdict",), "Hits by meaning audited"),
    Metric("askonce_shadow_total", "counter", ("verdict",), "Would-be hits judged in shadow mode"),
    Metric("askonce_evidence_usd_total", "counter", ("purpose",), "Money spent on evidence alone"),
    Metric(
        "askonce_confirmations_total",
        "counter",
        ("outcome",),
        "Answers withheld from other callers, and compared with what they were told instead",
    ),
    Metric(
        "askonce_trust_threshold",
        "gauge",
        ("namespace",),
        "Least chance to be right of an answer by meaning; above 1 while there are none",
    ),
    Metric(
        "askonce_wrong_rate_bound",
        "gauge",
        ("namespace",),
        "The wrong rate at or above the threshold is below this, at 95 %",
    ),
    Metric("askonce_trust_labels", "gauge", ("namespace",), "Verdicts so far"),
    Metric(
        "askonce_verdict_share",
        "gauge",
        ("namespace",),
        "How often the judge can tell; below a half near-copies alone are served",
    ),
    Metric(
        "askonce_recorded_calls_total",
        "counter",
        ("outcome",),
        "Calls written to the request log, or why not",
    ),
    Metric("askonce_workers", "gauge", (), "Worker processes that answer"),
    Metric("askonce_build_info", "gauge", ("version",), "Always 1"),
)
"""Everything `/metrics` shows."""

BREAKER = {"closed": 0.0, "half_open": 1.0, "open": 2.0}
OUTCOMES = ("ok", "client_error", "upstream_error", "disconnected")


def is_shared(series: Series) -> bool:
    """Whether a gauge is about something that all workers share, so that it is not summed."""
    return series[0] != "askonce_workers" and series[1:] != ("hot",)


def _zeros() -> Figures:
    """Figures in which every series that is known beforehand is present."""
    tiers, parts = get_args(Tier), get_args(Part)
    counters: dict[Series, float] = {
        ("askonce_requests_total", tier, how): 0.0 for tier in tiers for how in OUTCOMES
    }
    for purpose in ("audit", "judge"):
        counters["askonce_evidence_usd_total", purpose] = 0.0
    for kind in ("prompt", "completion"):
        counters["askonce_tokens_saved_total", kind] = 0.0
    gauges: dict[Series, float] = {("askonce_breaker_state", part): 0.0 for part in parts}
    gauges["askonce_workers",] = gauges["askonce_build_info", __version__] = 1.0
    names = ("askonce_request_seconds", "askonce_ttft_seconds")
    histograms: dict[Series, Histogram] = {
        (name, tier): Histogram() for name in names for tier in tiers
    }
    histograms["askonce_embedding_seconds",] = Histogram()
    return Figures(counters, gauges, histograms)


class PrometheusSink:
    """Counts events; with a directory, shares its figures with the server's other workers."""

    def __init__(self, directory: Path | None = None) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._directory = directory
        self._figures = _zeros()
        self._latency = self._by_tier("askonce_request_seconds")
        self._ttft = self._by_tier("askonce_ttft_seconds")
        self._embedding = self._figures.histograms["askonce_embedding_seconds",]
        self._namespaces: OrderedDict[str, None] = OrderedDict()
        """Those whose gauges are shown, the one heard of last at the end."""
        self._takers: dict[type[Event], Callable[[Any], None]] = {
            Served: self._served,
            AdmissionRefused: lambda event: self._count(
                ("askonce_admission_refused_total", event.reason)
            ),
            GuardVetoed: lambda event: self._count(("askonce_guard_vetoes_total", event.guard)),
            StepSkipped: lambda event: self._count(
                ("askonce_steps_skipped_total", event.part, event.cause)
            ),
            BreakerMoved: self._breaker_moved,
            Paid: lambda event: self._count(
                ("askonce_evidence_usd_total", event.purpose), event.cost
            ),
            Confirmation: lambda event: self._count(("askonce_confirmations_total", event.outcome)),
            Evicted: lambda event: self._count(
                ("askonce_evictions_total", event.part, event.cause), event.entries
            ),
            Unreadable: lambda event: self._count(
                ("askonce_unreadable_total", event.part, event.reason)
            ),
            HeldBytes: self._held,
            IndexedLate: lambda event: self._count(("askonce_indexed_late_total", event.outcome)),
            Embedded: lambda event: self._embedding.observe(event.took),
            Judged: self._judged,
            TrustMoved: self._trust_moved,
            Recorded: lambda event: self._count(("askonce_recorded_calls_total", event.outcome)),
        }

    def emit(self, event: Event) -> None:
        """Count one event; an unknown kind is not counted."""
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event)

    def render(self) -> bytes:
        """The page for Prometheus; reads files when there are several workers, so it may block."""
        return generate_latest(self._registry)

    def publish(self) -> None:
        """Share this worker's figures with the others; blocks for a small file."""
        if self._directory is not None:
            write_snapshot(self._directory, snapshot(self._figures))

    async def keep_publishing(self, every: float = PUBLISH_EVERY) -> None:
        """Publish until cancelled, off the event loop."""
        while self._directory is not None:
            await asyncio.to_thread(self.publish)
            await asyncio.sleep(every)

    def collect(self) -> Iterator[Family]:
        """Give prometheus_client the sum over all workers."""
        others = read_snapshots(self._directory, but=os.getpid()) if self._directory else []
        figures = total([snapshot(self._figures), *others], is_shared=is_shared)
        for metric in METRICS:
            yield _family(metric, figures)

    def _by_tier(self, name: str) -> dict[str, Histogram]:
        return {tier: self._figures.histograms[name, tier] for tier in get_args(Tier)}

    def _count(self, series: Series, by: float = 1.0) -> None:
        counters = self._figures.counters
        counters[series] = counters.get(series, 0.0) + by

    def _served(self, event: Served) -> None:
        self._count(("askonce_requests_total", event.tier, event.outcome))
        self._latency[event.tier].observe(event.latency)
        self._ttft[event.tier].observe(event.ttft)
        if event.saved_prompt:
            self._count(("askonce_tokens_saved_total", "prompt"), event.saved_prompt)
        if event.saved_completion:
            self._count(("askonce_tokens_saved_total", "completion"), event.saved_completion)

    def _breaker_moved(self, event: BreakerMoved) -> None:
        self._figures.gauges["askonce_breaker_state", event.part] = BREAKER[event.state]

    def _judged(self, event: Judged) -> None:
        self._count(("askonce_evidence_total", event.source, event.verdict))
        if event.source in {"audit", "shadow"}:
            name = "askonce_audits_total" if event.source == "audit" else "askonce_shadow_total"
            self._count((name, event.verdict))

    def _trust_moved(self, event: TrustMoved) -> None:
        gauges, namespace = self._figures.gauges, event.namespace
        closed = event.threshold == float("inf")
        least = 2.0 if closed else 1 / (1 + exp(-event.threshold))
        shown = zip(_OF_NAMESPACES, (least, event.bound, event.labels, event.told), strict=True)
        gauges.update({(name, namespace): value for name, value in shown})
        self._namespaces[namespace] = None
        self._namespaces.move_to_end(namespace)
        if len(self._namespaces) > MOST_NAMESPACES:
            gone, _ = self._namespaces.popitem(last=False)
            for name in _OF_NAMESPACES:
                del gauges[name, gone]

    def _held(self, event: HeldBytes) -> None:
        self._figures.gauges["askonce_held_bytes", event.part] = event.size
        self._figures.gauges["askonce_held_entries", event.part] = event.entries


def _family(metric: Metric, figures: Figures) -> Family:
    name, kind, labels, text = metric
    if kind == "histogram":
        family = HistogramMetricFamily(name, text, labels=labels)
        for series, histogram in sorted(_of(figures.histograms, name)):
            family.add_metric(series[1:], _cumulative(histogram), histogram.total)
        return family
    made = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
    plain = made(name, text, labels=labels)
    source = figures.counters if kind == "counter" else figures.gauges
    for series, value in sorted(_of(source, name)):
        plain.add_metric(series[1:], value)
    return plain


def _of(figures: dict[Series, Value], name: str) -> list[tuple[Series, Value]]:
    return [(series, value) for series, value in figures.items() if series[0] == name]


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    seen, buckets = 0, []
    for bound, count in zip(bounds, histogram.counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return buckets
