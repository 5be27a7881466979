"""What stored KV does to a model's output, as it is and in int8, on real vLLM engines.

    python -m bench.kv_storage

SmolLM2-135M writes prompts of 512 tokens itself. An engine computes each and answers greedily, then
answers again with the prefix loaded from the store; a second engine computes all of them at once
and audits what is stored. Nothing here is timed.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.kv.vllm.replicas import Replica, replica, transfer
from tests.kv.vllm.smollm import VOCABULARY, made
from tests.servers.redis import redis

PROMPTS, HEAD, TOKENS, ANSWER = 16, 16, 512, 64
SLACK: dict[str, Any] = {"lookup_deadline": 2.0, "load_deadline": 10.0, "store_deadline": 30.0}
AUDITS = "askonce_kv_audited_blocks_total|"


def main() -> int:
    """Print the table."""
    model = made()
    if model is None:
        sys.exit("run `python tests/kv/vllm/smollm.py` first")
    print(f"{PROMPTS} prompts of {TOKENS} tokens, {ANSWER} greedy tokens behind each")
    print("KV       storage  bytes   answers equal  equal tokens  blocks  mean error  largest")
    for dtype in ("float32", "bfloat16"):
        prompts = _written(model, dtype)
        for storage in ("raw", "int8"):
            _one(model, dtype, storage, prompts)
    return 0


def _one(model: Path, dtype: str, storage: str, prompts: list[list[int]]) -> None:
    with tempfile.TemporaryDirectory() as name, redis("redis7", Path(name)) as store:
        how = {**SLACK, "storage": storage, "audit_tolerance": 2.0}
        connector = transfer(store.unix_url, **how)
        with replica(model, Path(name), connector, dtype=dtype) as engine:
            computed, loaded = _answers(engine, prompts), []
            engine.tell("settle", seconds=20)
            engine.tell("reset")
            size = engine.tell("figures")["worker"]["askonce_kv_bytes_total|store"]
            loaded = _answers(engine, prompts, cached=TOKENS - 32)
        with replica(
            model, Path(name), transfer(store.unix_url, audit=1.0, **how), dtype=dtype
        ) as auditor:
            auditor.tell("generate", prompts=prompts, tokens=1, patience=300)
            found = auditor.tell("settle", seconds=20)["worker"]
    equal = [_common(one, two) for one, two in zip(computed, loaded, strict=True)]
    blocks = found[AUDITS + "agrees"] + found[AUDITS + "disagrees"]
    mean = found["askonce_kv_audit_error_total"] / blocks
    print(
        f"{dtype:8} {storage:7} {size:.0f} {sum(each == ANSWER for each in equal):6}/{len(equal)}"
        f"  {sum(equal) / len(equal) / ANSWER:10.1%} {blocks:8.0f}  {mean:.2e}"
        f"  {found['askonce_kv_audit_error_max']:.2e}  undone {found[AUDITS + 'undone']:.0f}",
        flush=True,
    )


def _answers(engine: Replica, prompts: list[list[int]], *, cached: int = 0) -> list[list[int]]:
    said = []
    for prompt in prompts:
        told = engine.tell("generate", prompts=[prompt], tokens=ANSWER, patience=120)
        assert told["cached"] == [cached], told["cached"]
        said += told["tokens"]
    return said


def _written(model: Path, dtype: str) -> list[list[int]]:
    chance = random.Random(7)
    heads = [[chance.randrange(3, VOCABULARY) for _ in range(HEAD)] for _ in range(PROMPTS)]
    with (
        tempfile.TemporaryDirectory() as name,
        replica(model, Path(name), None, dtype=dtype) as one,
    ):
        told = one.tell(
            "generate", prompts=heads, tokens=TOKENS - HEAD, temperature=0.8, patience=300
        )
    return [head + more for head, more in zip(heads, told["tokens"], strict=True)]


def _common(one: list[int], two: list[int]) -> int:
    pairs = enumerate(zip(one, two, strict=True))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), len(one))


if __name__ == "__main__":
    sys.exit(main())
