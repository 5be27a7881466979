"""From settings and an identity to a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.kv.codec import Int8
from askonce.kv.namespace import namespace_of
from askonce.kv.pool import BlockPool
from askonce.kv.transports.urls import open_transport

if TYPE_CHECKING:
    from askonce.kv.namespace import Identity
    from askonce.kv.vllm.settings import VllmSettings


def open_pool(settings: VllmSettings, identity: Identity) -> BlockPool:
    """The pool of this engine's blocks; raises ConfigError."""
    codec = (
        Int8(identity.layout.kv_dtype.rpartition("/")[2]) if settings.storage == "int8" else None
    )
    return BlockPool(
        open_transport(settings.url),
        namespace_of(identity),
        scope=identity.model,
        secret=settings.secret(),
        codec=codec,
        settings=settings.pool(),
    )
