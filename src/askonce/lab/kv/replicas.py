"""Engines with their own prefix caches, and the routers in front of them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

if TYPE_CHECKING:
    from askonce.lab.kv.traces import Request, Trace

Routing = Literal["round-robin", "prefix-hash", "least-loaded", "prefix-aware"]
ROUTINGS: Final[tuple[Routing, ...]] = get_args(Routing)

_DRAIN: Final = 8000.0
"""Prompt tokens a second that a router thinks a replica works off."""
_HEAD: Final = 2
"""Blocks of the prefix that is hashed: more than what all requests share."""


class LocalCache:
    """One engine's prefix cache: least recently used blocks go first, ends of prefixes before
    their beginnings."""

    def __init__(self, capacity: int) -> None:
        """capacity: in blocks."""
        self._capacity = capacity
        self._held: OrderedDict[int, None] = OrderedDict()

    def has(self, blocks: tuple[int, ...]) -> int:
        """How many leading blocks are here."""
        held = self._held
        for place, block in enumerate(blocks):
            if block not in held:
                return place
        return len(blocks)

    def take(self, blocks: tuple[int, ...]) -> None:
        """Hold these, computed or loaded."""
        held = self._held
        for block in reversed(blocks):
            if block in held:
                held.move_to_end(block)
            else:
                held[block] = None
        while len(held) > self._capacity:
            held.popitem(last=False)


class Router:
    """Chooses a replica for each request in turn; estimates load by prompt tokens."""

    def __init__(self, routing: Routing, caches: list[LocalCache]) -> None:
        """caches: one of each replica; only `prefix-aware` looks into them."""
        self._routing = routing
        self._caches = caches
        self._load = [0.0] * len(caches)
        self._clock = 0.0
        self._turn = -1

    def choose(self, request: Request, block_tokens: int) -> int:
        """The replica's number."""
        self._drain(request.at)
        chosen = self._pick(request, block_tokens)
        known = self._caches[chosen].has(request.blocks) * block_tokens
        self._load[chosen] += request.tokens - known
        return chosen

    def _drain(self, now: float) -> None:
        passed = max(0.0, now - self._clock) * _DRAIN
        self._clock = now
        self._load = [max(0.0, each - passed) for each in self._load]

    def _pick(self, request: Request, block_tokens: int) -> int:
        count = len(self._caches)
        if self._routing == "round-robin":
            self._turn = (self._turn + 1) % count
            return self._turn
        if self._routing == "prefix-hash":
            return hash(request.blocks[:_HEAD]) % count
        costs = self._load
        if self._routing == "prefix-aware":
            costs = [
                load - block_tokens * cache.has(request.blocks)
                for load, cache in zip(self._load, self._caches, strict=True)
            ]
        return min(range(count), key=costs.__getitem__)


class Routed(msgspec.Struct, frozen=True):
    """Per request: the number of its replica, and how many leading blocks that one has itself."""

    replica: tuple[int, ...]
    local: tuple[int, ...]


def route(trace: Trace, replicas: int, local_tokens: int, routing: Routing) -> Routed:
    """Which replica each request meets, and what it finds there; no tier changes either."""
    caches = [LocalCache(local_tokens // trace.block_tokens) for _ in range(replicas)]
    router = Router(routing, caches)
    chosen, local = [], []
    for request in trace.requests:
        replica = router.choose(request, trace.block_tokens)
        chosen.append(replica)
        local.append(caches[replica].has(request.blocks))
        caches[replica].take(request.blocks)
    return Routed(tuple(chosen), tuple(local))
