"""Blocks for an engine's scheduler: nothing here waits for the store on the caller's thread."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import msgspec

from askonce.clock import SystemClock
from askonce.errors import places
from askonce.kv.bulkhead import bulkheads
from askonce.kv.epochs import Epochs
from askonce.kv.figures import PoolFigures, Tally
from askonce.kv.guard import Guard
from askonce.kv.jobs import Desk, Finished, Job, Kind, Lookup
from askonce.kv.ports import FAULTS
from askonce.kv.renewals import Renewals
from askonce.kv.shelf import Shelf
from askonce.kv.verdicts import Verdicts
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from askonce.kv.auditor import Auditor
    from askonce.kv.block import BlockKey
    from askonce.kv.codec import BlockCodec
    from askonce.kv.ports import BlockTransport
    from askonce.kv.shelf import BlockOutcome
    from askonce.ports import Clock

_PATIENCE = Seconds(5.0)
_log = logging.getLogger(__name__)


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long things may take, and how much may be under way."""

    lookup_deadline: Seconds = Seconds(0.05)
    """From `begin_lookup` until `poll` answers, with misses if need be."""
    load_deadline: Seconds = Seconds(1.0)
    """From submission until a load job ends."""
    store_deadline: Seconds = Seconds(5.0)
    ttl: Seconds | None = Seconds(24 * 3600.0)
    """Life of a stored block; None leaves it to the store's eviction."""
    lookup_threads: int = 2
    load_threads: int = 4
    store_threads: int = 2
    depth: int = 256
    """Lookups, load jobs and store jobs that may be under way, each for itself."""
    failures: int = 3
    """Calls that fail in a row before the store is left alone."""
    cooldown: Seconds = Seconds(1.0)
    """Until one call tries it again."""
    claim_life: Seconds | None = Seconds(5.0)
    """How long a replica that stores a block keeps others from it; None lets each store at will."""
    found_life: Seconds = Seconds(0.5)
    """How long a lookup's hit answers the next lookup."""
    failed_life: Seconds = Seconds(10.0)
    """How long a block that could not be loaded is a miss."""


class Admits(Protocol):
    """Says which blocks are worth their bytes; called on the pool's threads."""

    def __call__(self, keys: Sequence[BlockKey], sizes: Sequence[int]) -> Sequence[bool]:
        """One verdict for each key; must not raise. sizes: payload bytes."""
        ...


class BlockPool:
    """Lookups and jobs over one namespace; every method may be called from any thread.

    A view that was handed in is the pool's until `finished` has told the end of its job.
    """

    def __init__(
        self,
        transport: BlockTransport,
        namespace: bytes,
        *,
        scope: bytes | None = None,
        secret: bytes = b"",
        codec: BlockCodec | None = None,
        settings: PoolSettings | None = None,
        admits: Admits | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Follow the epoch from now on; takes over the transport.

        scope: what is taken back together, the model's digest; the namespace without one.
        """
        self.settings = told = settings or PoolSettings()
        self._transport = transport
        self._clock = clock or SystemClock()
        self._shelf = Shelf(
            transport,
            namespace,
            secret=secret,
            codec=codec,
            claim_life=told.claim_life,
        )
        self.epochs = Epochs(transport, scope or namespace, self._clock, secret=secret)
        self._admits = admits
        self._tally = Tally()
        self._renewals = Renewals(
            transport,
            self._tally,
            most=told.ttl,
            deadline=told.store_deadline,
            clock=self._clock,
        )
        self._desk = Desk()
        self._guard = Guard(failures=told.failures, cooldown=told.cooldown, clock=self._clock)
        self._verdicts = Verdicts(
            self._clock, found_life=told.found_life, failed_life=told.failed_life
        )
        self._heads = bulkheads(
            "askonce-kv",
            lookup=told.lookup_threads,
            load=told.load_threads,
            store=told.store_threads,
            depth=told.depth,
        )
        self.epochs.start()

    def begin_lookup(self, request: str, keys: Sequence[BlockKey]) -> Lookup:
        """Ask which blocks are there; returns at once."""
        now = self._clock.monotonic()
        deadline = Seconds(now + self.settings.lookup_deadline)
        lookup = Lookup(request, tuple(keys), now, deadline)
        self._desk.open(lookup)
        epoch = self.epochs.current()
        if epoch is None:
            self._answer(lookup, ["stale"] * len(keys))
            return lookup
        known = self._verdicts.recall(lookup.keys, epoch)
        said: list[BlockOutcome] = [_RECALLED[verdict] for verdict in known]
        asked = [index for index, verdict in enumerate(known) if verdict is None]
        if not asked:
            self._answer(lookup, said)
        elif not self._guard.allows():
            self._answer(lookup, _with(said, asked, ["open"] * len(asked)))
        elif not self._heads["lookup"].offer(lambda: self._look(lookup, said, asked, epoch)):
            self._guard.abandoned()
            self._answer(lookup, _with(said, asked, ["busy"] * len(asked)))
        return lookup

    def poll(self, lookup: Lookup) -> list[bool] | None:
        """Whether each key is there, or None for not yet; never None after the deadline."""
        if lookup.answer is None and self._clock.monotonic() >= lookup.deadline:
            self._answer(lookup, ["late"] * len(lookup.keys))
        return lookup.answer

    def submit_load(
        self, job: int, request: str, keys: Sequence[BlockKey], views: Sequence[memoryview]
    ) -> None:
        """Load blocks into views, each of the block's exact size; returns at once."""
        self._submit("load", job, request, (keys, views))

    def submit_store(
        self,
        job: int,
        request: str,
        keys: Sequence[BlockKey],
        views: Sequence[memoryview],
        *,
        ttl: Seconds | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        """Store blocks from views, which must not change until the job has ended.

        ttl: their life where the store can renew it, at most that of the settings. auditor: holds
        what is there already against them.
        """
        self._submit("store", job, request, (keys, views), ttl=ttl, auditor=auditor)

    @property
    def renews(self) -> bool:
        """Whether the store can, as far as renewals have shown."""
        return self._renewals.possible

    def renew(self, keys: Sequence[BlockKey], lives: Sequence[Seconds]) -> None:
        """Let those that are stored live longer; returns at once, and may come to nothing."""
        epoch = self.epochs.current()
        wanted = keys and self._renewals.possible and self._guard.state == "closed"
        if wanted and epoch is not None:
            self._heads["store"].offer(
                lambda: self._renewals.renew(self._shelf.names(keys, epoch), lives)
            )

    def finished(self) -> list[Finished]:
        """The jobs that have ended since the last call, each told once; never blocks."""
        expired = self._desk.expire(self._clock.monotonic())
        for each in expired:
            if each.kind == "load":
                self.mark_failed(each.keys)
        self._count(expired)
        return self._desk.drain()

    def await_answer(self, lookup: Lookup, timeout: Seconds) -> None:
        """Wait until `poll` has an answer, or so long."""
        self._desk.await_answer(lookup, timeout)

    def await_end(self, timeout: Seconds) -> bool:
        """Wait until `finished` has something to tell, or so long; whether it has."""
        return self._desk.await_end(timeout)

    def abort(self, request: str) -> None:
        """The request ended or was preempted: drop what it waits for.

        A job that a thread is at ends by itself, within its deadline; all are told by `finished`.
        """
        self._count(self._desk.give_up(request, self._clock.monotonic()))

    def mark_failed(self, keys: Iterable[BlockKey]) -> None:
        """The engine could not use these: misses for a while, whatever a lookup has said."""
        epoch = self.epochs.current()
        if epoch is not None:
            self._verdicts.failed(keys, epoch)

    def unaudited(self, count: int) -> None:
        """So many blocks were to be audited, and could not be handed in."""
        self._tally.unaudited(count)

    def invalidate(self) -> int:
        """Take back everything of the scope, on every replica within a second; blocks.

        Returns the new epoch. Raises StoreError where the store cannot be told; this replica
        serves nothing old all the same.
        """
        self._verdicts.forget()
        return self.epochs.bump()

    def figures(self) -> PoolFigures:
        """A snapshot of all counters."""
        return self._tally.figures(
            pinned=self._desk.pinned(),
            open_lookups=self._desk.open_lookups(),
            breaker=self._guard.state,
            epoch=self.epochs.current(),
            epoch_age=self.epochs.age,
        )

    def close(self, timeout: Seconds = _PATIENCE) -> bool:
        """Wait for what is under way, then hang up; whether all ended in time."""
        self.epochs.close()
        ended = [head.close(timeout) for head in self._heads.values()]
        self._transport.close()
        return all(ended)

    def _look(self, lookup: Lookup, said: list[BlockOutcome], asked: list[int], epoch: int) -> None:
        began = self._clock.monotonic()
        if lookup.answer is not None or began >= lookup.deadline:
            self._guard.abandoned()
            self._answer(lookup, _with(said, asked, ["late"] * len(asked)))
            return
        keys = [lookup.keys[index] for index in asked]
        told = self._exists(keys, epoch, lookup.deadline)
        self._guard.tell(told, began)
        self._verdicts.seen((k for k, o in zip(keys, told, strict=True) if o == "done"), epoch)
        self._answer(lookup, _with(said, asked, told))

    def _exists(
        self, keys: Sequence[BlockKey], epoch: int, deadline: Seconds
    ) -> list[BlockOutcome]:
        try:
            return list(self._shelf.exists(keys, epoch=epoch, deadline=deadline))
        except Exception as error:  # noqa: BLE001 - a third party's transport; costs misses
            _log.error("a KV transport raised %s\n%s", type(error).__name__, places(error))
            return ["broken"] * len(keys)

    def _answer(self, lookup: Lookup, said: Sequence[BlockOutcome]) -> None:
        if self._desk.answer(lookup, [outcome == "done" for outcome in said]):
            seconds = self._clock.monotonic() - lookup.began
            self._tally.count("lookup", said, size=0, seconds=seconds)

    def _submit(
        self,
        kind: Kind,
        number: int,
        request: str,
        what: tuple[Sequence[BlockKey], Sequence[memoryview]],
        *,
        ttl: Seconds | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        keys, views = what
        now = self._clock.monotonic()
        span = self.settings.load_deadline if kind == "load" else self.settings.store_deadline
        epoch = self.epochs.current() if kind == "load" else self.epochs.latest or None
        flat = tuple(view.cast("B") for view in views)
        ends = Seconds(now + span)
        job = Job(
            number, kind, request, tuple(keys), flat, epoch, now, ends, ttl=ttl, auditor=auditor
        )
        self._desk.submit(job)
        if epoch is None:
            self._end(job, "stale")
        elif not self._guard.allows():
            self._end(job, "open")
        elif not self._heads[kind].offer(lambda: self._run(job, epoch)):
            self._guard.abandoned()
            self._end(job, "busy")

    def _run(self, job: Job, epoch: int) -> None:
        began = self._clock.monotonic()
        if not self._desk.start(job):
            self._guard.abandoned()
            return
        if began >= job.deadline:
            self._guard.abandoned()
            self._end(job, "late")
            return
        act = self._load if job.kind == "load" else self._store
        try:
            outcomes = act(job, epoch)
        except Exception as error:  # noqa: BLE001 - a third party's transport; costs misses
            _log.error("a KV transport raised %s\n%s", type(error).__name__, places(error))
            outcomes = ["broken"] * len(job.keys)
        self._guard.tell(outcomes, began)
        if job.kind == "load":
            self._verdicts.failed(_which(job.keys, outcomes, done=False), epoch)
        else:
            self._verdicts.stored(_which(job.keys, outcomes, done=True), epoch)
        self._count([self._desk.end(job, outcomes, self._clock.monotonic())])

    def _load(self, job: Job, epoch: int) -> list[BlockOutcome]:
        told = self._shelf.load(job.keys, job.views, epoch=epoch, deadline=job.deadline)
        self._tally.flawed(said[5:] for said in told if said.startswith("flaw_"))
        return told if self.epochs.current() == epoch else ["stale"] * len(told)

    def _store(self, job: Job, epoch: int) -> list[BlockOutcome]:
        if self.epochs.latest != epoch:
            return ["stale"] * len(job.keys)
        sizes = [view.nbytes for view in job.views]
        admitted = self._admits(job.keys, sizes) if self._admits else [True] * len(sizes)
        mine = [index for index, yes in enumerate(admitted) if yes]
        told = self._shelf.store(
            [job.keys[index] for index in mine],
            [job.views[index] for index in mine],
            epoch=epoch,
            ttl=self._renewals.life(job.ttl),
            deadline=job.deadline,
        )
        outcomes = _with(["declined"] * len(job.keys), mine, told)
        if job.auditor is not None:
            self._audit(job, job.auditor, outcomes, epoch)
        return outcomes

    def _audit(
        self, job: Job, auditor: Auditor, outcomes: Sequence[BlockOutcome], epoch: int
    ) -> None:
        blocks = zip(job.keys, job.views, outcomes, strict=True)
        there = [(key, view) for key, view, said in blocks if said == "present"]
        wrong = auditor.disagreeing(
            self._shelf, self._tally, there, epoch=epoch, deadline=job.deadline
        )
        self._verdicts.failed(wrong, epoch)
        if wrong and self.epochs.latest == epoch:
            auditor.act(len(wrong), self.invalidate)

    def _end(self, job: Job, outcome: BlockOutcome) -> None:
        told = [outcome] * len(job.keys)
        self._count([self._desk.end(job, told, self._clock.monotonic())])
        if job.kind == "load" and job.epoch is not None:
            self._verdicts.failed(job.keys, job.epoch)

    def _count(self, ended: Iterable[Finished | None]) -> None:
        for each in ended:
            if each is not None:
                self._tally.count(each.kind, each.outcomes, size=each.size, seconds=each.seconds)
                if each.audited:
                    self._tally.unaudited(sum(said in _UNTOLD for said in each.outcomes))


_RECALLED: dict[bool | None, BlockOutcome] = {True: "done", False: "failed_before", None: "missing"}
_UNTOLD = FAULTS | {"open", "busy", "cancelled", "stale"}
"""Ends of a store after which nobody knows whether there was something to be audited."""


def _with(
    said: Sequence[BlockOutcome], places: Sequence[int], told: Sequence[BlockOutcome]
) -> list[BlockOutcome]:
    """The outcomes with those at these places replaced."""
    changed = dict(zip(places, told, strict=True))
    return [changed.get(index, outcome) for index, outcome in enumerate(said)]


def _which(
    keys: Sequence[BlockKey], outcomes: Sequence[BlockOutcome], *, done: bool
) -> list[BlockKey]:
    return [key for key, said in zip(keys, outcomes, strict=True) if (said == "done") is done]
