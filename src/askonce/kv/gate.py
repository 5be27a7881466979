"""Load or compute: how many of the stored blocks are worth loading for one request.

Time to first token when k leading blocks are loaded, while `wait` seconds of other prefills stand
before this request in any case:

    max(wait, load(k)) + prefill(rest behind k)

Loading is linear in k and what prefill saves is convex in k, so the best k is none, all, or the
most that arrives before the engine is free. Three candidates, so a decision is O(1). What others
lose counts as well: a second of engine or link is charged once more for each second that it keeps
others waiting, by how busy that resource is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from askonce.units import Bytes, Seconds, Tokens

if TYPE_CHECKING:
    from askonce.kv.prefill import PrefillModel, StoreModel

Why = Literal["nothing-stored", "pays", "part-pays", "recompute", "audited"]
"""The engine has nothing to load; all or the first of it pays; computing is cheaper, or is done to
see whether what is stored is right."""

_MOST_CHARGED: Final = 3.0
_LONGEST: Final = 1 << 17
"""Tokens of a prefix."""


class Offer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request as the tier sees it."""

    tokens: Tokens
    """Of the whole prompt."""
    local: Tokens
    """Leading ones that the engine holds itself."""
    found: int
    """Blocks that the store has right behind those."""
    block_tokens: Tokens
    block_bytes: Bytes


class Load(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What engine and link are busy with."""

    wait: Seconds = Seconds(0.0)
    """Until the engine would begin with this request."""
    busy: float = 0.0
    """Share of the engine's slots in use, as `PrefillModel` counts it."""
    ahead: Bytes = Bytes(0)
    """Still to come for loads that began earlier."""
    engine_use: float = 0.0
    """Share of the time that the engine spent on prefill of late, 0 to 1."""
    link_use: float = 0.0
    """Share of the time that loads were under way of late, 0 to 1."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to do, and the times that say why."""

    blocks: int
    """Leading blocks to load; 0 computes everything."""
    why: Why
    compute: Seconds
    """Predicted time to first token when nothing is loaded."""
    load: Seconds
    """Predicted time to first token with the best choice that loads."""
    size: Bytes
    """Bytes to load."""
    wait: Seconds = Seconds(0.0)
    """For the engine, in any case."""
    rest: Seconds = Seconds(0.0)
    """Predicted prefill behind what is loaded."""
    probe: bool = False
    """Fetch one block beside the request, so that the store is measured again."""

    @property
    def saved(self) -> Seconds:
        """Predicted; 0 where nothing is loaded."""
        return Seconds(self.compute - self.load if self.blocks else 0.0)

    def explain(self) -> str:
        """One line for a log."""
        if self.why == "nothing-stored":
            return "nothing stored: compute"
        verb = f"load {self.blocks} blocks" if self.blocks else "compute"
        return f"{verb}: {1e3 * self.compute:.1f} ms computed, {1e3 * self.load:.1f} ms loaded"


class Gate:
    """Decides for one engine; deterministic given what its models have observed."""

    def __init__(
        self, prefill: PrefillModel, store: StoreModel, *, margin: float = 0.03, probe: int = 64
    ) -> None:
        """margin: share of the time without loading that must be won. probe: refusals between
        two probes, without which a store that became fast again would never be seen."""
        self.prefill = prefill
        self.store = store
        self._margin = margin
        self._probe = probe
        self._refused = 0

    def decide(self, offer: Offer, load: Load) -> Decision:
        """What to load for this request now."""
        most = min(offer.found, max(0, offer.tokens - offer.local - 1) // offer.block_tokens)
        compute = self._outcome(offer, load, 0)
        if not most:
            return _decision("nothing-stored", compute, compute, load)
        free = self._free(offer, load, most)
        choices = [self._outcome(offer, load, blocks) for blocks in (most, free) if blocks]
        best = min(choices, key=lambda choice: choice.cost)
        if compute.cost - best.cost <= self._margin * compute.work:
            self._refused += 1
            probe = self._refused % self._probe == 0
            return _decision("recompute", compute, best, load, probe=probe)
        return _decision("pays" if best.blocks == most else "part-pays", compute, best, load)

    def pays_from(self, block_tokens: Tokens, block_bytes: Bytes) -> Tokens | None:
        """The shortest prefix, in powers of two of a block, that an idle engine should load."""
        blocks = 1
        while blocks * block_tokens <= _LONGEST:
            tokens = blocks * block_tokens
            offer = Offer(
                tokens=Tokens(tokens + block_tokens),
                local=Tokens(0),
                found=blocks,
                block_tokens=block_tokens,
                block_bytes=block_bytes,
            )
            compute = self._outcome(offer, Load(), 0)
            loaded = self._outcome(offer, Load(), blocks)
            if loaded.time < compute.time * (1 - self._margin):
                return Tokens(tokens)
            blocks *= 2
        return None

    def _free(self, offer: Offer, load: Load, most: int) -> int:
        """Blocks that arrive while the engine is busy with others."""
        spare = load.wait - self.store.predict(Bytes(0), load.ahead)
        each = self.store.per_byte * offer.block_bytes
        if spare <= 0:
            return 0
        return most if spare >= most * each else int(spare / each)

    def _outcome(self, offer: Offer, load: Load, blocks: int) -> _Outcome:
        context = Tokens(offer.local + blocks * offer.block_tokens)
        work = self.prefill.predict(Tokens(offer.tokens - context), context, load.busy)
        charged = work * _charge(load.engine_use)
        if not blocks:
            return _Outcome(0, Bytes(0), work, load.wait + work, load.wait + work + charged)
        size = Bytes(blocks * offer.block_bytes)
        came = self.store.predict(size, load.ahead)
        if came > load.wait:
            charged += self.store.per_byte * size * _charge(load.link_use)
        time = max(load.wait, came) + work
        return _Outcome(blocks, size, work, time, time + charged)


class _Outcome(NamedTuple):
    """What loading so many blocks comes to."""

    blocks: int
    size: Bytes
    work: float
    """Prefill."""
    time: float
    """To first token."""
    cost: float
    """The same with what others lose."""


def _decision(
    why: Why, compute: _Outcome, best: _Outcome, load: Load, *, probe: bool = False
) -> Decision:
    loads = why in {"pays", "part-pays"}
    return Decision(
        blocks=best.blocks if loads else 0,
        why=why,
        compute=Seconds(compute.time),
        load=Seconds(best.time),
        size=best.size if loads else Bytes(0),
        wait=load.wait,
        rest=Seconds(best.work),
        probe=probe,
    )


def _charge(use: float) -> float:
    """Seconds that others wait for a second of a resource in such use."""
    return min(_MOST_CHARGED, use / (1.0 - use)) if use < 1.0 else _MOST_CHARGED
