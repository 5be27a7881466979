"""A stand-in for an engine: drives a connector through vLLM's contract, without a model.

The KV cache is real memory on the CPU, requests and their block hashes are vLLM's own, and each
block holds the bytes that its writer has put there, so it shows whose a reader gets.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import time
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.forward_context import get_forward_context, set_forward_context
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.kv_cache_utils import (
    KVCacheBlock,
    get_request_block_hasher,
    init_none_hash,
)
from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS, LAYERS, KV_HEADS, HEAD = 64, 2, 2, 32
TOKENS = 4 * 64 + 1
_PATIENCE = 5.0
_NAP = 0.005


@dataclass(frozen=True)
class World:
    """All that an engine is started with and a request carries; a dimension changes one of it."""

    model: Path
    connector: str
    """`module:Class`."""
    extra: dict[str, Any]
    block_tokens: int = 32
    dtype: str = "float32"
    tensor_parallel: int = 1
    layout: str | None = None
    request: dict[str, Any] = field(default_factory=dict)


def make_model(folder: Path, *, seed: int = 0) -> Path:
    """A model's folder that has weights to tell apart; nobody runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    from safetensors.numpy import save_file

    chance = np.random.default_rng(seed)
    save_file({"w": chance.standard_normal(4096).astype("float32")}, folder / "model.safetensors")
    told = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": KV_HEADS * HEAD,
        "intermediate_size": HEAD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": KV_HEADS,
        "num_key_value_heads": KV_HEADS,
        "vocab_size": 2048,
        "max_position_embeddings": 4096,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(told))
    return folder


class StandIn:
    """One engine's two halves of a connector."""

    def __init__(self, world: World, base: Any) -> None:  # noqa: ANN401 - vLLM's VllmConfig
        """base: a configuration that is copied and changed as `world` says."""
        self._world = world
        self._numbers = count()
        self._config = _configured(world, base)
        self._cache = _cache(world)
        module, _, name = world.connector.partition(":")
        made = getattr(importlib.import_module(module), name)
        self._scheduler = made(self._config, KVConnectorRole.SCHEDULER, self._cache)
        self._worker = made(self._config, KVConnectorRole.WORKER, self._cache)
        shape = (BLOCKS, KV_HEADS, world.block_tokens, 2 * HEAD)
        self._layers = {
            f"model.layers.{layer}.self_attn.attn": torch.zeros(
                shape, dtype=getattr(torch, world.dtype)
            )
            for layer in range(LAYERS)
        }
        self._worker.register_kv_caches(self._layers)
        hashing = get_hash_fn_by_name(self._config.cache_config.prefix_caching_hash_algo)
        init_none_hash(hashing)
        self._hasher = get_request_block_hasher(world.block_tokens, hashing)

    def write(self, prompt: str, value: int) -> None:
        """Run a request that computes all of its blocks, each filled with a value."""
        request = self._request(prompt)
        self._begin(request)
        self._match(request)
        blocks = list(range(1, 1 + request.num_tokens // self._world.block_tokens + 1))
        self._scheduler.update_state_after_alloc(request, _allocated(blocks), 0)
        for layer in self._layers.values():
            layer[blocks] = value
        self._step(_scheduled(request, blocks, 0))
        self._end(request, blocks)

    def read(self, prompt: str) -> list[int]:
        """The values of the blocks that a request is given; none where it must compute."""
        request = self._request(prompt)
        self._begin(request)
        tokens, waits = self._match(request)
        blocks = list(range(1, 1 + request.num_tokens // self._world.block_tokens + 1))
        self._scheduler.update_state_after_alloc(request, _allocated(blocks), tokens)
        output = _nothing() if waits else _scheduled(request, blocks, tokens)
        failed = self._step(output, until=request.request_id if waits and tokens else "")
        first = next(iter(self._layers.values()))
        given = [
            int(first[block].flatten()[0])
            for block in blocks[: tokens // self._world.block_tokens]
            if block not in failed
        ]
        self._end(request, blocks)
        return given

    def rest(self, seconds: float) -> None:
        """Step without work, while what is written in the background is written."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._step(_nothing())
            time.sleep(_NAP)

    def close(self) -> None:
        """Shut both halves down."""
        self._scheduler.shutdown()
        self._worker.shutdown()

    def _request(self, prompt: str) -> Any:  # noqa: ANN401
        """A prompt by its name; no two share a block."""
        tokens = [3 + byte for byte in hashlib.shake_256(prompt.encode()).digest(TOKENS)]
        told = {"prompt_token_ids": tokens, **self._world.request}
        if "prompt_embeds" in told:
            told["prompt_embeds"] = told["prompt_embeds"] * torch.tensor(tokens)[:, None]
        return Request(
            request_id=f"{prompt}-{next(self._numbers)}",
            sampling_params=SamplingParams(max_tokens=1),
            pooling_params=None,
            block_hasher=self._hasher,
            **told,
        )

    def _begin(self, request: Any) -> None:  # noqa: ANN401
        if hasattr(self._scheduler, "on_new_request"):
            self._scheduler.on_new_request(request)

    def _match(self, request: Any) -> tuple[int, bool]:  # noqa: ANN401
        """As the engine asks: again while there is no answer, and once more for late starters."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            tokens, waits = self._scheduler.get_num_new_matched_tokens(request, 0)
            if tokens is not None:
                return tokens, waits
            time.sleep(_NAP)
        return 0, False

    def _step(self, output: Any, *, until: str = "") -> set[int]:  # noqa: ANN401
        """One step of the worker, and those after it until a request was received."""
        failed: set[int] = set()
        end = time.monotonic() + _PATIENCE
        while True:
            output.kv_connector_metadata = self._scheduler.build_connector_meta(output)
            told = self._work(output)
            self._scheduler.update_connector_output(told)
            failed |= told.invalid_block_ids or set()
            if not until or until in (told.finished_recving or ()) or time.monotonic() > end:
                return failed
            output = _nothing()
            time.sleep(_NAP)

    def _work(self, output: Any) -> Any:  # noqa: ANN401
        worker = self._worker
        worker.bind_connector_metadata(output.kv_connector_metadata)
        with set_forward_context(None, self._config):
            worker.start_load_kv(get_forward_context())
            for name, layer in self._layers.items():
                worker.wait_for_layer_load(name)
                worker.save_kv_layer(name, layer, None)
            worker.wait_for_save()
        sending, receiving = worker.get_finished(output.finished_req_ids)
        told = KVConnectorOutput(
            finished_sending=sending,
            finished_recving=receiving,
            invalid_block_ids=worker.get_block_ids_with_load_errors(),
        )
        worker.clear_connector_metadata()
        return told

    def _end(self, request: Any, blocks: list[int]) -> None:  # noqa: ANN401
        if hasattr(self._scheduler, "request_finished_all_groups"):
            self._scheduler.request_finished_all_groups(request, (blocks,))
        else:
            self._scheduler.request_finished(request, blocks)
        self._step(_nothing({request.request_id}))


def base_config(model: Path) -> Any:  # noqa: ANN401
    """vLLM's own configuration for a model's folder; takes seconds."""
    from vllm.engine.arg_utils import EngineArgs

    arguments = EngineArgs(
        model=str(model),
        skip_tokenizer_init=True,
        enforce_eager=True,
        block_size=32,
        dtype="float32",
        kv_cache_memory_bytes=1 << 26,
    )
    return arguments.create_engine_config()


def _configured(world: World, base: Any) -> Any:  # noqa: ANN401
    from vllm.config import KVTransferConfig

    config = copy.deepcopy(base)
    module, _, name = world.connector.partition(":")
    config.kv_transfer_config = KVTransferConfig(
        kv_connector=name,
        kv_connector_module_path=module,
        kv_role="kv_both",
        kv_load_failure_policy="recompute",
        kv_connector_extra_config=world.extra,
    )
    config.model_config.model = str(world.model)
    config.model_config.dtype = getattr(torch, world.dtype)
    config.cache_config.block_size = world.block_tokens
    config.parallel_config.tensor_parallel_size = world.tensor_parallel
    config.parallel_config.world_size = world.tensor_parallel
    return config


def _cache(world: World) -> Any:  # noqa: ANN401
    from vllm.v1.kv_cache_interface import (
        FullAttentionSpec,
        KVCacheConfig,
        KVCacheGroupSpec,
    )

    spec = FullAttentionSpec(
        block_size=world.block_tokens,
        num_kv_heads=KV_HEADS,
        head_size=HEAD,
        dtype=getattr(torch, world.dtype),
    )
    names = [f"model.layers.{layer}.self_attn.attn" for layer in range(LAYERS)]
    cache = KVCacheConfig(
        num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(names, spec)]
    )
    return replace(cache, kv_cache_layout=world.layout) if world.layout else cache


def _scheduled(request: Any, blocks: list[int], computed: int) -> Any:  # noqa: ANN401
    output = _nothing()
    output.scheduled_new_reqs = [
        NewRequestData(
            req_id=request.request_id,
            prompt_token_ids=request.prompt_token_ids,
            mm_features=request.mm_features,
            sampling_params=request.sampling_params,
            pooling_params=None,
            block_ids=(blocks,),
            num_computed_tokens=computed,
            lora_request=request.lora_request,
            prompt_embeds=request.prompt_embeds,
        )
    ]
    output.num_scheduled_tokens = {request.request_id: request.num_tokens - computed}
    output.total_num_scheduled_tokens = request.num_tokens - computed
    return output


def _nothing(finished: set[str] | None = None) -> Any:  # noqa: ANN401
    output = SchedulerOutput.make_empty()
    output.scheduled_cached_reqs = CachedRequestData.make_empty()
    output.finished_req_ids = finished or set()
    return output


def _allocated(blocks: list[int]) -> Any:  # noqa: ANN401
    return KVCacheBlocks(([KVCacheBlock(block) for block in blocks],))
