"""Which engines may share blocks: those for which equal keys mean equal bytes.

A namespace is a digest of everything beside the block's hash that the bytes depend on. It is made
from contents, never from names: new weights under an old name make a new namespace by themselves.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

NAMESPACE_VERSION = 1

_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 100 * 1024 * 1024
_SAMPLE = 64 * 1024
"""Bytes hashed at the beginning, the middle and the end of a file of weights."""
_CONFIGS = ("config.json", "generation_config.json", "quantize_config.json", "hf_quant_config.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How one engine lays out KV bytes."""

    kv_dtype: str
    """As the engine resolved it: `float16`, `fp8_e4m3`, never `auto`."""
    block_tokens: int
    """Tokens of a block as it is stored."""
    block_bytes: int
    layout: str
    """The engine's own name of it, with the instruction set where that shapes bytes."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    groups: tuple[str, ...] = ()
    """Kind and size of each KV cache group of a hybrid model."""


class Hashing(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine names blocks."""

    algorithm: str
    seed: str
    """The resolved one that the first block's parent stands for."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that equal blocks must have in common."""

    model: bytes
    """Digest of the model's contents, as `model_digest` gives it."""
    adapters: tuple[bytes, ...] = ()
    """Digests of adapter files that the engine loaded at its start, in order."""
    layout: Layout
    hashing: Hashing
    engine: str
    """Engine and version up to which its bytes are known to agree, `vllm-0.33`."""
    tenant: str = ""
    """Keeps deployments apart that share a store."""


def namespace_of(identity: Identity) -> bytes:
    """32 bytes; every field counts, and no two spellings meet."""
    told = msgspec.msgpack.encode((NAMESPACE_VERSION, identity))
    return hashlib.blake2b(told, digest_size=32, person=b"askonce kv space").digest()


def model_digest(folder: Path) -> bytes:
    """Digest of a model's folder by contents: configuration, tokenizer, weights.

    Of weights, what tells versions apart without reading all of them: names, sizes, headers, and
    samples of the bytes. Raises OSError, and ValueError for a folder without weights.
    """
    weights = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS)
    if not weights:
        raise ValueError(f"there are no weights in {folder}")
    digest = hashlib.blake2b(digest_size=32, person=b"askonce kv model")
    for name in (*_CONFIGS, *_TOKENIZERS):
        _add_whole(digest, folder / name)
    for index in sorted(folder.glob("*.index.json")):
        _add_whole(digest, index)
    for path in weights:
        _add_weights(digest, path)
    return digest.digest()


def files_digest(paths: Iterable[Path]) -> bytes:
    """Digest of small files by their whole contents, as an adapter's; raises OSError."""
    digest = hashlib.blake2b(digest_size=32, person=b"askonce kv files")
    for path in sorted(paths):
        _add_whole(digest, path)
    return digest.digest()


def _add_whole(digest: hashlib.blake2b, path: Path) -> None:
    content = path.read_bytes() if path.exists() else None
    _add(digest, path.name.encode())
    _add(digest, b"absent" if content is None else b"file" + content)


def _add_weights(digest: hashlib.blake2b, path: Path) -> None:
    size = path.stat().st_size
    _add(digest, path.name.encode())
    _add(digest, size.to_bytes(8, "big"))
    with path.open("rb") as file:
        if path.suffix == ".safetensors":
            _add(digest, _tensors(file))
        for start in (0, max(0, size // 2 - _SAMPLE // 2), max(0, size - _SAMPLE)):
            file.seek(start)
            _add(digest, file.read(_SAMPLE))


def _tensors(file: BinaryIO) -> bytes:
    """The header of a safetensors file: names, types, shapes and places of all tensors."""
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size).ljust(_LENGTH.size, b"\0"))
    return file.read(min(length, _LONGEST_HEADER))


def _add(digest: hashlib.blake2b, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big"))
    digest.update(part)
