"""Does a connector keep apart what must not be shared? Any connector, one dimension at a time.

A first engine stores a prefix. A second one, which differs in one thing that KV depends on, asks
for the same tokens: whatever it is given is a leak. The control is that the connector shares.
"""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from askonce.kv.vllm.standin import StandIn, World, base_config, make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Verdict = Literal["shared", "isolated", "LEAK", "not shared", "error"]
"""`shared` and `not shared` are the control's; `error`: the dimension could not be tried."""

_CONTROL = "control"
_WRITTEN = 7
_MOMENTS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds that the control gives a connector to store in the background, till it has shared."""
_MARGIN = 4


class Finding(NamedTuple):
    """What one dimension showed."""

    dimension: str
    verdict: Verdict
    told: str
    """Blocks that came, or the reason of an error."""

    @property
    def fine(self) -> bool:
        """Whether the connector may be trusted here."""
        return self.verdict in {"shared", "isolated"}


class Trial(NamedTuple):
    """One dimension."""

    dimension: str
    writer: World
    """The engine that stores."""
    reader: World
    """The one that asks for the same tokens."""
    change: Callable[[], object] | None = None
    """What is done in between."""


def check(connector: str, extra: dict[str, Any], folder: Path) -> Iterator[Finding]:
    """Try every dimension on `module:Class` with its extra configuration; folder: for models.

    Stores are waited for four times as long as the control shows to be enough.
    """
    model = make_model(folder / "model")
    base = base_config(model)
    plain = World(model=model, connector=connector, extra=extra)
    for moment in _MOMENTS:
        control = _tried(Trial(_CONTROL, plain, plain), base, moment)
        if control.verdict == "shared":
            break
    yield control
    for trial in _dimensions(plain, folder):
        yield _tried(trial, base, _MARGIN * moment)


def _dimensions(plain: World, folder: Path) -> Iterator[Trial]:
    def asked(**told: object) -> World:
        return replace(plain, request=told)

    adapter = folder / "adapter"
    _adapter(adapter, b"first")
    one, lora = asked(cache_salt="one"), asked(lora_request=_lora("one", adapter))
    yield Trial("cache salt", one, asked(cache_salt="two"))
    yield Trial("cache salt, and none", one, plain)
    yield Trial("LoRA name", lora, asked(lora_request=_lora("two", adapter)))
    yield Trial("LoRA, and none", lora, plain)
    yield Trial("LoRA content", lora, lora, lambda: _adapter(adapter, b"second"))
    yield Trial("prompt embeddings", asked(**_embedded(1)), asked(**_embedded(2)))
    yield Trial("multimodal item", asked(**_seen("cat")), asked(**_seen("dog")))
    yield Trial("tensor parallel size", plain, replace(plain, tensor_parallel=2))
    yield Trial("KV data type", plain, replace(plain, dtype="bfloat16"))
    yield Trial("KV layout", replace(plain, layout="LBHNC"), replace(plain, layout="LBNHC"))
    yield Trial("block size", plain, replace(plain, block_tokens=64))
    yield Trial("model revision", plain, plain, lambda: make_model(plain.model, seed=1))


def _tried(trial: Trial, base: Any, moment: float) -> Finding:  # noqa: ANN401 - vLLM's VllmConfig
    name = trial.dimension
    try:
        given = _given(trial, base, moment)
    except Exception as error:  # noqa: BLE001 - anybody's connector, which may raise anything
        where = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        return Finding(name, "error", told)
    told = f"{len(given)} blocks came"
    if name == _CONTROL:
        whole = bool(given) and set(given) == {_WRITTEN}
        return Finding(name, "shared" if whole else "not shared", told)
    if given and _WRITTEN not in given:
        return Finding(name, "error", f"{len(given)} blocks were promised and did not come")
    return Finding(name, "LEAK" if given else "isolated", told)


def _given(trial: Trial, base: Any, moment: float) -> list[int]:  # noqa: ANN401
    """The blocks that the reader was given; no two calls use the same tokens."""
    name = f"{trial.dimension}, {moment} s"
    first = StandIn(trial.writer, base)
    try:
        first.rest(moment)
        first.write(f"before {name}", _WRITTEN)
        first.rest(moment)
        first.write(name, _WRITTEN)
        first.rest(moment)
    finally:
        first.close()
    if trial.change is not None:
        trial.change()
    second = StandIn(trial.reader, base)
    try:
        second.rest(moment)
        second.read(f"before {name}")
        second.rest(moment)
        return second.read(name)
    finally:
        second.close()


def _adapter(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(content)


def _lora(name: str, folder: Path) -> Any:  # noqa: ANN401
    from vllm.lora.request import LoRARequest

    return LoRARequest(name, 1, str(folder))


def _embedded(value: int) -> dict[str, object]:
    import torch

    from askonce.kv.vllm.standin import HEAD, KV_HEADS, TOKENS

    return {
        "prompt_token_ids": None,
        "prompt_embeds": torch.full((TOKENS, KV_HEADS * HEAD), float(value)),
    }


def _seen(what: str) -> dict[str, object]:
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

    feature = MultiModalFeatureSpec(
        data=None,
        modality="image",
        identifier=what,
        mm_position=PlaceholderRange(offset=4, length=16),
        mm_hash=what,
    )
    return {"mm_features": [feature]}
