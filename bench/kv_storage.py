"""What stored KV does to a model's output, as it is and in int8, on real vLLM engines.

    python -m bench.kv_storage

SmolLM2-135M writes prompts of 512 tokens itself. An engine computes each and answers greedily, then
answers again with the prefix loaded from the store, and at last computes all of them at once and
audits what is stored. Nothing here is timed.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kv.vllm.replicas import replica, transfer
from tests.kv.vllm.smollm import VOCABULARY, made
from tests.servers.redis import redis

if TYPE_CHECKING:
    from tests.kv.vllm.replicas import Replica

PROMPTS, HEAD, TOKENS, ANSWER = 8, 16, 512, 48
PATIENCE = 300.0
HOW: dict[str, Any] = {
    "lookup_deadline": 5.0,
    "load_deadline": 20.0,
    "store_deadline": 60.0,
    "audit": 1e-12,
    "audit_tolerance": 2.0,
}
AUDITED = "askonce_kv_audited_blocks_total|"


def main() -> int:
    """Print the table."""
    model = made()
    if model is None:
        sys.exit("run `python tests/kv/vllm/smollm.py` first")
    prompts = _written(model)
    print(f"{PROMPTS} prompts of {TOKENS} tokens, {ANSWER} greedy tokens behind each")
    print("KV       storage  answers equal  tokens before the first other one    blocks' error")
    for dtype in ("float32", "bfloat16"):
        for storage in ("raw", "int8"):
            print(f"{dtype:8} {storage:7}  {_row(model, dtype, storage, prompts)}", flush=True)
    return 0


def _row(model: Path, dtype: str, storage: str, prompts: list[list[int]]) -> str:
    with tempfile.TemporaryDirectory() as name, redis("redis7", Path(name)) as store:
        connector = transfer(store.unix_url, storage=storage, **HOW)
        with replica(model, Path(name), connector, dtype=dtype) as engine:
            computed = _answers(engine, prompts)
            _forget(engine)
            loaded = _answers(engine, prompts, cached=TOKENS - 32)
            _forget(engine)
            engine.tell("audit")
            engine.tell("generate", prompts=prompts, patience=PATIENCE)
            found = engine.tell("settle", seconds=30)["worker"]
    alike = [_alike(one, two) for one, two in zip(computed, loaded, strict=True)]
    blocks = found[f"{AUDITED}agrees"]
    assert blocks == PROMPTS * (TOKENS // 32 - 1), found
    mean, worst = found["askonce_kv_audit_error_total"], found["askonce_kv_audit_error_max"]
    return (
        f"{sum(each == ANSWER for each in alike):8} of {PROMPTS}"
        f"  {sum(alike) / PROMPTS:16.1f} of {ANSWER}"
        f"{'':14}{mean / blocks:.1e} on average, {worst:.1e} at most"
    )


def _answers(engine: Replica, prompts: list[list[int]], *, cached: int = 0) -> list[list[int]]:
    said: list[list[int]] = []
    for prompt in prompts:
        told = engine.tell("generate", prompts=[prompt], tokens=ANSWER, patience=PATIENCE)
        assert told["cached"] == [cached], told["cached"]
        said += told["tokens"]
    return said


def _forget(engine: Replica) -> None:
    engine.tell("settle", seconds=30)
    assert engine.tell("reset")["done"]


def _written(model: Path) -> list[list[int]]:
    chance = random.Random(7)
    heads = [[chance.randrange(3, VOCABULARY) for _ in range(HEAD)] for _ in range(PROMPTS)]
    more = {"tokens": TOKENS - HEAD, "temperature": 0.8}
    with tempfile.TemporaryDirectory() as name, replica(model, Path(name), None) as writer:
        told = writer.tell("generate", prompts=heads, patience=PATIENCE, **more)
    return [head + text for head, text in zip(heads, told["tokens"], strict=True)]


def _alike(one: list[int], two: list[int]) -> int:
    pairs = enumerate(zip(one, two, strict=True))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), len(one))


if __name__ == "__main__":
    sys.exit(main())
