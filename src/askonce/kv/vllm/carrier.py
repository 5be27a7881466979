"""The worker's half of the connector: blocks between its KV cache and the pool.

A block is loaded into staging memory and reaches the cache only after it was checked. A block to be
stored is copied out of the cache right after the step that completed it. So the pool never holds a
block of the engine: aborts, preemption and late answers cannot touch one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import TYPE_CHECKING, NamedTuple

from askonce.clock import SystemClock
from askonce.kv.block import BlockKey
from askonce.kv.jobs import NAP
from askonce.kv.vllm.staging import Staging
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from askonce.kv.auditor import Auditor
    from askonce.kv.jobs import Finished
    from askonce.kv.pool import BlockPool
    from askonce.kv.vllm.planner import Load, Plan
    from askonce.kv.vllm.staging import Bytes
    from askonce.ports import Clock

_PART = 3 * 1024 * 1024
"""Bytes of a job at least: a load in several parts is received and copied at the same time."""
_PARTS = 128
"""Jobs that all room together makes at most: the pool takes up no more than some hundreds."""
_SPARE = 0.5
"""Seconds past the pool's deadline after which a load is given up, come what may."""
_log = logging.getLogger(__name__)


class Settled(NamedTuple):
    """What became of loads since the last call."""

    received: set[str]
    """Requests of which nothing is under way any more, loaded or not."""
    failed: set[str]
    """Those of them that lack a block."""
    bad_blocks: set[int]


@dataclass(slots=True)
class _Loading:
    """A request's load."""

    jobs: set[int]
    give_up: float
    bad: set[int] = field(default_factory=set)


class _Part(NamedTuple):
    """A job of the pool."""

    request: str
    """Empty for a store."""
    slots: list[int]
    blocks: list[int]


class Carrier:
    """Carries the blocks of one worker; one thread calls."""

    def __init__(
        self,
        pool: BlockPool,
        layers: Sequence[Bytes],
        *,
        rank: int = 0,
        staging_bytes: int,
        auditor: Auditor | None = None,
        clock: Clock | None = None,
    ) -> None:
        """layers: for each, the bytes of block `i` at `i`. rank: whose shards these are."""
        self._pool = pool
        self._layers = layers
        self._rank = rank
        self._auditor = auditor
        self._clock = clock or SystemClock()
        size = sum(layer.shape[1] for layer in layers)
        self._loads, self._stores = (Staging(size, staging_bytes // 2) for _ in range(2))
        self._per_job = max(1, max(_PART, staging_bytes // 2 // _PARTS) // size)
        self._numbers = count()
        self._parts: dict[int, _Part] = {}
        self._loading: dict[str, _Loading] = {}
        self._settled = Settled(set(), set(), set())
        self.loaded_blocks = 0
        """Checked, and copied into the engine's cache."""
        self.lost_blocks = 0
        """Asked for, and not loaded."""
        self.unstored_blocks = 0
        """Not stored for want of room or of a known epoch."""

    @property
    def held(self) -> int:
        """Slots that jobs have."""
        return sum(len(part.slots) for part in self._parts.values())

    @property
    def loading(self) -> bool:
        """Whether a request waits."""
        return bool(self._loading)

    def load(self, loads: Iterable[Load]) -> None:
        """Begin; `settle` tells the end."""
        for load in loads:
            slots = self._loads.lease(len(load.blocks))
            give_up = self._clock.monotonic() + self._pool.settings.load_deadline + _SPARE
            waiting = self._loading[load.request] = _Loading(set(), give_up)
            if slots is None:
                _log.warning("no room to load %d KV blocks: computing them", len(load.blocks))
                waiting.bad.update(load.blocks)
                continue
            for at in range(0, len(slots), self._per_job):
                cut = slice(at, at + self._per_job)
                part = _Part(load.request, slots[cut], load.blocks[cut])
                waiting.jobs.add(self._submit(part, load.hashes[cut]))

    def store(self, plan: Plan) -> None:
        """Copy out what this step has completed, and have it stored, or held against the store."""
        self._put(plan.hashes, plan.blocks, plan.epoch, plan.lives)
        names, blocks = [name for name, _ in plan.audits], [block for _, block in plan.audits]
        self._put(names, blocks, plan.epoch, [None] * len(blocks), self._auditor)

    def drop(self, requests: Iterable[str]) -> None:
        """These are finished: what they wait for is of no use."""
        for request in requests:
            if request in self._loading:
                self._pool.abort(request)
                self._finish(request, self._loading.pop(request))

    def settle(self, *, idle: bool = False) -> Settled:
        """Take in what has come; idle: the engine has nothing else to do, so wait a moment."""
        self._take_ended()
        if idle:
            self._nap()
        now = self._clock.monotonic()
        for request, load in list(self._loading.items()):
            if not load.jobs or now >= load.give_up:
                self._finish(request, self._loading.pop(request))
        settled, self._settled = self._settled, Settled(set(), set(), set())
        return settled

    def _nap(self) -> None:
        """Wait a moment for a request's blocks, and put them where they belong as they come."""
        end = self._clock.monotonic() + NAP
        while self._loading and all(load.jobs for load in self._loading.values()):
            left = end - self._clock.monotonic()
            if left <= 0 or not self._pool.await_end(Seconds(left)):
                return
            self._take_ended()

    def _take_ended(self) -> None:
        for ended in self._pool.finished():
            self._take(ended)

    def _put(
        self,
        hashes: Sequence[bytes],
        blocks: list[int],
        epoch: int | None,
        lives: Sequence[Seconds | None],
        auditor: Auditor | None = None,
    ) -> None:
        if not blocks:
            return
        slots = self._stores.lease(len(blocks))
        if slots is None or epoch is None or self._pool.epochs.latest != epoch:
            if auditor is None:
                self.unstored_blocks += len(blocks)
            else:
                self._pool.unaudited(len(blocks))
            self._stores.give_back(slots or ())
            return
        for slot, block in zip(slots, blocks, strict=True):
            for row, layer in zip(
                self._stores.rows(slot, len(self._layers)), self._layers, strict=True
            ):
                row[:] = layer[block]
        for life, cut in _cuts(lives, self._per_job):
            part = _Part("", slots[cut], blocks[cut])
            self._submit(part, hashes[cut], life, auditor)

    def _submit(
        self,
        part: _Part,
        hashes: Sequence[bytes],
        life: Seconds | None = None,
        auditor: Auditor | None = None,
    ) -> int:
        number = next(self._numbers)
        self._parts[number] = part
        keys = [BlockKey(name, self._rank) for name in hashes]
        if part.request:
            self._pool.submit_load(number, part.request, keys, self._loads.views(part.slots))
        else:
            views = self._stores.views(part.slots)
            self._pool.submit_store(number, "", keys, views, ttl=life, auditor=auditor)
        return number

    def _take(self, ended: Finished) -> None:
        part = self._parts.pop(ended.id)
        if not part.request:
            self._stores.give_back(part.slots)
            return
        load = self._loading.get(part.request)
        if load is not None and ended.id in load.jobs:
            load.jobs.remove(ended.id)
            for slot, block, said in zip(part.slots, part.blocks, ended.outcomes, strict=True):
                if said == "done":
                    self._place(slot, block)
                else:
                    load.bad.add(block)
        self._loads.give_back(part.slots)

    def _place(self, slot: int, block: int) -> None:
        rows = self._loads.rows(slot, len(self._layers))
        for row, layer in zip(rows, self._layers, strict=True):
            layer[block] = row
        self.loaded_blocks += 1

    def _finish(self, request: str, load: _Loading) -> None:
        for number in load.jobs:
            load.bad.update(self._parts[number].blocks)
        self.lost_blocks += len(load.bad)
        self._settled.received.add(request)
        if load.bad:
            self._settled.failed.add(request)
            self._settled.bad_blocks.update(load.bad)


def _cuts(lives: Sequence[Seconds | None], most: int) -> Iterator[tuple[Seconds | None, slice]]:
    """Runs of at most so many blocks with the same life."""
    at = 0
    for life, run in groupby(lives):
        end = at + sum(1 for _ in run)
        for start in range(at, end, most):
            yield life, slice(start, min(start + most, end))
        at = end
