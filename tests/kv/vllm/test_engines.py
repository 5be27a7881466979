"""Engines that share a store, in processes of their own, give the answers of one that is alone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.kv.vllm import smollm
from tests.kv.vllm.replicas import CORES, ON_ENGINES, await_sharing, replica, stored, transfer
from tests.kv.vllm.tiny import make_adapter, make_model
from tests.servers.process import missing
from tests.servers.redis import redis

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Prompts = Callable[[int, int], list[int]]

pytestmark = ON_ENGINES
TOKENS = 24


@pytest.mark.parametrize("which", ["random weights", "SmolLM2-135M"])
def test_one_replica_loads_what_another_computed(
    model: Path, tmp_path: Path, prompts: Prompts, which: str
) -> None:
    """A prefix of 2,000 tokens is computed once, and both replicas answer the same."""
    if which == "SmolLM2-135M":
        model = smollm.made() or missing("run `python tests/kv/vllm/smollm.py`")
    prefix, other = prompts(2000, 1), prompts(2000, 2)
    gate = "on" if which == "SmolLM2-135M" else "off"
    with redis("redis7", tmp_path) as store:
        connector = transfer(store.unix_url, gate=gate, lookup_deadline=1.0, load_deadline=5.0)
        with replica(model, tmp_path, connector, processes=True) as first:
            await_sharing(first, store)
            with stored(store, 2 * 1984 // 32):
                first.tell("generate", prompts=[other])
                cold = first.tell("generate", prompts=[prefix], tokens=TOKENS)
        with replica(model, tmp_path, connector, processes=True) as second:
            await_sharing(second, store)
            second.tell("generate", prompts=[prompts(2000, 3)])
            before = second.tell("metrics")
            shared = second.tell("generate", prompts=[prefix], tokens=TOKENS)
            counted = second.tell("metrics")
            timed = {"remote": second.tell("generate", prompts=[other])["seconds"]}
            timed["local"] = second.tell("generate", prompts=[other])["seconds"]
            timed["cold"] = second.tell("generate", prompts=[prompts(2000, 4)])["seconds"]
    assert cold["cached"] == [0]
    assert shared["cached"] == [1984]
    assert shared["tokens"] == cold["tokens"]
    rise = {name: value - before.get(name, 0) for name, value in counted.items()}
    assert rise["vllm:external_prefix_cache_hits"] == 1984
    assert rise["vllm:prompt_tokens_by_source|local_compute"] == 16
    print(
        f"\n{which}, TTFT, 2,000 tokens:", {name: round(value, 4) for name, value in timed.items()}
    )
    print(f"remote hit: {timed['remote'] / timed['cold']:.2f} of cold")


def test_new_weights_under_an_old_name_share_nothing(tmp_path: Path, prompts: Prompts) -> None:
    """An engine whose weights were replaced in place computes, and answers as they do."""
    pytest.importorskip("vllm", exc_type=ImportError)
    prefix = prompts(300, 1)
    folder = tmp_path / "weights"
    with redis("redis7", tmp_path) as store:
        connector = transfer(store.unix_url)
        with replica(make_model(folder, seed=1), tmp_path, connector) as old:
            before = old.tell("generate", prompts=[prefix], tokens=TOKENS)
            old.tell("settle")
        with replica(make_model(folder, seed=2), tmp_path, connector) as new:
            after = new.tell("generate", prompts=[prefix], tokens=TOKENS)
    assert before["cached"] == after["cached"] == [0]
    assert before["tokens"] != after["tokens"]


def test_adapters_share_nothing(model: Path, tmp_path: Path, prompts: Prompts) -> None:
    """A prefix under an adapter is shared under that adapter's content only."""
    prefix, head = prompts(300, 1), prompts(64, 2)
    one, two = make_adapter(tmp_path / "one", seed=1), make_adapter(tmp_path / "two", seed=2)
    more: dict[str, Any] = {"enable_lora": True, "max_lora_rank": 8, "max_loras": 1}
    said: dict[str, Any] = {}
    with redis("redis7", tmp_path) as store:
        connector = transfer(store.unix_url, lookup_deadline=1.0, load_deadline=5.0)
        with replica(model, tmp_path, connector, **more) as engine:
            for name, folder in (("one", one), ("two", two)):
                lora = [name, 1 + len(said), str(folder)]
                engine.tell("generate", prompts=[head], adapter=lora)
                cold = engine.tell("generate", prompts=[prefix], tokens=TOKENS, adapter=lora)
                engine.tell("settle")
                engine.tell("reset")
                warm = engine.tell("generate", prompts=[prefix], tokens=TOKENS, adapter=lora)
                assert (cold["cached"], warm["cached"]) == ([0], [288])
                assert cold["tokens"] == warm["tokens"]
                said[name] = cold["tokens"]
                engine.tell("reset")
            plain = engine.tell("generate", prompts=[prefix], tokens=TOKENS)
        shutil.copytree(two, one, dirs_exist_ok=True)
        with replica(model, tmp_path, connector, **more) as changed:
            lora = ["one", 1, str(one)]
            changed.tell("generate", prompts=[head], adapter=lora)
            anew = changed.tell("generate", prompts=[prefix], tokens=TOKENS, adapter=lora)
    assert plain["cached"] == anew["cached"] == [0]
    assert said["one"] != said["two"] != plain["tokens"]
    assert anew["tokens"] == said["two"]


@pytest.mark.skipif(len(CORES) < 2, reason="binds a worker to each of two cores")
def test_two_workers_share_their_shards(model: Path, tmp_path: Path, prompts: Prompts) -> None:
    """With tensor parallelism each worker loads its own half, and one worker's blocks are none."""
    prefix = prompts(500, 1)
    pair: dict[str, Any] = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    said = []
    with redis("redis7", tmp_path) as store:
        connector = transfer(store.unix_url, lookup_deadline=1.0, load_deadline=5.0)
        for more, fresh in (({}, 15), (pair, 30), (pair, 0)):
            with replica(model, tmp_path, connector, processes=True, **more) as engine:
                await_sharing(engine, store, shards=2 if more else 1)
                with stored(store, fresh):
                    said.append(engine.tell("generate", prompts=[prefix], tokens=8, patience=100))
    assert [each["cached"] for each in said] == [[0], [0], [480]]
    assert said[0]["tokens"] == said[1]["tokens"] == said[2]["tokens"]


def test_preemption_changes_nothing(model: Path, tmp_path: Path, prompts: Prompts) -> None:
    """Requests that lose their blocks and begin anew answer as one at a time do."""
    asked = [prompts(100, seed) for seed in range(12)]
    small: dict[str, Any] = {"max_model_len": 512, "num_gpu_blocks_override": 40}
    with redis("redis7", tmp_path) as store:
        connector = transfer(store.unix_url, lookup_deadline=1.0, load_deadline=5.0)
        with replica(model, tmp_path, connector, **small) as engine:
            alone = [engine.tell("generate", prompts=[each], tokens=120) for each in asked]
            engine.tell("settle")
            engine.tell("reset")
            together = engine.tell("generate", prompts=asked, tokens=120, patience=120)
            counted, figures = engine.tell("metrics"), engine.tell("settle")
    assert counted["vllm:num_preemptions"] > 0
    assert together["tokens"] == [each["tokens"][0] for each in alone]
    assert figures["worker"]["askonce_kv_loaded_blocks_total"] > 0
    assert figures["held"] == figures["following"] == figures["requests"] == 0


def test_a_policy_that_fails_requests_is_refused(model: Path, tmp_path: Path) -> None:
    """vLLM's default, to fail what cannot be loaded, is an error at start that says what to set."""
    connector = {**transfer("redis://127.0.0.1:1"), "kv_load_failure_policy": "fail"}
    with pytest.raises(pytest.fail.Exception, match="kv_load_failure_policy"):  # noqa: SIM117
        with replica(model, tmp_path, connector):
            pass
