"""What a pool is doing for whom: lookups and jobs, each with one end."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from askonce.kv.auditor import Auditor
    from askonce.kv.block import BlockKey
    from askonce.kv.shelf import BlockOutcome

Kind = Literal["load", "store"]
T = TypeVar("T")
NAP: Final = Seconds(0.02)
"""For which an engine that has nothing else to do waits before it looks again: what it would do
instead takes the processor from those who bring what it waits for."""


@dataclass(slots=True, eq=False)
class Lookup:
    """A question under way; `BlockPool.poll` answers it."""

    request: str
    keys: Sequence[BlockKey]
    began: Seconds
    deadline: Seconds
    answer: list[bool] | None = None
    """Whether each key is there; set once."""


@dataclass(slots=True, eq=False)
class Job:
    """Blocks to load into views, or to store from them."""

    id: int
    kind: Kind
    request: str
    keys: Sequence[BlockKey]
    views: Sequence[memoryview]
    epoch: int | None
    """At the moment of submission: what was computed before a bump is never stored after it."""
    began: Seconds
    deadline: Seconds
    ttl: Seconds | None = None
    """Life of what is stored; None for the pool's own."""
    auditor: Auditor | None = None
    """Holds what the store has already against the views."""
    state: Literal["queued", "running", "ended"] = "queued"


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a job; from now on the pool touches none of its views."""

    id: int
    kind: Kind
    request: str
    keys: Sequence[BlockKey]
    outcomes: Sequence[BlockOutcome]
    """One for each key; a loaded view holds the block where it is `done`, else anything."""
    size: int
    """Payload bytes of the blocks that are done."""
    seconds: float
    """Since submission."""
    audited: bool = False

    @property
    def done(self) -> list[BlockKey]:
        """The keys that went well."""
        return [key for key, said in zip(self.keys, self.outcomes, strict=True) if said == "done"]


class Desk:
    """Who waits for what; every change is whole, from any thread."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._lock = threading.Lock()
        self._ending = threading.Condition(self._lock)
        self._lookups: dict[str, list[Lookup]] = defaultdict(list)
        self._jobs: dict[str, list[Job]] = defaultdict(list)
        self._finished: deque[Finished] = deque()

    def open(self, lookup: Lookup) -> None:
        """A lookup begins."""
        with self._lock:
            self._lookups[lookup.request].append(lookup)

    def answer(self, lookup: Lookup, answer: list[bool]) -> bool:
        """It has its answer; False when it had one, or was given up."""
        with self._lock:
            if lookup.answer is not None:
                return False
            lookup.answer = answer
            self._ending.notify_all()
            _remove(self._lookups, lookup.request, lookup)
            return True

    def submit(self, job: Job) -> None:
        """A job waits."""
        with self._lock:
            self._jobs[job.request].append(job)

    def start(self, job: Job) -> bool:
        """A thread takes it up; False when it has ended before."""
        with self._lock:
            if job.state != "queued":
                return False
            job.state = "running"
            return True

    def end(self, job: Job, outcomes: Sequence[BlockOutcome], now: Seconds) -> Finished | None:
        """It is over; None when it was before."""
        with self._lock:
            return self._end(job, outcomes, now)

    def give_up(self, request: str, now: Seconds) -> list[Finished]:
        """End what waits for this request: lookups, and jobs that no thread has taken up."""
        with self._lock:
            for lookup in self._lookups.pop(request, ()):
                lookup.answer = [False] * len(lookup.keys)
            return list(self._ended(list(self._jobs.get(request, ())), "cancelled", now))

    def expire(self, now: Seconds) -> list[Finished]:
        """End the jobs that have waited for a thread until their deadline."""
        with self._lock:
            late = [
                job
                for jobs in self._jobs.values()
                for job in jobs
                if job.state == "queued" and job.deadline <= now
            ]
            return list(self._ended(late, "late", now))

    def await_answer(self, lookup: Lookup, timeout: Seconds) -> None:
        """Until the lookup has its answer, or so long."""
        with self._ending:
            self._ending.wait_for(lambda: lookup.answer is not None, timeout)

    def await_end(self, timeout: Seconds) -> bool:
        """Until a job has ended that `drain` has not told, or so long; whether one has."""
        with self._ending:
            return self._ending.wait_for(lambda: bool(self._finished), timeout)

    def drain(self) -> list[Finished]:
        """What has ended since the last call."""
        with self._lock:
            ended = list(self._finished)
            self._finished.clear()
            return ended

    def pinned(self) -> int:
        """Views that jobs hold."""
        with self._lock:
            return sum(len(job.views) for jobs in self._jobs.values() for job in jobs)

    def open_lookups(self) -> int:
        """Lookups without an answer."""
        with self._lock:
            return sum(map(len, self._lookups.values()))

    def _ended(
        self, jobs: Sequence[Job], outcome: BlockOutcome, now: Seconds
    ) -> Iterator[Finished]:
        for job in jobs:
            if job.state == "queued":
                ended = self._end(job, [outcome] * len(job.keys), now)
                if ended is not None:
                    yield ended

    def _end(self, job: Job, outcomes: Sequence[BlockOutcome], now: Seconds) -> Finished | None:
        if job.state == "ended":
            return None
        job.state = "ended"
        _remove(self._jobs, job.request, job)
        size = sum(v.nbytes for v, said in zip(job.views, outcomes, strict=True) if said == "done")
        told = tuple(outcomes)
        took = now - job.began
        ended = Finished(
            job.id,
            job.kind,
            job.request,
            job.keys,
            told,
            size,
            took,
            audited=job.auditor is not None,
        )
        self._finished.append(ended)
        self._ending.notify_all()
        return ended


def _remove(table: dict[str, list[T]], request: str, item: T) -> None:
    held = table.get(request)
    if held is not None and item in held:
        held.remove(item)
        if not held:
            del table[request]
