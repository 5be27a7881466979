"""The tier's loads as gate and ledger see them.

vLLM asks for all blocks of a prompt before any comes, so one answer of the store decides for all of
them. What the engine has itself is not known here, and counts as computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.block import BlockKey
    from askonce.kv.gate import Decision
    from askonce.kv.jobs import Finished
    from askonce.kv.pool import BlockPool
    from askonce.kv.vllm.economy import Economy, Shape


@dataclass(slots=True)
class _Promotion:
    """A request's load, in as many jobs as vLLM makes of it."""

    jobs: int = 0
    whole: bool = True


class Promotions:
    """For one engine; one thread calls."""

    def __init__(self, pool: BlockPool, economy: Economy, shape: Shape) -> None:
        """Nothing is under way."""
        self._pool = pool
        self._economy = economy
        self._shape = shape
        self._decided: dict[str, Decision] = {}
        self._open: dict[str, _Promotion] = {}
        self._ahead: dict[int, Bytes] = {}
        """Bytes under way when each job began."""
        self._under_way = 0
        self._probes = 0
        self._audited: set[str] = set()
        """Requests that compute what is stored, to be held against that."""

    def worth(self, request: str, keys: Sequence[BlockKey], answer: Sequence[bool]) -> bool:
        """Whether to load those of a request's blocks that were found."""
        found = [key for key, there in zip(keys, answer, strict=True) if there]
        if not found:
            return True
        tokens = (len(keys) + 1) * self._shape.block_tokens
        decision = self._economy.choose(tokens, 0, len(found))
        if decision.probe:
            self._probe(found[0])
        if decision.why == "audited":
            self._audited.add(request)
        if decision.blocks:
            self._decided[request] = decision
        return bool(decision.blocks)

    def begin(self, job: int, request: str, size: int) -> None:
        """A load job of a request begins."""
        self._ahead[job] = Bytes(self._under_way)
        self._under_way += size
        decision = self._decided.pop(request, None)
        if decision is not None and request not in self._open:
            self._open[request] = _Promotion()
            self._economy.begin(request, decision, decision.blocks)
        if request in self._open:
            self._open[request].jobs += 1

    def end(self, ended: Finished) -> bool:
        """A load job is over; whether it was vLLM's, and no probe."""
        whole = len(ended.done) == len(ended.keys)
        if whole:
            ahead = self._ahead.get(ended.id, Bytes(0))
            self._economy.measured(Bytes(ended.size), Seconds(ended.seconds), ahead=ahead)
        if self._ahead.pop(ended.id, None) is None:
            return False
        self._under_way -= len(ended.keys) * self._shape.block_bytes
        promotion = self._open.get(ended.request)
        if promotion is not None:
            promotion.jobs -= 1
            promotion.whole = promotion.whole and whole
            if not promotion.jobs:
                del self._open[ended.request]
                self._economy.end(ended.request, usable=promotion.whole)
        return True

    def forget(self, request: str) -> None:
        """It is finished; what is under way for it ends by itself."""
        self._decided.pop(request, None)
        self._audited.discard(request)

    def audits(self, request: str) -> bool:
        """Whether what this request computes is held against what is stored."""
        return request in self._audited

    def _probe(self, key: BlockKey) -> None:
        """Fetch a block to see how long it takes; what it holds is of no use."""
        self._probes += 1
        room = memoryview(bytearray(self._shape.block_bytes))
        self._pool.submit_load(-self._probes, "", [key], [room])
