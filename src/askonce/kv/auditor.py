"""Fetches what is stored and holds it against what was computed, on the pool's threads."""

from __future__ import annotations

import logging
import threading
from math import inf
from typing import TYPE_CHECKING, Literal

from askonce.clock import SystemClock
from askonce.errors import StoreError
from askonce.kv.buffers import Buffers
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.kv.audit import Comparison
    from askonce.kv.block import BlockKey
    from askonce.kv.figures import Tally
    from askonce.kv.shelf import Shelf
    from askonce.ports import Clock

Action = Literal["report", "invalidate"]
"""What a disagreement leads to: a count and a line in the log, or that and a new epoch."""
REST = 600.0
"""Seconds until one engine takes blocks back again: neither a writer who goes on nor an auditor in
the wrong is to keep the store empty."""
_AT_ONCE = 8 * 1024 * 1024
"""Bytes in one fetch."""
_log = logging.getLogger(__name__)


class Auditor:
    """Any number of threads may call."""

    def __init__(
        self, comparison: Comparison, *, action: Action = "report", clock: Clock | None = None
    ) -> None:
        """comparison: of the engine's blocks."""
        self._comparison = comparison
        self._action = action
        self._clock = clock or SystemClock()
        self._rests_until = Seconds(-inf)
        self._buffers = Buffers()
        self._lock = threading.Lock()

    def disagreeing(
        self,
        shelf: Shelf,
        tally: Tally,
        blocks: Sequence[tuple[BlockKey, memoryview]],
        *,
        epoch: int,
        deadline: Seconds,
    ) -> list[BlockKey]:
        """Those of the computed blocks that the store has otherwise; waits until the deadline."""
        wrong: list[BlockKey] = []
        size = max((view.nbytes for _, view in blocks), default=0)
        step = max(1, _AT_ONCE // max(1, size))
        for at in range(0, len(blocks), step):
            part = blocks[at : at + step]
            room = [self._buffers.lease(view.nbytes) for _, view in part]
            keys = [key for key, _ in part]
            told = shelf.load(keys, room, epoch=epoch, deadline=deadline)
            tally.flawed(said[5:] for said in told if said.startswith("flaw_"))
            for (key, view), stored, said in zip(part, room, told, strict=True):
                if said != "done":
                    tally.unaudited(1)
                elif not self._agrees(view, stored, tally):
                    wrong.append(key)
            self._buffers.give_back(room)
        return wrong

    def act(self, count: int, invalidate: Callable[[], int]) -> None:
        """So many blocks disagree; invalidate: takes back all of the epoch that they are of."""
        acts = self._action == "invalidate" and self._may_act()
        _log.error(
            "%d stored KV blocks are not what this engine computes%s",
            count,
            ": taking all of this model's blocks back" if acts else "",
        )
        if acts:
            try:
                invalidate()
            except StoreError as reason:
                _log.error("the store was not told that its KV blocks are void: %s", reason)

    def _may_act(self) -> bool:
        """Once in a while, whichever of the threads comes first."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._rests_until:
                return False
            self._rests_until = Seconds(now + REST)
            return True

    def _agrees(self, computed: memoryview, stored: memoryview, tally: Tally) -> bool:
        error = self._comparison.error(computed, stored)
        tally.audited(error, self._comparison.tolerance)
        return error <= self._comparison.tolerance
