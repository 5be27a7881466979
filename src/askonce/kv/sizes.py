"""KV bytes a token from a model's config.json, and the arithmetic of its prefill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

WIDTHS: Final = {"float32": 4, "float16": 2, "bfloat16": 2, "fp8": 1, "int8": 1}
"""Bytes of a number by type."""
_WHOLE: Final = ("full_attention", "attention", "global")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the size of a model's KV cache."""

    layers: int
    """With attention over the whole prefix; others are not counted."""
    kv_heads: int
    head_dim: int
    heads: int
    parameters: float
    """Active for a token, estimated from the shape where it is not given."""
    latent: int = 0
    """Numbers a token and layer of multi-head latent attention (MLA), for keys and values."""
    other_layers: int = 0
    """Layers with a window or a state: their KV does not grow with the prefix."""

    def bytes_per_token(self, dtype: str) -> int:
        """Of KV, over all layers and heads. Raises ConfigError for an unknown type."""
        if dtype not in WIDTHS:
            raise ConfigError(f"unknown KV dtype {dtype}; known: {', '.join(WIDTHS)}")
        numbers = self.latent or 2 * self.kv_heads * self.head_dim
        return self.layers * numbers * WIDTHS[dtype]

    @property
    def attention(self) -> float:
        """Layers x heads x head size: the work of attention per pair of tokens."""
        return float(self.layers * self.heads * self.head_dim)

    def formula(self, dtype: str) -> str:
        """How the bytes come about."""
        numbers = (
            f"{self.latent} (MLA latent)"
            if self.latent
            else f"2 x {self.kv_heads} KV heads x {self.head_dim}"
        )
        return f"{self.layers} layers x {numbers} x {WIDTHS[dtype]} bytes"


def shape_of(config: Mapping[str, Any]) -> Shape:
    """Read a Hugging Face config.json; raises ConfigError naming what is missing or odd."""
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise ConfigError("config.json: text_config is not an object")
    layers, heads = _number(text, "num_hidden_layers"), _number(text, "num_attention_heads")
    hidden = _number(text, "hidden_size")
    kinds = text.get("layer_types") or []
    whole = sum(kind in _WHOLE for kind in kinds) if kinds else layers
    latent = _number(text, "kv_lora_rank", 0)
    if latent:
        latent += _number(text, "qk_rope_head_dim", 64)
    return Shape(
        layers=whole,
        kv_heads=_number(text, "num_key_value_heads", heads),
        head_dim=_number(text, "head_dim", max(1, hidden // heads)),
        heads=heads,
        latent=latent,
        other_layers=layers - whole,
        parameters=_parameters(text, layers, hidden),
    )


def _number(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = config.get(name)
    if value is None:
        value = default
    if not isinstance(value, int) or value < 0 or (default is None and not value):
        raise ConfigError(f"config.json: {name} must be a positive whole number, not {value!r}")
    return value


def _parameters(config: Mapping[str, Any], layers: int, hidden: int) -> float:
    """Active ones, by shape: attention, the MLP or the chosen experts, and the output layer."""
    heads = _number(config, "num_attention_heads")
    head = _number(config, "head_dim", hidden // heads)
    kv_heads = _number(config, "num_key_value_heads", heads)
    attention = hidden * head * (2 * heads + 2 * kv_heads)
    chosen = _number(config, "num_experts_per_tok", 0)
    if chosen:
        shared = _number(config, "n_shared_experts", 0)
        inner = (chosen + shared) * _number(config, "moe_intermediate_size", 2 * hidden)
    else:
        inner = _number(config, "intermediate_size", 4 * hidden)
    return float(
        layers * (attention + 3 * hidden * inner) + hidden * _number(config, "vocab_size", 0)
    )
