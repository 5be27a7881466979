"""On real engines and a real line, the gate loads what pays and computes what does not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.faults.proxy import line
from tests.kv.vllm.replicas import ON_ENGINES, Replica, replica, transfer
from tests.servers.redis import redis

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Prompts = Callable[[int, int], list[int]]

pytestmark = ON_ENGINES
SHORT, LONG = 65, 3000
MOST = 40
"""Loads after which the gate must have learned what a late store costs."""


class Told(NamedTuple):
    """What became of a request."""

    cached: int
    seconds: float
    tokens: list[list[int]]
    rise: dict[str, float]
    """Of the scheduler's counters."""


def _ask(engine: Replica, prompt: list[int]) -> Told:
    before = engine.tell("figures")["scheduler"]
    said = engine.tell("generate", prompts=[prompt])
    after: dict[str, Any] = engine.tell("settle")["scheduler"]
    rise = {name: value - before.get(name, 0.0) for name, value in after.items()}
    return Told(said["cached"][0], said["seconds"], said["tokens"], rise)


def test_a_late_store_is_worth_a_long_prefix_and_not_a_short_one(
    model: Path, tmp_path: Path, prompts: Prompts
) -> None:
    """Two engines, and a store whose answers take longer than the one prefill and less than the
    other: the second engine loads the long prefix, and after some losses computes the short one.
    """
    shorts = [prompts(SHORT, seed) for seed in range(MOST)]
    longs = [prompts(LONG, 100 + seed) for seed in range(3)]
    with redis("redis7", tmp_path) as store, line(store.port) as wire:
        extra: dict[str, Any] = {"lookup_deadline": 5.0, "load_deadline": 20.0, "gate": "on"}
        connector = transfer(wire.url, **extra)
        with replica(model, tmp_path, connector) as first:
            cold = {len(each): _ask(first, each) for each in (shorts[0], longs[0])}
            for prompt in (*shorts[1:], *longs[1:]):
                cold[len(prompt)] = _ask(first, prompt)
        wire.ail(delay=math.sqrt(cold[SHORT].seconds * cold[LONG].seconds) / 2)
        with replica(model, tmp_path, connector) as second:
            for seed in range(3):
                _ask(second, prompts(SHORT, 1000 + seed))
                _ask(second, prompts(LONG, 1000 + seed))
            taken = _ask(second, longs[0])
            learning = []
            for prompt in shorts:
                learning.append(_ask(second, prompt))
                if not learning[-1].cached:
                    break
            declined, again = learning[-1], _ask(second, longs[-1])
    for told in (taken, again):
        assert told.cached == LONG // 32 * 32
        assert told.rise["askonce_kv_ended_loads_total"] == 1
        assert told.rise["askonce_kv_prompt_tokens_total|store"] == told.cached
        assert told.rise["askonce_kv_refused_loads_total"] == 0
        assert told.rise["askonce_kv_saved_seconds_total"] > 0
    assert again.tokens == cold[LONG].tokens
    assert declined.cached == declined.rise["askonce_kv_ended_loads_total"] == 0
    assert declined.rise["askonce_kv_refused_loads_total"] == 1
    assert declined.rise["askonce_kv_prompt_tokens_total|computed"] == SHORT
    assert sum(each.rise["askonce_kv_lost_loads_total"] for each in learning[:-1]) > 0
    print(
        f"\n{SHORT} tokens computed in {1e3 * cold[SHORT].seconds:.0f} ms, {LONG} in"
        f" {1e3 * cold[LONG].seconds:.0f}; declined after {len(learning) - 1} loads"
    )
