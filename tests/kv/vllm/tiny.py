"""A Llama of random weights in a folder: small, and a real model to vLLM all the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD, VOCABULARY, INNER = 4, 128, 4, 2, 32, 2048, 256
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
}


def make_model(folder: Path, *, seed: int = 1) -> Path:
    """Weights from a seed; the same seed gives the same files."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    chance = torch.Generator().manual_seed(seed)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=chance) * 0.1

    tensors = {
        "model.embed_tokens.weight": some(VOCABULARY, HIDDEN),
        "model.norm.weight": torch.ones(HIDDEN),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        tensors |= {
            f"{at}self_attn.q_proj.weight": some(HEADS * HEAD, HIDDEN),
            f"{at}self_attn.k_proj.weight": some(KV_HEADS * HEAD, HIDDEN),
            f"{at}self_attn.v_proj.weight": some(KV_HEADS * HEAD, HIDDEN),
            f"{at}self_attn.o_proj.weight": some(HIDDEN, HEADS * HEAD),
            f"{at}mlp.gate_proj.weight": some(INNER, HIDDEN),
            f"{at}mlp.up_proj.weight": some(INNER, HIDDEN),
            f"{at}mlp.down_proj.weight": some(HIDDEN, INNER),
            f"{at}input_layernorm.weight": torch.ones(HIDDEN),
            f"{at}post_attention_layernorm.weight": torch.ones(HIDDEN),
        }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def make_adapter(folder: Path, *, seed: int, rank: int = 8) -> Path:
    """A LoRA adapter of random weights for the query and value projections."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    chance = torch.Generator().manual_seed(seed)
    sizes = {"q_proj": HEADS * HEAD, "v_proj": KV_HEADS * HEAD}
    tensors = {}
    for layer in range(LAYERS):
        for name, size in sizes.items():
            at = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{at}.lora_A.weight"] = torch.randn(rank, HIDDEN, generator=chance)
            tensors[f"{at}.lora_B.weight"] = torch.randn(size, rank, generator=chance)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    told = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": rank,
        "target_modules": sorted(sizes),
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(told))
    return folder
