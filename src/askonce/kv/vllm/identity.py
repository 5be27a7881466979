"""Whose blocks an engine may load: its facts, by content."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askonce.errors import ConfigError
from askonce.kv.namespace import Hashing, Identity, Layout, model_digest
from askonce.kv.vllm.adapters import folder_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from askonce.kv.vllm.settings import VllmSettings

SINGLE_KINDS = ("FullAttentionSpec", "MLAAttentionSpec", "TQFullAttentionSpec")
"""Kinds of KV cache of which a block holds all that its tokens need."""
_CRYPTOGRAPHIC = ("sha256", "sha256_cbor")
_NOT_CONTENT = ("_name_or_path", "transformers_version", "name_or_path")


def obstacle(config: Any, cache: Any) -> str | None:  # noqa: ANN401 - vLLM's own, in any version
    """Why the blocks of this engine are neither loaded nor stored; None for no reason."""
    parallel = config.parallel_config
    groups = cache.kv_cache_groups
    kinds = sorted({type(group.kv_cache_spec).__name__ for group in groups})
    reasons = (
        (not config.cache_config.enable_prefix_caching, "prefix caching is off"),
        (len(groups) != 1, f"the model has {len(groups)} KV cache groups"),
        (not set(kinds) <= set(SINGLE_KINDS), f"its KV cache is of kind {', '.join(kinds)}"),
        (parallel.pipeline_parallel_size != 1, "pipeline parallelism is on"),
        (_context(parallel) != 1, "context parallelism is on"),
        (
            getattr(config.cache_config, "calculate_kv_scales", False),
            "KV scales are found at run time",
        ),
        (config.speculative_config is not None, "speculative decoding is on"),
    )
    found = [reason for holds, reason in reasons if holds]
    return found[0] if found else None


def identity_of(config: Any, cache: Any, settings: VllmSettings) -> Identity:  # noqa: ANN401
    """The facts of this engine; equal in all of its processes. Raises ConfigError."""
    model, parallel = config.model_config, config.parallel_config
    spec = cache.kv_cache_groups[0].kv_cache_spec
    return Identity(
        model=weights_digest(
            settings.weights or model.model,
            revision=model.revision,
            cache=config.load_config.download_dir,
        ),
        adapters=adapter_digests(settings),
        layout=Layout(
            kv_dtype=f"{config.cache_config.cache_dtype}/{_name(getattr(spec, 'dtype', ''))}",
            block_tokens=spec.block_size,
            block_bytes=block_bytes(cache),
            layout=layout_of(config, cache),
            tensor_parallel=parallel.tensor_parallel_size,
            pipeline_parallel=parallel.pipeline_parallel_size,
            context_parallel=_context(parallel),
            groups=tuple(type(group.kv_cache_spec).__name__ for group in cache.kv_cache_groups),
        ),
        hashing=hashing_of(config.cache_config.prefix_caching_hash_algo),
        engine=f"{engine_version()} {_resolved(model)}",
        tenant=settings.tenant,
    )


def identity_of_tier(config: Any, row_bytes: int, settings: VllmSettings) -> Identity:  # noqa: ANN401
    """The facts that vLLM's offloading tells, once its block hashes are seeded.

    config: its OffloadingConfig. row_bytes: of a chunk, all workers' shards together.
    """
    cache, parallel = config.cache, config.parallel
    return Identity(
        model=weights_digest(settings.weights or config.model.name),
        adapters=adapter_digests(settings),
        layout=Layout(
            kv_dtype=config.model.dtype,
            block_tokens=cache.tokens_per_hash * cache.blocks_per_chunk,
            block_bytes=row_bytes,
            layout=_layout_of_tier(config),
            tensor_parallel=parallel.tp_size,
            pipeline_parallel=parallel.pp_size,
            context_parallel=parallel.pcp_size * parallel.dcp_size,
            groups=tuple(
                f"{group.group_id}:{group.tokens_per_block}:{','.join(group.layer_names)}"
                for group in config.groups
            ),
        ),
        hashing=seeded_hashing(),
        engine=engine_version(),
        tenant=settings.tenant,
    )


def adapter_digests(settings: VllmSettings) -> tuple[bytes, ...]:
    """Of the folders that the operator named; raises ConfigError."""
    try:
        return tuple(folder_digest(Path(each)) for each in settings.adapters)
    except OSError as reason:
        raise ConfigError(f"an adapter's files cannot be read: {reason}") from None


def weights_digest(model: str, *, revision: str | None = None, cache: str | None = None) -> bytes:
    """Digest of the weights' folder, or of what the hub's cache holds; raises ConfigError."""
    folder = Path(model)
    if not folder.is_dir():
        folder = _cached(model, revision, cache)
    try:
        return model_digest(folder)
    except (OSError, ValueError) as reason:
        raise ConfigError(
            f"the weights cannot be told apart from others, so no KV is shared: {reason}"
        ) from None


def block_bytes(cache: Any) -> int:  # noqa: ANN401
    """Bytes of one block over all layers that a worker has."""
    group = cache.kv_cache_groups[0]
    return int(group.kv_cache_spec.page_size_bytes * len(group.layer_names))


def layout_of(config: Any, cache: Any) -> str:  # noqa: ANN401
    """What shapes bytes within a block: device, kernel and the engine's name of the layout."""
    from vllm.platforms import current_platform

    device = str(current_platform.device_type)
    attention = getattr(config, "attention_config", None)
    parts = [
        device,
        _instructions(config, cache) if device == "cpu" else "",
        _name(getattr(attention, "backend", None) or os.environ.get("VLLM_ATTENTION_BACKEND", "")),
        str(getattr(cache, "kv_cache_layout", None)),
        os.environ.get("VLLM_KV_CACHE_LAYOUT", ""),
    ]
    return "/".join(parts)


def hashing_of(algorithm: str) -> Hashing:
    """How blocks are named, with the seed; raises ConfigError where it is a random one."""
    from vllm.v1.core import kv_cache_utils

    seed = os.environ.get("PYTHONHASHSEED")
    fixed = getattr(kv_cache_utils, "DEFAULT_NONE_HASH_SEED", None)
    if seed is None and algorithm in _CRYPTOGRAPHIC and fixed is not None:
        seed = str(fixed)
    if seed is None:
        raise ConfigError(
            f"blocks named by {algorithm} differ from one start of vLLM to the next:"
            " set PYTHONHASHSEED to the same number for all replicas"
        )
    return Hashing(algorithm=algorithm, seed=seed)


def seeded_hashing() -> Hashing:
    """What the first block's parent is, in the process that names blocks; it tells both."""
    from vllm.v1.core import kv_cache_utils

    root: bytes | None = getattr(kv_cache_utils, "NONE_HASH", None)
    if root is None:
        raise ConfigError("vLLM names no blocks: prefix caching is off")
    return Hashing(algorithm="of its root", seed=root.hex())


def engine_version() -> str:
    """vLLM up to its minor version, within which its bytes agree."""
    import vllm

    return "vllm-" + ".".join(str(vllm.__version__).split(".")[:2])


def _layout_of_tier(config: Any) -> str:  # noqa: ANN401
    from vllm.platforms import current_platform

    told = (
        current_platform.device_type,
        getattr(config, "kv_cache_layout", None),
        getattr(config, "canonical_layout", False),
        getattr(config, "replicated_layout", False),
        os.environ.get("VLLM_ATTENTION_BACKEND", ""),
        os.environ.get("VLLM_KV_CACHE_LAYOUT", ""),
    )
    return "/".join(map(str, told))


def _cached(name: str, revision: str | None, cache: str | None) -> Path:
    """Where the hub keeps it; without a revision only if there is no other one to be meant."""
    try:
        from huggingface_hub import snapshot_download

        found = snapshot_download(name, revision=revision, cache_dir=cache, local_files_only=True)
    except (ImportError, OSError, ValueError):
        raise ConfigError(
            f"{name!r} is no folder and is not in the hub's cache: say where its weights are"
            " with `weights`, or no KV is shared"
        ) from None
    folder = Path(found)
    if revision is None and len(list(folder.parent.iterdir())) > 1:
        raise ConfigError(
            f"the hub's cache holds several revisions of {name!r}: say which folder is loaded"
            " with `weights`, or no KV is shared"
        )
    return folder


def _resolved(model: Any) -> str:  # noqa: ANN401
    """Digest of how weights are read: type, quantisation, configuration after overrides."""
    told: Mapping[str, object] = model.hf_text_config.to_dict()
    fields = {name: value for name, value in told.items() if name not in _NOT_CONTENT}
    text = json.dumps(
        [_name(model.dtype), model.quantization, fields], sort_keys=True, default=repr
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _instructions(config: Any, cache: Any) -> str:  # noqa: ANN401
    """The instruction set that the CPU kernel lays KV out for."""
    spec = cache.kv_cache_groups[0].kv_cache_spec
    machine = platform.machine()
    try:
        from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

        isa = _get_attn_isa(config.model_config.dtype, spec.block_size, spec.head_size)
    except (ImportError, TypeError):
        import torch

        isa = torch.backends.cpu.get_cpu_capability()
    return f"{machine}-{isa}"


def _context(parallel: Any) -> int:  # noqa: ANN401
    decode = int(getattr(parallel, "decode_context_parallel_size", 1))
    return decode * int(getattr(parallel, "prefill_context_parallel_size", 1))


def _name(value: object) -> str:
    return str(getattr(value, "name", None) or value).removeprefix("torch.")
