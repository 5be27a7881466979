"""Namespaces: whatever the bytes depend on makes another one."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from askonce.kv.namespace import (
    Hashing,
    Identity,
    Layout,
    files_digest,
    model_digest,
    namespace_of,
)

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT = Layout(kv_dtype="float16", block_tokens=16, block_bytes=4096, layout="NHD")
HASHING = Hashing(algorithm="sha256_cbor", seed="vllm-none-hash")
IDENTITY = Identity(model=b"m" * 32, layout=LAYOUT, hashing=HASHING, engine="vllm-0.33")


@pytest.mark.parametrize(
    "changed",
    [
        {"model": b"n" * 32},
        {"adapters": (b"a" * 32,)},
        {"engine": "vllm-0.34"},
        {"tenant": "other"},
        {"hashing": replace(HASHING, algorithm="sha256")},
        {"hashing": replace(HASHING, seed="0")},
        {"layout": replace(LAYOUT, kv_dtype="fp8_e4m3")},
        {"layout": replace(LAYOUT, block_tokens=32)},
        {"layout": replace(LAYOUT, block_bytes=8192)},
        {"layout": replace(LAYOUT, layout="HND")},
        {"layout": replace(LAYOUT, tensor_parallel=2)},
        {"layout": replace(LAYOUT, pipeline_parallel=2)},
        {"layout": replace(LAYOUT, context_parallel=2)},
        {"layout": replace(LAYOUT, groups=("full", "sliding-1024"))},
    ],
)
def test_every_field_counts(changed: dict[str, Any]) -> None:
    """Engines that differ in anything share nothing."""
    one, other = namespace_of(IDENTITY), namespace_of(replace(IDENTITY, **changed))
    assert len(one) == len(other) == 32
    assert one != other
    assert one == namespace_of(IDENTITY)


def model_in(folder: Path, *, weights: bytes = b"w" * 300_000) -> Path:
    """A small model's folder."""
    folder.mkdir(exist_ok=True)
    header = json.dumps({"a": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    whole = struct.pack("<Q", len(header)) + header + weights
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "model.safetensors.index.json").write_text("{}")
    (folder / "config.json").write_text('{"hidden_size": 8}')
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_a_model_is_known_by_its_contents(tmp_path: Path) -> None:
    """Wherever it lies and whatever it is called."""
    one, other = model_in(tmp_path / "one"), model_in(tmp_path / "other")
    assert model_digest(one) == model_digest(other)


@pytest.mark.parametrize("at", [0, 150_000, 299_999])
def test_other_weights_are_another_model(tmp_path: Path, at: int) -> None:
    """Of the same size under the same name, at the beginning, the middle and the end."""
    folder = model_in(tmp_path / "m")
    before = model_digest(folder)
    changed = bytearray(b"w" * 300_000)
    changed[at] ^= 1
    model_in(folder, weights=bytes(changed))
    assert model_digest(folder) != before


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "model.safetensors.index.json", "vocab.json"]
)
def test_what_stands_beside_the_weights_counts(tmp_path: Path, name: str) -> None:
    """Changed, added or taken away."""
    folder = model_in(tmp_path / "m")
    before = model_digest(folder)
    (folder / name).write_text("changed")
    assert model_digest(folder) != before


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    """Nothing would tell its versions apart."""
    with pytest.raises(ValueError, match="no weights"):
        model_digest(tmp_path)


def test_damaged_and_other_weights_have_digests_too(tmp_path: Path) -> None:
    """A file that is no safetensors after all, and one of another format."""
    (tmp_path / "model.safetensors").write_bytes(b"xy")
    before = model_digest(tmp_path)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert model_digest(tmp_path) != before


def test_adapters_are_known_by_all_their_bytes(tmp_path: Path) -> None:
    """Each byte and each name counts."""
    one, other = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    both = files_digest([one, other])
    assert both == files_digest([other, one])
    assert both != files_digest([one])
    other.write_bytes(b"3")
    assert both != files_digest([one, other])
