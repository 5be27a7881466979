"""From settings and an identity to a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.kv.board import Board
from askonce.kv.codec import Int8
from askonce.kv.hearsay import Hearsay
from askonce.kv.namespace import namespace_of
from askonce.kv.pool import BlockPool
from askonce.kv.transports.urls import open_transport
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.kv.admission import Admission
    from askonce.kv.namespace import Identity
    from askonce.kv.vllm.settings import VllmSettings
    from askonce.ports import Clock


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


def open_hearsay(
    settings: VllmSettings, identity: Identity, admission: Admission | None, clock: Clock
) -> Hearsay | None:
    """What tells other replicas what this one saw, at work; None where nothing is to be told."""
    if admission is None or not settings.exchange_every:
        return None
    every = Seconds(settings.exchange_every)
    board = Board(
        open_transport(settings.url),
        namespace_of(identity),
        clock,
        secret=settings.secret(),
        every=every,
    )
    hearsay = Hearsay(admission, board, clock, every=every)
    hearsay.start()
    return hearsay
