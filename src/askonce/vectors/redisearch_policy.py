"""How RediSearch should look through a partition: by itself it compares all of a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.ports import Clock

EXPANSION = 200
"""Of the graph, for adding and searching: the server's own 10 finds only 95 of 100."""

_CROWD = 1_000
"""Items below which comparing all is quick enough."""
_SHARE = 0.2
"""Share of all items below which a graph over all would be searched in vain."""
_BATCH = 4
_KNOWN_FOR = Seconds(60.0)
_REMEMBERED = 4_096


class Policy:
    """What is known of the sizes of partitions, for a minute each."""

    def __init__(self, clock: Clock) -> None:
        """Nothing known yet."""
        self._clock = clock
        self._known: dict[bytes, tuple[Seconds, float]] = {}

    def share(self, partition: bytes) -> float | None:
        """Its share of all items, 0 when it is to be compared whole; None when not known."""
        until, share = self._known.get(partition, (Seconds(-1.0), 0.0))
        return share if self._clock.monotonic() < until else None

    def learn(self, partition: bytes, held: int, total: int) -> float:
        """Remember how many of all items a partition holds; returns its share."""
        share = held / total if held >= max(_CROWD, total * _SHARE) else 0.0
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[partition] = Seconds(self._clock.monotonic() + _KNOWN_FOR), share
        return share


def tuning(share: float, count: int) -> str:
    """What a search for so many candidates adds to its query."""
    if not share:
        return f" EF_RUNTIME {EXPANSION}"
    batch = round(_BATCH * count / share)
    return f" HYBRID_POLICY BATCHES BATCH_SIZE {batch} EF_RUNTIME {EXPANSION}"
