"""What an engine that shares its KV tells Prometheus, over HTTP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.kv.vllm.replicas import ON_ENGINES, transfer
from tests.kv.vllm.serving import MODEL, serving
from tests.servers.redis import redis, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kv.vllm.serving import Serving

    Prompts = Callable[[int, int], list[int]]

pytest.importorskip(
    "vllm", reason="there is no vLLM: run `make test-kv-vllm`", exc_type=ImportError
)

from prometheus_client.parser import text_string_to_metric_families

from askonce.kv.figures import METRICS
from askonce.kv.vllm.stats import ALL_METRICS

pytestmark = ON_ENGINES
BLOCK_BYTES, BLOCKS, TOKENS = 65_536, 15, 500
REPORTED_EVERY = 1.1
"""Seconds after which an engine's next step tells what it counted meanwhile."""
COMPUTED = "askonce_kv_prompt_tokens_total|computed"
VLLM_OWN = {"model_name": MODEL, "engine": "0"}


def _told(server: Serving, *, computed: int) -> dict[str, float]:
    """AskOnce's samples by name and its own labels, once so many tokens and three are told."""
    time.sleep(REPORTED_EVERY)
    server.complete([5, 6, 7])
    until(lambda: _samples(server).get(COMPUTED) == computed + 3)
    return _samples(server)


def _samples(server: Serving) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(server.scrape()):
        for sample in family.samples:
            if sample.name.startswith("askonce_kv_") and not sample.name.endswith("_created"):
                labels = dict(sample.labels)
                assert {name: labels.pop(name) for name in VLLM_OWN} == VLLM_OWN
                found["|".join((sample.name, *labels.values()))] = sample.value
    return found


def test_a_scrape_has_every_documented_figure(
    model: Path, tmp_path: Path, prompts: Prompts
) -> None:
    """Two servers: one computes and stores, the other loads, and each tells what it did."""
    prefix = prompts(TOKENS, 1)
    with redis("redis7", tmp_path) as store:
        connector = transfer(store.unix_url, lookup_deadline=1.0, load_deadline=5.0)
        with serving(model, tmp_path, connector) as first:
            cold = first.complete(prefix, tokens=8)
            stored, page = _told(first, computed=TOKENS), first.scrape()
        with serving(model, tmp_path, connector) as second:
            warm = second.complete(prefix, tokens=8)
            loaded = _told(second, computed=TOKENS - BLOCKS * 32)
    assert warm["choices"][0]["token_ids"] == cold["choices"][0]["token_ids"]
    for name, (labels, meaning) in ALL_METRICS.items():
        assert f"# HELP {name} {meaning}\n" in page
        assert labels or name in stored, name
    assert stored["askonce_kv_blocks_total|store|done"] == BLOCKS
    assert stored["askonce_kv_bytes_total|store"] == BLOCKS * BLOCK_BYTES
    assert stored["askonce_kv_loaded_blocks_total"] == 0
    assert loaded["askonce_kv_blocks_total|load|done"] == BLOCKS
    assert loaded["askonce_kv_bytes_total|load"] == BLOCKS * BLOCK_BYTES
    assert loaded["askonce_kv_loaded_blocks_total"] == BLOCKS
    assert loaded["askonce_kv_used_bytes_total"] == BLOCKS * BLOCK_BYTES
    assert loaded["askonce_kv_prompt_tokens_total|store"] == BLOCKS * 32
    assert loaded["askonce_kv_ended_loads_total"] == 1
    assert loaded["askonce_kv_lost_blocks_total"] == loaded["askonce_kv_pinned_views"] == 0
    assert 0 < loaded["askonce_kv_epoch_age_seconds"] < 10
    assert not any(name.startswith("askonce_kv_flaws_total") for name in stored | loaded)
    assert set(METRICS) <= set(ALL_METRICS)
