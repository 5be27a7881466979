"""Figures of several workers become one engine's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip(
    "vllm", reason="there is no vLLM: run `make test-kv-vllm`", exc_type=ImportError
)

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.registry import REGISTRY

from askonce.kv.vllm.stats import ALL_METRICS, AskOncePromMetrics, AskOnceStats

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
COUNT, WORST = "askonce_kv_audited_blocks_total|agrees", "askonce_kv_audit_error_max"
AGE = "askonce_kv_epoch_age_seconds"


def test_workers_are_added_up_but_for_gauges() -> None:
    """The largest error is the largest of all, and other gauges are the last one's."""
    told = AskOnceStats(data={COUNT: 3.0, WORST: 0.5, AGE: 0.9})
    told.aggregate(AskOnceStats(data={COUNT: 4.0, WORST: 0.1, AGE: 0.2}))
    assert told.data == {COUNT: 7.0, WORST: 0.5, AGE: 0.2}


def test_a_largest_never_falls() -> None:
    """However small what another worker reports later."""
    types: dict[Any, Any] = {Counter: Counter, Gauge: Gauge, Histogram: Histogram}
    metrics = AskOncePromMetrics(
        SimpleNamespace(kv_transfer_config=None), types, ["engine"], {0: ["0"]}
    )
    metrics.observe({COUNT: 3.0, WORST: 0.5, AGE: 0.9})
    metrics.observe({COUNT: 4.0, WORST: 0.1, AGE: 0.2})
    labels = {"engine": "0"}
    assert REGISTRY.get_sample_value("askonce_kv_audit_error_max", labels) == 0.5
    assert REGISTRY.get_sample_value(AGE, labels) == 0.2
    labels["verdict"] = "agrees"
    assert REGISTRY.get_sample_value("askonce_kv_audited_blocks_total", labels) == 7.0
    for name in ALL_METRICS:
        assert name in metrics._metrics
