"""What the shared store holds: what each policy writes, finds and evicts over a trace.

A block is loadable from the request after the one that computed it; writes that the replicas'
links cannot take are dropped, the ends of prefixes first.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args

import msgspec

from askonce.kv.admission import Admission, Limits
from askonce.kv.board import Board
from askonce.kv.hearsay import Hearsay
from askonce.kv.transports.memory import MemoryTransport
from askonce.units import Bytes, Seconds, UnixTime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.lab.kv.replicas import Routed
    from askonce.lab.kv.traces import Trace

Policy = Literal["none", "lru", "second-sight", "askonce-alone", "askonce", "clairvoyant"]
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)

_BACKLOG: Final = 2.0
"""Seconds of writes that a replica holds back before it drops more, and at least _BLOCKS."""
_BLOCKS: Final = 4
_TTL: Final = Seconds(24 * 3600.0)
_SPACE: Final = b"simulated".ljust(32)


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """The store and the ways to it."""

    budget: int
    """Bytes."""
    block_bytes: int
    replicas: int
    write_rate: float = float("inf")
    """Bytes a second that one replica can send."""
    tell_every: float = 5.0
    """Seconds between two exchanges of what replicas saw; 0: they share one view."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy came to, per request, in blocks."""

    policy: Policy
    found: tuple[int, ...]
    """Leading blocks in the store right behind the local ones."""
    written: tuple[int, ...]
    dropped: int
    """Writes that the link had no room for."""


class Tier(Protocol):
    """One policy at work."""

    def serve(self, number: int, now: float, replica: int, room: int) -> tuple[int, int, int]:
        """Serve a request with room to write so many blocks; found, written and dropped."""
        ...


def replay(
    trace: Trace, routed: Routed, policy: Policy, shared: Shared, tick: Callable[[], None]
) -> Content:
    """Run one policy over the trace; `tick` is called now and then."""
    tier = _tier(trace, routed, policy, shared)
    found, written, dropped = [], [], 0
    most = max(shared.write_rate * _BACKLOG, _BLOCKS * shared.block_bytes)
    room = [most] * shared.replicas
    clock = 0.0
    for number, request in enumerate(trace.requests):
        passed = (request.at - clock) * shared.write_rate if request.at > clock else 0.0
        clock = request.at
        room = [min(most, each + passed) for each in room]
        replica = routed.replica[number]
        blocks = int(min(1 << 40, room[replica] // shared.block_bytes))
        here, new, lost = tier.serve(number, request.at, replica, blocks)
        room[replica] -= new * shared.block_bytes
        found.append(here)
        written.append(new)
        dropped += lost
        if number % 500 == 0:
            tick()
    return Content(policy=policy, found=tuple(found), written=tuple(written), dropped=dropped)


def _tier(trace: Trace, routed: Routed, policy: Policy, shared: Shared) -> Tier:
    capacity = shared.budget // shared.block_bytes
    match policy:
        case "none":
            return _Nothing()
        case "lru":
            return _Lru(trace, routed, capacity)
        case "second-sight":
            return _Lru(trace, routed, capacity, sights=2)
        case "clairvoyant":
            return _Clairvoyant(trace, routed, capacity)
        case "askonce":
            return _AskOnce(trace, routed, shared)
        case "askonce-alone":
            return _AskOnce(trace, routed, shared, alone=True)


class _Nothing:
    """No shared tier."""

    def serve(self, number: int, now: float, replica: int, room: int) -> tuple[int, int, int]:
        del number, now, replica, room
        return 0, 0, 0


class _Lru:
    """Stores every block, or those seen before by any replica, and evicts the oldest."""

    def __init__(self, trace: Trace, routed: Routed, capacity: int, sights: int = 1) -> None:
        self._requests = trace.requests
        self._local = routed.local
        self._capacity = capacity
        self._sights = sights
        self._seen: dict[int, int] = defaultdict(int)
        self._held: OrderedDict[int, None] = OrderedDict()

    def serve(self, number: int, now: float, replica: int, room: int) -> tuple[int, int, int]:
        del now, replica
        blocks, held = self._requests[number].blocks, self._held
        found = _run(blocks, self._local[number], held)
        new = []
        for block in blocks:
            self._seen[block] += 1
            if block not in held and self._seen[block] >= self._sights:
                new.append(block)
        taken = set(new[:room])
        for block in reversed(blocks):
            if block in taken:
                held[block] = None
            elif block in held:
                held.move_to_end(block)
        while len(held) > self._capacity:
            held.popitem(last=False)
        return found, len(taken), len(new) - len(taken)


class _Clairvoyant:
    """Knows every lookup that will come: Belady's rule, with the right not to store.

    No policy that is told less can find more blocks in the same bytes.
    """

    def __init__(self, trace: Trace, routed: Routed, capacity: int) -> None:
        self._requests = trace.requests
        self._local = routed.local
        self._capacity = capacity
        self._next: dict[int, list[int]] = defaultdict(list)
        for number in range(len(trace.requests) - 1, -1, -1):
            for block in trace.requests[number].blocks[routed.local[number] :]:
                self._next[block].append(number)
        self._held: dict[int, int] = {}
        self._heap: list[tuple[int, int, int]] = []

    def serve(self, number: int, now: float, replica: int, room: int) -> tuple[int, int, int]:
        del now, replica
        blocks = self._requests[number].blocks
        found = _run(blocks, self._local[number], self._held)
        written = dropped = 0
        for depth, block in enumerate(blocks):
            later = self._next[block]
            while later and later[-1] <= number:
                later.pop()
            if block in self._held or not later:
                self._push(block, depth, later)
            elif written >= room:
                dropped += 1
            elif self._makes_room(later[-1]):
                self._push(block, depth, later)
                written += 1
        return found, written, dropped

    def _push(self, block: int, depth: int, later: list[int]) -> None:
        if not later:
            self._held.pop(block, None)
            return
        self._held[block] = later[-1]
        heapq.heappush(self._heap, (-later[-1], -depth, block))

    def _makes_room(self, wanted: int) -> bool:
        while len(self._held) >= self._capacity and self._heap:
            when, _, block = self._heap[0]
            if self._held.get(block) != -when:
                heapq.heappop(self._heap)
            elif -when <= wanted:
                return False
            else:
                heapq.heappop(self._heap)
                del self._held[block]
        return self._capacity > 0


class _Clock:
    """The trace's own time."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> UnixTime:
        return UnixTime(self.at)

    def monotonic(self) -> Seconds:
        return Seconds(self.at)


class _AskOnce:
    """The real admission, one of each replica; the store evicts what would expire first.

    alone: replicas hear nothing of each other, and each fills its share of the store.
    """

    def __init__(
        self, trace: Trace, routed: Routed, shared: Shared, *, alone: bool = False
    ) -> None:
        self._requests = trace.requests
        self._local = routed.local
        self._capacity = shared.budget // shared.block_bytes
        budget = shared.budget // (shared.replicas if alone else 1)
        limits = Limits(budget=Bytes(budget), block_bytes=Bytes(shared.block_bytes)).within(_TTL)
        views = shared.replicas if shared.tell_every or alone else 1
        self._views = [Admission(limits) for _ in range(views)]
        self._every = float("inf") if alone else shared.tell_every
        self._told = 0.0
        self._clock = _Clock()
        self._exchanges = self._opened(Seconds(self._every)) if len(self._views) > 1 else []
        self._hashes: dict[int, int] = {}
        self._held: dict[int, float] = {}
        self._heap: list[tuple[float, int, int]] = []

    def serve(self, number: int, now: float, replica: int, room: int) -> tuple[int, int, int]:
        self._exchange(now)
        blocks = self._requests[number].blocks
        self._expire(now)
        found = _run(blocks, self._local[number], self._held)
        known = _run(blocks, 0, self._held)
        view = self._views[replica % len(self._views)]
        lives = view.keep(view.see(self._hashed(blocks), Seconds(now)), known)
        written, dropped = 0, 0
        for depth, life in enumerate(lives):
            block = blocks[depth]
            if block not in self._held:
                if written >= room:
                    dropped = len(lives) - depth
                    break
                written += 1
            elif self._held[block] >= now + life:
                continue
            self._held[block] = now + life
            heapq.heappush(self._heap, (now + life, -depth, block))
        while len(self._held) > self._capacity:
            self._pop()
        return found, written, dropped

    def _opened(self, every: Seconds) -> list[Hearsay]:
        """What runs beside each engine, over a store in this process."""
        store = MemoryTransport(clock=self._clock)
        return [
            Hearsay(view, Board(store, _SPACE, self._clock, every=every), self._clock, every=every)
            for view in self._views
        ]

    def _exchange(self, now: float) -> None:
        self._clock.at = now
        if now - self._told >= self._every:
            self._told = now
            for each in self._exchanges:
                each.turn()

    def _expire(self, now: float) -> None:
        while self._heap and self._heap[0][0] < now:
            self._pop()

    def _pop(self) -> None:
        when, _, block = heapq.heappop(self._heap)
        if self._held.get(block) == when:
            del self._held[block]

    def _hashed(self, blocks: Sequence[int]) -> list[int]:
        known = self._hashes
        for block in blocks:
            if block not in known:
                digest = hashlib.blake2b(block.to_bytes(8, "big"), digest_size=8).digest()
                known[block] = int.from_bytes(digest, "big")
        return [known[block] for block in blocks]


def _run(
    blocks: Sequence[int], first: int, held: dict[int, None] | dict[int, float] | dict[int, int]
) -> int:
    """How many blocks from `first` on are held without a gap."""
    for place in range(first, len(blocks)):
        if blocks[place] not in held:
            return place - first
    return len(blocks) - first
