"""A pool whose store answers when a test says so, and requests as vLLM's scheduler has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from askonce.kv.jobs import Finished, Lookup
from askonce.kv.pool import PoolSettings
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from askonce.kv.block import BlockKey

BLOCK_TOKENS = 32


@dataclass
class FakeEpochs:
    """The epoch that a test sets."""

    now: int | None = 1

    def current(self) -> int | None:
        """It."""
        return self.now

    @property
    def latest(self) -> int:
        """It, too."""
        return self.now or 0


@dataclass
class FakePool:
    """What a test puts into `stored` is there; lookups answer while `answers`."""

    stored: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    epochs: FakeEpochs = field(default_factory=FakeEpochs)
    settings: PoolSettings = field(default_factory=PoolSettings)
    answers: bool = True
    seconds: float = 0.001
    """That each job takes."""
    aborted: list[str] = field(default_factory=list)
    failed: list[BlockKey] = field(default_factory=list)
    audited: list[BlockKey] = field(default_factory=list)
    undone: int = 0
    wakes: bool = False
    waited: list[Seconds] = field(default_factory=list)
    """For an answer, or for the end of a job."""
    renews: bool = True
    asked: list[Sequence[BlockKey]] = field(default_factory=list)
    lives: list[tuple[int, Seconds | None]] = field(default_factory=list)
    """Number of blocks and life of each store job."""
    renewed: list[tuple[BlockKey, Seconds]] = field(default_factory=list)
    jobs: dict[int, tuple[Any, str, Sequence[BlockKey], Sequence[memoryview]]] = field(
        default_factory=dict
    )

    def begin_lookup(self, request: str, keys: Sequence[BlockKey]) -> Lookup:
        """Remember the question."""
        self.asked.append(keys)
        return Lookup(request, keys, Seconds(0.0), Seconds(1.0))

    def poll(self, lookup: Lookup) -> list[bool] | None:
        """What is stored at this moment."""
        if not self.answers:
            return None
        return [(key.hash, key.group) in self.stored for key in lookup.keys]

    def abort(self, request: str) -> None:
        """Remember it."""
        self.aborted.append(request)

    def mark_failed(self, keys: Iterable[BlockKey]) -> None:
        """Remember them."""
        self.failed += keys

    def unaudited(self, count: int) -> None:
        """Remember how many."""
        self.undone += count

    def invalidate(self) -> int:
        """The next epoch."""
        self.epochs.now = (self.epochs.now or 0) + 1
        return self.epochs.now

    def submit_load(
        self, job: int, request: str, keys: Sequence[BlockKey], views: Sequence[memoryview]
    ) -> None:
        """It waits for `end`."""
        self.jobs[job] = ("load", request, keys, views)

    def submit_store(
        self,
        job: int,
        request: str,
        keys: Sequence[BlockKey],
        views: Sequence[memoryview],
        *,
        ttl: Seconds | None = None,
        auditor: object = None,
    ) -> None:
        """It waits for `end`."""
        self.audited += keys if auditor is not None else ()
        self.lives.append((len(keys), ttl))
        self.jobs[job] = ("store", request, keys, views)

    def renew(self, keys: Sequence[BlockKey], lives: Sequence[Seconds]) -> None:
        """Remember them."""
        self.renewed += zip(keys, lives, strict=True)

    def await_answer(self, lookup: Lookup, timeout: Seconds) -> None:
        """Remember that it was waited for."""
        self.waited.append(timeout)

    def await_end(self, timeout: Seconds) -> bool:
        """Jobs end at once, if it is to `wake` who waits."""
        self.waited.append(timeout)
        self.answers = self.answers or self.wakes
        return self.answers and bool(self.jobs)

    def finished(self) -> list[Finished]:
        """All jobs end, done where the block is there, or missing; none while not `answers`."""
        if not self.answers:
            return []
        ended = [self._ended(number, *job) for number, job in self.jobs.items()]
        self.jobs.clear()
        return ended

    def _ended(
        self,
        number: int,
        kind: Any,
        request: str,
        keys: Sequence[BlockKey],
        views: Sequence[memoryview],
    ) -> Finished:
        outcomes = []
        for key, view in zip(keys, views, strict=True):
            name = key.hash, key.group
            if kind == "store":
                self.stored[name] = bytes(view)
            elif name in self.stored:
                view[:] = self.stored[name]
            outcomes.append("done" if name in self.stored else "missing")
        size = sum(view.nbytes for view in views)
        return Finished(number, kind, request, keys, outcomes, size, self.seconds)


@dataclass
class FakeRequest:
    """A prompt by its block hashes, and a few tokens more."""

    request_id: str
    block_hashes: list[bytes]
    num_tokens: int
    lora_request: Any = None


def request(name: str, blocks: int, *, more: int = 5, prompt: str = "p") -> FakeRequest:
    """A request of so many full blocks; the same prompt has the same hashes."""
    hashes = [f"{prompt}{index}".encode().ljust(32, b".") for index in range(blocks)]
    return FakeRequest(name, hashes, blocks * BLOCK_TOKENS + more)


@dataclass
class New:
    """A request that is scheduled for the first time."""

    req_id: str
    block_ids: tuple[list[int], ...]
    num_computed_tokens: int


@dataclass
class Cached:
    """Requests that were scheduled before."""

    req_ids: list[str] = field(default_factory=list)
    new_block_ids: list[tuple[list[int], ...] | None] = field(default_factory=list)
    num_computed_tokens: list[int] = field(default_factory=list)
    resumed_req_ids: set[str] = field(default_factory=set)


@dataclass
class Step:
    """What the scheduler has decided."""

    scheduled_new_reqs: list[New] = field(default_factory=list)
    scheduled_cached_reqs: Cached = field(default_factory=Cached)
    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)


def first_step(name: str, blocks: list[int], computed: int, tokens: int) -> Step:
    """A request's first step."""
    return Step([New(name, (blocks,), computed)], Cached(), {name: tokens})


def next_step(name: str, blocks: list[int], computed: int, tokens: int) -> Step:
    """A later one, with fresh blocks."""
    return Step([], Cached([name], [(blocks,)], [computed]), {name: tokens})
