"""What loading costs one engine and what it saves: the gate, admission and the ledger at work.

The gate decides nothing before the engine has shown how long a prefill takes: until then whatever
is found is loaded. A load is measured where no step of the engine ran meanwhile, since its end is
seen only between steps; where steps did run, one block is fetched beside the request now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from askonce.kv.curves import Curve
from askonce.kv.gate import Decision, Gate, Load, Offer
from askonce.kv.ledger import Ledger
from askonce.kv.prefill import PrefillModel, StoreModel
from askonce.kv.usage import Usage
from askonce.units import Bytes, Seconds, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from askonce.kv.admission import Admission, Sighting
    from askonce.kv.audit import Sample
    from askonce.ports import Clock

ECONOMY_METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "askonce_kv_prompt_tokens_total": (
        "source",
        "Tokens of prompts, `computed`, held by the engine (`local`) or from the `store`.",
    ),
    "askonce_kv_refused_loads_total": (
        "",
        "Requests with blocks in the store that were cheaper to compute.",
    ),
    "askonce_kv_ended_loads_total": (
        "",
        "Loads that ended; each delays one request.",
    ),
    "askonce_kv_lost_loads_total": (
        "",
        "Loads that made their request slower, or of which nothing could be used.",
    ),
    "askonce_kv_used_bytes_total": ("", "Bytes of loads that were used."),
    "askonce_kv_wasted_bytes_total": ("", "Bytes of loads that failed or came too late."),
    "askonce_kv_waited_seconds_total": ("", "Time from the decision to load to blocks at hand."),
    "askonce_kv_saved_seconds_total": ("", "Time to first token won by loads that won."),
    "askonce_kv_lost_seconds_total": ("", "Time to first token lost by loads that lost."),
    "askonce_kv_audited_hits_total": (
        "",
        "Requests with blocks in the store that were computed for an audit.",
    ),
    "askonce_kv_forgone_seconds_total": (
        "",
        "Time to first token that loads would have won for audited requests.",
    ),
    "askonce_kv_unadmitted_blocks_total": ("", "Blocks of prompts that were not worth storing."),
}
"""Name to labels and meaning."""
_ROUND_TRIP: Final = Seconds(0.002)
_BYTES_PER_SECOND: Final = 1e9
"""Believed of a store before its first loads."""
_UNKNOWN: Final = Seconds(0.0)
"""Time of a prefill that cannot be predicted yet."""
_BLIND: Final = 8
"""Loads that could not be measured between two probes."""


class Shape(NamedTuple):
    """The engine in numbers."""

    block_tokens: int
    block_bytes: int
    """Of all workers' shards."""
    slots: int
    """Requests that it runs at once."""


class _Loading(NamedTuple):
    decision: Decision
    size: Bytes
    began: Seconds
    ahead: Bytes
    worked: float
    """By the engine's steps before it began."""


class Economy:
    """For one engine; one thread calls."""

    def __init__(
        self,
        shape: Shape,
        clock: Clock,
        *,
        gated: bool = True,
        timed: bool = True,
        admission: Admission | None = None,
        curve: Curve | None = None,
        audit: Sample | None = None,
    ) -> None:
        """gated: what does not pay is not loaded. timed: one step ends before the next begins.

        curve: of prefills, where it is known before any was seen. audit: of hits.
        """
        self.ledger = Ledger()
        self.unadmitted = 0
        """Blocks that were not worth storing."""
        self._shape = shape
        self._clock = clock
        self._gated = gated
        self._timed = timed
        self._admission = admission
        self._audit = audit
        self._store = StoreModel(_ROUND_TRIP, _BYTES_PER_SECOND)
        self._gate = None if curve is None else Gate(PrefillModel(curve), self._store)
        self._engine, self._link = Usage(), Usage()
        self._loading: dict[str, _Loading] = {}
        self._link_since = Seconds(0.0)
        self._blind = 0
        self._step: tuple[Seconds, Sequence[tuple[int, int]]] | None = None
        self._running = 0
        self._worked = 0.0

    @property
    def idle(self) -> bool:
        """Whether no request ran in the last step."""
        return not self._running

    def choose(self, tokens: int, local: int, found: int) -> Decision:
        """What to load of so many blocks found behind `local` tokens; once for each request."""
        decision = self._gated_choice(tokens, local, found)
        if self._audit is None or not self._audit.chooses():
            return decision
        self.ledger.audit(decision)
        return msgspec.structs.replace(decision, blocks=0, size=Bytes(0), why="audited")

    def begin(self, request: str, decision: Decision, blocks: int) -> None:
        """Its load begins."""
        now = self._clock.monotonic()
        if not self._loading:
            self._link_since = now
        size = Bytes(blocks * self._shape.block_bytes)
        self._loading[request] = _Loading(decision, size, now, self._ahead(), self._worked)

    def end(self, request: str, *, usable: bool) -> bool:
        """Its load is over, if there was one; whether the store should be measured beside it."""
        loading = self._loading.pop(request, None)
        if loading is None:
            return False
        now = self._clock.monotonic()
        if not self._loading:
            self._link.add(now, now - self._link_since)
        took = Seconds(now - loading.began)
        if not usable:
            self.ledger.wasted(loading.size, took)
            return False
        busy = Seconds(self._worked - loading.worked)
        self._settle(loading, took, busy)
        if self._timed and not busy:
            self._store.observe(loading.size, took, ahead=loading.ahead)
            return False
        self._blind += 1
        return self._blind % _BLIND == 0

    def leave(self, request: str) -> None:
        """It is finished or was aborted, and a load of it is of no use."""
        self.end(request, usable=False)
        self._running = max(0, self._running - 1)

    def measured(self, size: Bytes, took: Seconds, *, ahead: Bytes | None = None) -> None:
        """A fetch was timed apart from the engine's steps; ahead: by default what loads now."""
        self._store.observe(size, took, ahead=self._ahead() if ahead is None else ahead)

    def step(self, prefills: Sequence[tuple[int, int]], running: int) -> None:
        """A step begins; prefills: tokens to compute and those before them, by request."""
        self._running = running
        self._step = (self._clock.monotonic(), prefills) if running and self._timed else None

    def stepped(self) -> None:
        """The step is over."""
        if self._step is None:
            return
        began, prefills = self._step
        self._step = None
        now = self._clock.monotonic()
        took = Seconds(now - began)
        self._worked += took
        if prefills:
            self._engine.add(now, took)
        if len(prefills) == 1 and prefills[0][0] >= self._shape.block_tokens:
            self._learn(*prefills[0], took)

    def see(self, hashes: Sequence[bytes]) -> Sighting | None:
        """Note a new request's blocks."""
        if self._admission is None:
            return None
        low = [int.from_bytes(each[-8:], "big") for each in hashes]
        return self._admission.see(low, self._clock.monotonic())

    def keep(self, sighting: Sighting | None, known: int) -> list[Seconds] | None:
        """For how long each of the leading blocks is worth storing; once for each request.

        None for all, as long as the pool keeps any. known: how many of them the store has.
        """
        if self._admission is None or sighting is None:
            return None
        lives = self._admission.keep(sighting, known)
        self.unadmitted += len(sighting.classes) - len(lives)
        return lives

    def samples(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Every metric as name, values of its labels in order, and value."""
        told = self.ledger
        for source in ("computed", "local", "store"):
            value = getattr(told, f"{source}_tokens")
            yield "askonce_kv_prompt_tokens_total", (source,), value
        yield "askonce_kv_refused_loads_total", (), told.refused
        yield "askonce_kv_ended_loads_total", (), told.loads
        yield "askonce_kv_lost_loads_total", (), told.lost
        yield "askonce_kv_used_bytes_total", (), told.bytes_read
        yield "askonce_kv_wasted_bytes_total", (), told.bytes_wasted
        yield "askonce_kv_waited_seconds_total", (), told.load_seconds
        yield "askonce_kv_saved_seconds_total", (), told.saved_seconds
        yield "askonce_kv_lost_seconds_total", (), told.lost_seconds
        yield "askonce_kv_audited_hits_total", (), told.audited
        yield "askonce_kv_forgone_seconds_total", (), told.forgone_seconds
        yield "askonce_kv_unadmitted_blocks_total", (), self.unadmitted

    def _gated_choice(self, tokens: int, local: int, found: int) -> Decision:
        size = Bytes(found * self._shape.block_bytes)
        if self._gate is None:
            return Decision(blocks=found, why="pays", compute=_UNKNOWN, load=_UNKNOWN, size=size)
        offer = Offer(
            tokens=Tokens(tokens),
            local=Tokens(local),
            found=found,
            block_tokens=Tokens(self._shape.block_tokens),
            block_bytes=Bytes(self._shape.block_bytes),
        )
        decision = self._gate.decide(offer, self._load())
        if not self._gated:
            return msgspec.structs.replace(decision, blocks=found, size=size, probe=False)
        if not decision.blocks:
            self.ledger.refuse()
        return decision

    def _settle(self, loading: _Loading, took: Seconds, busy: Seconds) -> None:
        """Into the ledger; busy: what the engine computed for others would have come first."""
        decision = loading.decision
        unknown = decision.compute == _UNKNOWN
        compute = max(busy, took) if unknown else decision.compute + busy
        told = msgspec.structs.replace(
            decision, compute=Seconds(compute), wait=busy, size=loading.size
        )
        self.ledger.loaded(told, took)

    def _learn(self, new: int, context: int, took: Seconds) -> None:
        busy = min(1.0, (self._running - 1) / self._shape.slots)
        if self._gate is None:
            seen = Curve(name="first seen", fixed=0.0, per_token=took / new, per_square=0.0)
            self._gate = Gate(PrefillModel(seen), self._store)
        self._gate.prefill.observe(Tokens(new), took, context=Tokens(context), busy=busy)

    def _load(self) -> Load:
        now = self._clock.monotonic()
        return Load(
            busy=min(1.0, self._running / self._shape.slots),
            ahead=self._ahead(),
            engine_use=self._engine.share(now),
            link_use=self._link.share(now),
        )

    def _ahead(self) -> Bytes:
        return Bytes(sum(each.size for each in self._loading.values()))
