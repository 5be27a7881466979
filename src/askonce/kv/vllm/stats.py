"""The connector's figures on their way to vLLM's log and to Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client import Counter, Gauge
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

from askonce.kv.figures import METRICS
from askonce.kv.hearsay import HEARSAY_METRICS
from askonce.kv.vllm.economy import ECONOMY_METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONNECTOR_METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "askonce_kv_loaded_blocks_total": ("", "Blocks that were checked and given to the engine."),
    "askonce_kv_lost_blocks_total": ("", "Blocks that a lookup had found and no load brought."),
    "askonce_kv_unstored_blocks_total": (
        "",
        "Blocks not stored for want of staging memory or of a known epoch.",
    ),
}
ALL_METRICS: Final = {**METRICS, **CONNECTOR_METRICS, **ECONOMY_METRICS, **HEARSAY_METRICS}
_LARGEST: Final = "_max"
"""Ends the name of a gauge of which the largest counts."""
Sample = tuple[str, tuple[str, ...], float]


class Increments:
    """What has grown since it was last asked."""

    def __init__(self) -> None:
        """From zero."""
        self._before: dict[tuple[str, tuple[str, ...]], float] = {}

    def since(self, samples: Iterable[Sample]) -> dict[str, float]:
        """Counters by how much they grew, gauges as they are; what did not change is left out."""
        told = {}
        for name, labels, value in samples:
            before = self._before.get((name, labels), 0.0)
            if value != before:
                self._before[name, labels] = value
                told["|".join((name, *labels))] = value - before if is_counter(name) else value
        return told


class AskOnceStats(KVConnectorStats):  # type: ignore[misc] # vLLM is not typed here
    """Figures by name and labels."""

    def reset(self) -> None:
        """Back to none."""
        self.data: dict[str, float] = {}

    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not self.data

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        """Those of two processes, or of two moments."""
        for name, value in other.data.items():
            base = name.partition("|")[0]
            before = self.data.get(name, 0.0)
            largest = max(before, value) if base.endswith(_LARGEST) else value
            self.data[name] = before + value if is_counter(base) else largest
        return self

    def reduce(self) -> dict[str, int | float]:
        """For the log."""
        return {name: round(value, 3) for name, value in sorted(self.data.items())}


class AskOncePromMetrics(KVConnectorPromMetrics):  # type: ignore[misc] # vLLM is not typed here
    """The same names that the pool has elsewhere, with vLLM's labels before its own."""

    def __init__(
        self,
        vllm_config: Any,  # noqa: ANN401
        metric_types: Mapping[type, type],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        """Register all of them, and begin at 0 what has no labels of its own."""
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._metrics = {
            name: metric_types[Counter if is_counter(name) else Gauge](
                name=name,
                documentation=told,
                labelnames=[*labelnames, *(each for each in labels.split(", ") if each)],
            )
            for name, (labels, told) in ALL_METRICS.items()
        }
        self._largest: dict[tuple[str, int], float] = {}
        """Of all workers since the start."""
        for name, (labels, _) in ALL_METRICS.items():
            for engine in per_engine_labelvalues.values() if not labels else ():
                self._metrics[name].labels(*engine)

    def observe(self, transfer_stats_data: dict[str, float], engine_idx: int = 0) -> None:
        """Take in what `AskOnceStats` carried."""
        for key, value in transfer_stats_data.items():
            name, *labels = key.split("|")
            bound = self._metrics[name].labels(*self.per_engine_labelvalues[engine_idx], *labels)
            if is_counter(name):
                bound.inc(value)
                continue
            if name.endswith(_LARGEST):
                largest = max(value, self._largest.get((key, engine_idx), 0.0))
                self._largest[key, engine_idx] = largest
                bound.set(largest)
            else:
                bound.set(value)


def is_counter(name: str) -> bool:
    """Whether it only grows."""
    return name.endswith("_total")
