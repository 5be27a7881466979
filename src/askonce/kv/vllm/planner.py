"""The scheduler's half of the connector: what to look up, to load and to store; never waits."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from askonce.errors import StoreError
from askonce.kv.block import BlockKey
from askonce.kv.jobs import NAP
from askonce.kv.vllm.adapters import bound
from askonce.units import Bytes, Seconds, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.kv.admission import Sighting
    from askonce.kv.gate import Decision
    from askonce.kv.jobs import Lookup
    from askonce.kv.pool import BlockPool
    from askonce.kv.vllm.adapters import Adapters
    from askonce.kv.vllm.economy import Economy

_LOOKUPS = 3
"""Of one request: a local hit may shrink while it waits, and then it asks anew."""
_log = logging.getLogger(__name__)


class Load(NamedTuple):
    """Blocks that a request waits for, and where they go."""

    request: str
    hashes: list[bytes]
    blocks: list[int]


class Plan(NamedTuple):
    """What the workers do in one step."""

    loads: list[Load]
    hashes: list[bytes]
    """Of the blocks that this step completes and that shall be stored."""
    blocks: list[int]
    epoch: int | None
    """In which those were computed."""
    lives: list[Seconds | None]
    """For how long to store each; None as the pool has it, and where none can be renewed: only the
    scheduler's pool learns that."""
    audits: list[tuple[bytes, int]]
    """Hashes and blocks as above, to be held against what the store has of them."""


class Rules(NamedTuple):
    """How the engine counts, and what the operator wants."""

    block_tokens: int
    ranks: int
    """Workers, each with a shard of every block."""
    min_blocks: int
    loads: bool = True
    stores: bool = True
    shard_bytes: int = 1
    """Of a block, as one worker has it."""


@dataclass(slots=True)
class _Following:
    """A request that the engine has and has not finished."""

    request: Any
    lookup: Lookup | None = None
    asked_from: int = 0
    """Block with which the lookup begins."""
    lookups: int = 0
    first: int = 0
    """Block with which a load would begin."""
    local: int | None = None
    """Blocks that the engine had itself, where the others are loaded."""
    load: Load | None = None
    barren: bool = False
    """A load has failed: this request asks no more."""
    blocks: list[int] = field(default_factory=list)
    """Its table, once it runs."""
    stored: int = 0
    """Blocks from its beginning that need no storing."""
    epoch: int | None = None
    """In which its first block was computed."""
    pure: bool = True
    """Everything it stands on was computed in its epoch."""
    loads_old: bool = False
    """What it loads was stored in an earlier one."""
    sighting: Sighting | None = None
    known: int = 0
    """Blocks from its beginning that the store has."""
    lives: list[Seconds] | None = None
    """Of the blocks from its beginning that are worth storing; None for all."""
    decision: Decision | None = None
    decided_on: tuple[int, int] = (0, 0)
    """First block and number of those found."""
    audited: bool = False
    """It computes what is stored, to be held against that."""

    @property
    def worth(self) -> int | None:
        """Blocks from its beginning that are worth storing; None for all, its answer's too."""
        if self.lives is None or self.sighting is None:
            return None
        return len(self.lives) if len(self.lives) < len(self.sighting.classes) else None

    def life(self, index: int) -> Seconds | None:
        """Of a block; what comes after the prompt lives as long as its end."""
        return self.lives[min(index, len(self.lives) - 1)] if self.lives else None


class Planner:
    """Follows all requests of one engine; one thread calls."""

    def __init__(self, pool: BlockPool, adapters: Adapters, rules: Rules, economy: Economy) -> None:
        """Follow nothing yet."""
        self._pool = pool
        self._adapters = adapters
        self._rules = rules
        self._economy = economy
        self._probes = 0
        """Under way."""
        self._requests: dict[str, _Following] = {}
        self._loads: list[Load] = []
        self._epoch: int | None = None
        self._old_blocks = False
        """The engine may still hold blocks of an earlier epoch."""
        self._forget: Callable[[], bool] | None = None
        self._rested = False
        """A nap was taken in this step."""

    @property
    def following(self) -> int:
        """Requests that have not finished."""
        return len(self._requests)

    def may_forget(self, forget: Callable[[], bool]) -> None:
        """How the engine's own prefix cache is emptied; False when it could not be."""
        self._forget = forget

    def begin(self, request: Any) -> None:  # noqa: ANN401 - vLLM's Request, in any version
        """The engine has a new request."""
        self._notice_epoch()
        self._forget_old_blocks()
        held = self._requests[request.request_id] = _Following(request)
        if self._rules.stores:
            held.sighting = self._economy.see(request.block_hashes)
        if getattr(request, "lora_request", None) is not None:
            self._adapters.meet(request.lora_request)

    def match(self, request: Any, computed: int) -> tuple[int | None, bool]:  # noqa: ANN401
        """Tokens beyond those computed that can be loaded, None for not yet; whether any can."""
        held = self._requests.get(request.request_id)
        if held is None or held.barren or not self._rules.loads:
            return 0, False
        first = computed // self._rules.block_tokens
        last = min((request.num_tokens - 1) // self._rules.block_tokens, len(request.block_hashes))
        if last - first < self._rules.min_blocks or not self._may_share(request):
            return 0, False
        if held.lookup is None or held.asked_from > first:
            self._look_up(held, first, last)
        held.first = first
        found = self._found(held)
        if found is None:
            return None, False
        worth = self._worth(held, found)
        return (worth * self._rules.block_tokens, True) if worth else (0, False)

    def allocated(self, request: Any, blocks: Sequence[int], tokens: int) -> None:  # noqa: ANN401
        """The engine has made room, and waits for `tokens` from here; none for 0."""
        held = self._requests.get(request.request_id)
        if held is None or not tokens:
            return
        count = tokens // self._rules.block_tokens
        first = held.local = held.first
        hashes = [self._hash(request, index) for index in range(first, first + count)]
        held.load = Load(request.request_id, hashes, list(blocks[first : first + count]))
        held.lookup = None
        self._loads.append(held.load)
        if held.decision is not None:
            self._economy.begin(request.request_id, held.decision, count)

    def plan(self, scheduled: Any) -> Plan:  # noqa: ANN401 - vLLM's SchedulerOutput
        """What the workers do in this step."""
        self._notice_epoch()
        self._take_probes()
        self._rested = False
        self._economy.step(_prefills(scheduled), len(scheduled.num_scheduled_tokens))
        loads, self._loads = self._loads, []
        plan = Plan(loads, [], [], self._epoch, [], [])
        for new in scheduled.scheduled_new_reqs:
            self._start(new.req_id, new.block_ids[0], new.num_computed_tokens)
            self._store(plan, new.req_id, new.num_computed_tokens, scheduled)
        known = scheduled.scheduled_cached_reqs
        for index, name in enumerate(known.req_ids):
            fresh, computed = known.new_block_ids[index], known.num_computed_tokens[index]
            if name in getattr(known, "resumed_req_ids", ()):
                self._start(name, fresh[0] if fresh else (), computed)
            elif fresh and name in self._requests:
                self._requests[name].blocks.extend(fresh[0])
            self._store(plan, name, computed, scheduled)
        return plan

    def stepped(self) -> None:
        """The workers are done with the step."""
        self._economy.stepped()

    def loaded(self, request: str, bad_blocks: set[int], *, failed: bool) -> None:
        """The workers are done with a request's load."""
        held = self._requests.get(request)
        if held is None or held.load is None:
            return
        load, held.load = held.load, None
        bad = [
            name
            for name, block in zip(load.hashes, load.blocks, strict=True)
            if failed or block in bad_blocks
        ]
        if self._economy.end(request, usable=not bad):
            self._probe(load.hashes[0])
        if bad:
            held.barren = True
            self._pool.mark_failed(key for name in bad for key in self._keys(name))

    def end(self, request: str) -> None:
        """The request is finished or was aborted; a load of it is for the workers to end."""
        self._requests.pop(request, None)
        self._economy.leave(request)
        self._pool.abort(request)

    def reset(self) -> bool:
        """The engine empties its caches: take back what is in the store; False if it cannot be."""
        self._distrust()
        try:
            self._epoch = self._pool.invalidate()
        except StoreError as reason:
            _log.error("the store was not told that its KV blocks are void: %s", reason)
            return False
        return True

    def _found(self, held: _Following) -> int | None:
        """Blocks that are there without a gap; None for not yet."""
        answer = self._answer(held.lookup) if held.lookup is not None else []
        if answer is None:
            return None
        ranks = self._rules.ranks
        begin = (held.first - held.asked_from) * ranks
        whole = [all(answer[at : at + ranks]) for at in range(begin, len(answer), ranks)]
        return [*whole, False].index(False)

    def _answer(self, lookup: Lookup) -> list[bool] | None:
        answer = self._pool.poll(lookup)
        if answer is None and self._economy.idle and not self._rested:
            self._rested = True
            self._pool.await_answer(lookup, NAP)
            answer = self._pool.poll(lookup)
        return answer

    def _worth(self, held: _Following, found: int) -> int:
        """How many of them to load; decided once, however often the engine asks."""
        if found:
            held.known = held.first + found
        if found < self._rules.min_blocks:
            return 0
        if held.decision is None or held.decided_on != (held.first, found):
            local = held.first * self._rules.block_tokens
            held.decision = self._economy.choose(held.request.num_tokens, local, found)
            held.decided_on = (held.first, found)
            held.audited = held.decision.why == "audited"
            if held.decision.probe:
                self._probe(self._hash(held.request, held.first))
        return held.decision.blocks

    def _probe(self, name: bytes) -> None:
        """Fetch a block to see how long it takes; what it holds is of no use."""
        self._probes += 1
        room = memoryview(bytearray(self._rules.shard_bytes))
        self._pool.submit_load(self._probes, "", [BlockKey(name, 0)], [room])

    def _take_probes(self) -> None:
        for ended in self._pool.finished() if self._probes else ():
            self._probes -= 1
            if ended.done:
                self._economy.measured(Bytes(ended.size), Seconds(ended.seconds))

    def _look_up(self, held: _Following, first: int, last: int) -> None:
        names = (self._hash(held.request, index) for index in range(first, last))
        keys = [key for name in names for key in self._keys(name)]
        held.asked_from = first
        held.lookups += 1
        if held.lookups > _LOOKUPS:
            keys = []
        held.lookup = self._pool.begin_lookup(held.request.request_id, keys)

    def _start(self, request: str, blocks: Sequence[int], computed: int) -> None:
        """It runs for the first time, or anew after it was preempted."""
        held = self._requests.get(request)
        if held is None:
            return
        first = computed // self._rules.block_tokens
        local = first if held.local is None else held.local
        if not held.blocks:
            self._count(held, local, computed)
        held.pure = not (held.loads_old or (self._old_blocks and local))
        held.blocks, held.stored, held.epoch = list(blocks), first, self._epoch
        held.lookup, held.lookups, held.local, held.loads_old = None, 0, None, False
        held.decision = None

    def _count(self, held: _Following, local: int, computed: int) -> None:
        """By where its prompt comes from, and what of it is worth storing: once for a request."""
        own = min(computed, local * self._rules.block_tokens)
        self._economy.ledger.request(
            local=Tokens(own),
            store=Tokens(computed - own),
            computed=Tokens(held.request.num_tokens - computed),
        )
        held.lives = self._economy.keep(held.sighting, held.known)
        if held.lives is not None and self._may_share(held.request):
            self._renew(held, max(held.known, computed // self._rules.block_tokens))

    def _renew(self, held: _Following, count: int) -> None:
        """Let the leading blocks live on that are stored, or were when they were computed."""
        told = [
            (key, life)
            for index, life in enumerate((held.lives or [])[:count])
            for key in self._keys(self._hash(held.request, index))
        ]
        self._pool.renew([key for key, _ in told], [life for _, life in told])

    def _store(self, plan: Plan, request: str, computed: int, scheduled: Any) -> None:  # noqa: ANN401
        held = self._requests.get(request)
        if held is None or not self._rules.stores or not self._may_share(held.request):
            return
        if not held.pure or plan.epoch is None or held.epoch != plan.epoch:
            held.pure = held.pure and held.epoch in {None, plan.epoch}
            return
        tokens = computed + scheduled.num_scheduled_tokens.get(request, 0)
        end = min(
            tokens // self._rules.block_tokens, len(held.request.block_hashes), len(held.blocks)
        )
        if held.worth is not None:
            end = min(end, held.worth)
        for index in range(held.stored, end):
            name = self._hash(held.request, index)
            if held.audited and index < held.known:
                plan.audits.append((name, held.blocks[index]))
                continue
            plan.hashes.append(name)
            plan.blocks.append(held.blocks[index])
            plan.lives.append(held.life(index) if self._pool.renews else None)
        held.stored = max(held.stored, end)

    def _may_share(self, request: Any) -> bool:  # noqa: ANN401
        adapter = getattr(request, "lora_request", None)
        return adapter is None or self._adapters.digest(adapter) is not None

    def _hash(self, request: Any, index: int) -> bytes:  # noqa: ANN401
        name = bytes(request.block_hashes[index])
        adapter = getattr(request, "lora_request", None)
        if adapter is None:
            return name
        digest = self._adapters.digest(adapter)
        return bound(name, digest) if digest is not None else name

    def _keys(self, name: bytes) -> list[BlockKey]:
        return [BlockKey(name, rank) for rank in range(self._rules.ranks)]

    def _notice_epoch(self) -> None:
        epoch = self._pool.epochs.current()
        if epoch is None or epoch == self._epoch:
            return
        if self._epoch is not None:
            self._distrust()
        self._epoch = epoch

    def _distrust(self) -> None:
        """What runs, and what the engine holds, was computed before."""
        self._old_blocks = True
        for held in self._requests.values():
            held.pure = held.pure and not held.blocks
            held.loads_old = held.local is not None

    def _forget_old_blocks(self) -> None:
        """Empty the engine's own prefix cache as soon as no request stands on it."""
        if self._old_blocks and self._forget is not None and not self._requests:
            self._old_blocks = not self._forget()


def _prefills(scheduled: Any) -> list[tuple[int, int]]:  # noqa: ANN401 - vLLM's SchedulerOutput
    """Tokens to compute and those before them, of each request that computes several."""
    known = scheduled.scheduled_cached_reqs
    computed = dict(zip(known.req_ids, known.num_computed_tokens, strict=True))
    computed |= {new.req_id: new.num_computed_tokens for new in scheduled.scheduled_new_reqs}
    told = scheduled.num_scheduled_tokens.items()
    return [(count, computed[name]) for name, count in told if count > 1 and name in computed]
