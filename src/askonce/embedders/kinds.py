"""Which embedder a configuration means; drivers are imported only for the one that is meant."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.embedders.memo import remembering
from askonce.errors import ConfigError

if TYPE_CHECKING:
    from askonce.config import SemanticConfig
    from askonce.ports import Clock, Embedder, Sink


async def open_embedder(
    config: SemanticConfig, *, data_dir: Path, clock: Clock, sink: Sink
) -> Embedder:
    """The embedder of tier 3, a memo before it; raises ConfigError, EmbedderError."""
    if "://" in config.embedder:
        embedder = await _api(config, clock=clock, sink=sink)
    elif config.embedder == "sentence-transformers":
        from askonce.embedders.sentences import SentenceEmbedder

        embedder = await SentenceEmbedder.open(config, clock=clock, sink=sink)
    elif config.embedder == "onnx":
        from askonce.embedders.onnx import OnnxEmbedder

        embedder = await OnnxEmbedder.open(config, data_dir=data_dir, clock=clock, sink=sink)
    else:
        raise ConfigError(f"semantic.embedder: no embedder is known by {config.embedder!r}")
    return remembering(embedder, max_bytes=config.memo_bytes, prefix=config.prefix)


async def _api(config: SemanticConfig, *, clock: Clock, sink: Sink) -> Embedder:
    from askonce.embedders.http import Api, HttpEmbedder

    api = Api(
        url=config.embedder,
        model=config.model,
        key=config.api_key or await asyncio.to_thread(_key_in, config.api_key_file),
        window=config.window,
        queue=config.queue,
        dim=config.dimension,
    )
    return await HttpEmbedder.open(api, clock=clock, sink=sink)


def _key_in(file: str) -> str:
    """The token in a file, or none where no file is named; raises ConfigError."""
    try:
        return Path(file).expanduser().read_text("utf-8").strip() if file else ""
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"semantic.api_key_file: {file} cannot be read") from None
