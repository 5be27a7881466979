"""The fast mode: a dynamic int8 model, made once from the accurate one."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.embedders.model import ModelFile, file_digest
from askonce.embedders.session import runtime_errors
from askonce.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator


def fast_model(source: ModelFile, data_dir: Path) -> ModelFile:
    """The fast twin of the model in data_dir, made when it is not there or was changed."""
    folder = data_dir / "models"
    for path, named in _made(source, folder):
        digest = file_digest(path)
        if digest.startswith(named):
            return ModelFile(path, digest)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "fast.onnx"
        make_fast_model(source.path, made)
        digest = file_digest(made)
        target = folder / f"fast-{source.digest[:16]}-{digest[:16]}.onnx"
        made.replace(target)
    return ModelFile(target, digest)


def _made(source: ModelFile, folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.glob(f"fast-{source.digest[:16]}-*.onnx")):
        yield path, path.stem.rpartition("-")[2]


def make_fast_model(source: Path, target: Path) -> None:
    """Write a model whose matrix products are int8, per channel; takes seconds.

    The source may keep its weights as int8 behind casts: they are folded to float32 first.
    `reduce_range` keeps 7 bits, since 8 overflow on processors without VNNI.
    """
    try:
        import onnx  # noqa: F401 - the quantiser needs it and says so unclearly
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise MissingExtra("onnx", "fast") from error
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        folded = Path(scratch) / "folded.onnx"
        _fold(source, folded)
        logging.getLogger("root").addFilter(_no_hint)
        try:
            quantize_dynamic(
                str(folded),
                str(target),
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
            )
        finally:
            logging.getLogger("root").removeFilter(_no_hint)


def _fold(source: Path, target: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    try:
        onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    except runtime_errors() as error:
        raise ConfigError(f"{source} is not a usable ONNX model: {error}") from error


def _no_hint(record: logging.LogRecord) -> bool:
    """Drop the quantiser's advice to fold constants first: that was done."""
    return "pre-processing before quantization" not in record.getMessage()
