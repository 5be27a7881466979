"""A prefix on real vLLM engines: computed, held by the engine, and loaded from the store.

    python -m bench.kv_vllm

Two engines with SmolLM2-135M in 32-bit floats share a Redis over its socket file. One computes
prefixes of 500 tokens; the other asks for each: loaded, then held by itself, then another one cold.
The three are interleaved; only their ratios and differences mean anything on a shared machine.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from pathlib import Path

from tests.kv.vllm.replicas import replica, transfer
from tests.kv.vllm.smollm import VOCABULARY, made
from tests.servers.redis import redis

TOKENS = 500
ROUNDS = 7
MORE_THAN_LOCAL = 0.060
"""Seconds that a remote hit may cost more than a local one."""


def main() -> int:
    """Print the table; 1 if a remote hit costs too much."""
    model = made()
    if model is None:
        sys.exit("run `python tests/kv/vllm/smollm.py` first")
    prompts = [_prompt(seed) for seed in range(ROUNDS)]
    seconds: dict[str, list[float]] = {"cold": [], "remote": [], "local": []}
    with tempfile.TemporaryDirectory() as name, redis("redis7", Path(name)) as store:
        folder, connector = (
            Path(name),
            transfer(store.unix_url, gate="on", lookup_deadline=1.0, load_deadline=5.0),
        )
        with replica(model, folder, connector, max_num_seqs=4) as first:
            for prompt in [_prompt(998), *prompts]:
                first.tell("generate", prompts=[prompt], patience=120)
                first.tell("settle")
        with replica(model, folder, connector, max_num_seqs=4) as second:
            second.tell("generate", prompts=[_prompt(999)], patience=120)
            for index, prompt in enumerate(prompts):
                cold = second.tell("generate", prompts=[_prompt(1000 + index)], patience=120)
                remote = second.tell("generate", prompts=[prompt], patience=120)
                local = second.tell("generate", prompts=[prompt], patience=120)
                said = cold["cached"], remote["cached"], local["cached"]
                assert said == ([0], [480], [480]), said
                for what, took in (("cold", cold), ("remote", remote), ("local", local)):
                    seconds[what].append(took["seconds"])
            figures = second.tell("figures")
    more = statistics.median(
        remote - local for remote, local in zip(seconds["remote"], seconds["local"], strict=True)
    )
    print(f"time to first token, {TOKENS} tokens, median of {ROUNDS} interleaved, ms")
    for what, took in seconds.items():
        print(f"  {what:8} {1e3 * statistics.median(took):8.1f}   {_all(took)}")
    loads = figures["worker"]["askonce_kv_calls_total|load"]
    loading = figures["worker"]["askonce_kv_seconds_total|load"]
    print(f"  a remote hit costs {1e3 * more:.1f} ms more than a local one (bar: 60)")
    print(f"  a load job took {1e3 * loading / loads:.1f} ms from submission to verified bytes")
    return int(more > MORE_THAN_LOCAL)


def _prompt(seed: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(3, VOCABULARY) for _ in range(TOKENS)]


def _all(seconds: list[float]) -> str:
    return " ".join(f"{1e3 * each:.0f}" for each in seconds)


if __name__ == "__main__":
    sys.exit(main())
