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

_WRITTEN = 7


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


def check(connector: str, extra: dict[str, Any], folder: Path) -> Iterator[Finding]:
    """Try every dimension on `module:Class` with its extra configuration; folder: for models."""
    model = make_model(folder / "model")
    base = base_config(model)
    plain = World(model=model, connector=connector, extra=extra)
    yield _tried("control", base, plain, plain, change=None)
    for name, (writer, reader, change) in _dimensions(plain, folder).items():
        yield _tried(name, base, writer, reader, change=change)


def _dimensions(
    plain: World, folder: Path
) -> dict[str, tuple[World, World, Callable[[], object] | None]]:
    """By name: the engine that stores, the one that asks, and what is done in between."""

    def asked(**told: object) -> World:
        return replace(plain, request=told)

    adapter = folder / "adapter"
    _adapter(adapter, b"first")
    worlds: dict[str, tuple[World, World, Callable[[], object] | None]] = {
        "cache salt": (asked(cache_salt="one"), asked(cache_salt="two"), None),
        "cache salt, and none": (asked(cache_salt="one"), plain, None),
        "LoRA name": (
            asked(lora_request=_lora("one", adapter)),
            asked(lora_request=_lora("two", adapter)),
            None,
        ),
        "LoRA, and none": (asked(lora_request=_lora("one", adapter)), plain, None),
        "LoRA content": (
            asked(lora_request=_lora("one", adapter)),
            asked(lora_request=_lora("one", adapter)),
            lambda: _adapter(adapter, b"second"),
        ),
        "prompt embeddings": (asked(**_embedded(1)), asked(**_embedded(2)), None),
        "multimodal item": (asked(**_seen("cat")), asked(**_seen("dog")), None),
        "tensor parallel size": (plain, replace(plain, tensor_parallel=2), None),
        "KV data type": (plain, replace(plain, dtype="bfloat16"), None),
        "KV layout": (replace(plain, layout="LBHNC"), replace(plain, layout="LBNHC"), None),
        "block size": (plain, replace(plain, block_tokens=64), None),
        "model revision": (plain, plain, lambda: make_model(plain.model, seed=1)),
    }
    return worlds


def _tried(
    name: str,
    base: Any,  # noqa: ANN401
    writer: World,
    reader: World,
    *,
    change: Callable[[], object] | None,
) -> Finding:
    control = name == "control"
    try:
        given = _given(base, writer, reader, name, change)
    except Exception as error:  # noqa: BLE001 - anybody's connector, which may raise anything
        where = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        return Finding(name, "error", told)
    told = f"{len(given)} blocks came"
    if control:
        whole = bool(given) and set(given) == {_WRITTEN}
        return Finding(name, "shared" if whole else "not shared", told)
    if given and _WRITTEN not in given:
        return Finding(name, "error", f"{len(given)} blocks were promised and did not come")
    return Finding(name, "LEAK" if given else "isolated", told)


def _given(
    base: Any,  # noqa: ANN401
    writer: World,
    reader: World,
    name: str,
    change: Callable[[], object] | None,
) -> list[int]:
    first = StandIn(writer, base)
    try:
        first.wait_for_stores()
        first.write(f"before {name}", _WRITTEN)
        first.wait_for_stores()
        first.write(name, _WRITTEN)
        first.wait_for_stores()
    finally:
        first.close()
    if change is not None:
        change()
    second = StandIn(reader, base)
    try:
        second.wait_for_stores()
        second.read(f"before {name}")
        second.wait_for_stores()
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
