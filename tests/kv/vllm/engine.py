"""A vLLM engine in a process of its own, told what to do line by line.

    python tests/kv/vllm/engine.py '{"model": …, "transfer": {…} or null}'

Each line on standard input is a JSON object with `do` and its arguments; each is answered by one
line on the descriptor that the variable ANSWERS names, since vLLM prints on all the others.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any


class Engine:
    """The engine, and what it can be told."""

    def __init__(self, told: dict[str, Any]) -> None:
        from vllm import LLM

        transfer = told.pop("transfer", None)
        extra: dict[str, Any] = {}
        if transfer is not None:
            from vllm.config import KVTransferConfig

            extra["kv_transfer_config"] = KVTransferConfig(**transfer)
        self._llm = LLM(
            enforce_eager=True,
            block_size=32,
            skip_tokenizer_init=True,
            disable_log_stats=False,
            **{"dtype": "float32", "max_num_seqs": 16, "max_model_len": 4096, **told},
            **extra,
        )

    def generate(
        self,
        prompts: list[list[int]],
        *,
        tokens: int = 1,
        salt: str | None = None,
        adapter: list[Any] | None = None,
        temperature: float = 0.0,
    ) -> dict[str, Any]:
        """Greedy answers, or drawn by a fixed seed; `seconds` for all of them together."""
        from vllm import SamplingParams
        from vllm.lora.request import LoRARequest

        extra = {"cache_salt": salt} if salt else {}
        asked = [{"prompt_token_ids": prompt, **extra} for prompt in prompts]
        how = SamplingParams(
            temperature=temperature, seed=1, max_tokens=tokens, detokenize=False, ignore_eos=True
        )
        lora = LoRARequest(*adapter) if adapter else None
        began = time.perf_counter()
        answers = self._llm.generate(asked, how, use_tqdm=False, lora_request=lora)
        return {
            "seconds": time.perf_counter() - began,
            "tokens": [list(each.outputs[0].token_ids) for each in answers],
            "cached": [each.num_cached_tokens for each in answers],
            "finish": [each.outputs[0].finish_reason for each in answers],
        }

    def audit(self) -> dict[str, Any]:
        """Hold every hit from now on against the store; the settings must have some share."""
        from askonce.kv.audit import Sample

        self._connectors()[0]._economy._audit = Sample(1.0, lambda: 0.0)
        return {"done": True}

    def storm(self, prompts: list[list[int]], *, steps: int) -> dict[str, Any]:
        """Ask all, let the engine step so often, abort all, and run until nothing is left."""
        from vllm import SamplingParams

        engine = self._llm.llm_engine
        how = SamplingParams(temperature=0.0, max_tokens=8, detokenize=False, ignore_eos=True)
        names = [f"storm-{index}-{time.monotonic_ns()}" for index in range(len(prompts))]
        for name, prompt in zip(names, prompts, strict=True):
            engine.add_request(name, {"prompt_token_ids": prompt}, how)
        for _ in range(steps):
            engine.step()
        engine.abort_request(names)
        end = time.monotonic() + 20
        while self._core().scheduler.requests and time.monotonic() < end:
            engine.step()
        self._settle()
        return self.figures()

    def reset(self, *, connector: bool = False) -> dict[str, Any]:
        """Empty the engine's own prefix cache, and the connector's."""
        return {"done": self._llm.reset_prefix_cache(reset_connector=connector)}

    def settle(self, *, seconds: float = 3.0) -> dict[str, Any]:
        """Wait until everything is stored; one process only."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._settle()
            if not self.figures().get("held"):
                break
            time.sleep(0.01)
        return self.figures()

    def figures(self) -> dict[str, Any]:
        """Of the connector; one process only."""
        gc.collect()
        scheduler, worker = self._connectors()
        told: dict[str, Any] = {}
        for side, connector in (("scheduler", scheduler), ("worker", worker)):
            samples = connector._samples()
            told[side] = {"|".join((name, *labels)): value for name, labels, value in samples}
        told["following"] = scheduler._planner.following
        told["held"] = worker._carrier.held
        told["free"] = self._core().scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        told["requests"] = len(self._core().scheduler.requests)
        return told

    def metrics(self) -> dict[str, float]:
        """vLLM's own counters."""
        found = {}
        for metric in self._llm.get_metrics():
            if hasattr(metric, "value"):
                labels = "|".join(
                    value
                    for name, value in metric.labels.items()
                    if name not in {"engine", "model_name"}
                )
                found[f"{metric.name}|{labels}".rstrip("|")] = metric.value
        return found

    def _settle(self) -> None:
        """Let the worker see what has ended."""
        for ended in self._connectors()[1]._pool.finished():
            self._connectors()[1]._carrier._take(ended)

    def _connectors(self) -> tuple[Any, Any]:
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        return self._core().scheduler.connector, get_kv_transfer_group()

    def _core(self) -> Any:
        return self._llm.llm_engine.engine_core.engine_core


def main() -> None:
    """Serve until the input ends."""
    with os.fdopen(int(os.environ["ANSWERS"]), "w", buffering=1) as answers:
        began = time.perf_counter()
        engine = Engine(json.loads(sys.argv[1]))
        print(json.dumps({"ready": time.perf_counter() - began}), file=answers)
        for line in sys.stdin:
            told = json.loads(line)
            print(json.dumps(getattr(engine, told.pop("do"))(**told)), file=answers)


if __name__ == "__main__":
    main()
