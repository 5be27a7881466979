"""Work beside the requests: keep hot copies true, and say how much is held."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from askonce.errors import CacheFault
from askonce.events import HeldBytes
from askonce.units import Bytes

if TYPE_CHECKING:
    from askonce.ports import Sink, Store, SupportsEpoch, VectorIndex
    from askonce.tiers.exact import ExactTier

log = logging.getLogger(__name__)

EPOCH_INTERVAL = 0.5
"""Seconds: how long a worker may serve what another process has taken away."""
STATS_INTERVAL = 10.0


async def follow_epoch(store: SupportsEpoch, exact: ExactTier) -> None:
    """Drop hot copies whenever entries were taken from a shared store; runs until cancelled."""
    seen: int | None = None
    while True:
        try:
            epoch = await store.epoch()
        except CacheFault as fault:
            log.debug("the store's epoch cannot be read: %s", fault)
        else:
            if epoch != seen:
                exact.cool()
            seen = epoch
        await asyncio.sleep(EPOCH_INTERVAL)


async def tell_sizes(store: Store, index: VectorIndex | None, sink: Sink) -> None:
    """Emit what store and index hold, now and then; runs until cancelled."""
    while True:
        try:
            held = await store.stats()
            sink.emit(HeldBytes("store", held.size, held.entries))
            if index is not None:
                sink.emit(HeldBytes("index", Bytes(0), await index.count()))
        except CacheFault as fault:
            log.debug("sizes cannot be read: %s", fault)
        await asyncio.sleep(STATS_INTERVAL)
