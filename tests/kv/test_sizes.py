"""KV bytes a token, by config.json."""

from __future__ import annotations

from typing import Any

import pytest

from askonce.errors import ConfigError
from askonce.kv.sizes import shape_of

LLAMA: dict[str, Any] = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
DEEPSEEK: dict[str, Any] = {
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "moe_intermediate_size": 2048,
    "vocab_size": 129280,
}


def test_grouped_heads() -> None:
    """Llama 3.1 8B keeps 128 KiB a token in 16 bits and half of it in 8."""
    shape = shape_of(LLAMA)
    assert shape.bytes_per_token("bfloat16") == 131_072
    assert shape.bytes_per_token("fp8") == 65_536
    assert shape.formula("fp8") == "32 layers x 2 x 8 KV heads x 128 x 1 bytes"
    assert shape.parameters == pytest.approx(7.5e9, rel=0.05)


def test_latent_attention() -> None:
    """DeepSeek V3 keeps one latent a token and layer."""
    shape = shape_of(DEEPSEEK)
    assert shape.bytes_per_token("bfloat16") == 70_272
    assert "MLA" in shape.formula("bfloat16")
    assert 2e10 < shape.parameters < 6e10


def test_layers_with_a_window_are_left_out() -> None:
    """Of a hybrid model only the layers that keep the whole prefix count."""
    kinds = ["sliding_attention", "full_attention"] * 16
    shape = shape_of({"text_config": {**LLAMA, "layer_types": kinds}})
    assert (shape.layers, shape.other_layers) == (16, 16)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"hidden_size": "big"}, "hidden_size"),
        ({"num_key_value_heads": -1}, "num_key_value_heads"),
        ({"text_config": 3}, "text_config"),
    ],
)
def test_a_config_without_a_size_says_which(change: dict[str, Any], named: str) -> None:
    """The error names the field."""
    with pytest.raises(ConfigError, match=named):
        shape_of({**LLAMA, **change})


def test_an_unknown_type_is_refused() -> None:
    """The error lists the known ones."""
    with pytest.raises(ConfigError, match="bfloat16"):
        shape_of(LLAMA).bytes_per_token("nf4")
