"""What an index on a server tells of its entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.events import Evicted, HeldBytes
from askonce.units import Bytes

if TYPE_CHECKING:
    from typing import Literal

    from askonce.ports import Sink


class Tally:
    """Emits events about one index; its size is that of its vectors alone."""

    def __init__(self, sink: Sink, dim: int) -> None:
        """Nothing counted yet."""
        self._sink = sink
        self._dim = dim
        self.entries = 0
        self.searches = 0

    def gone(self, cause: Literal["capacity", "expired", "cleared"], entries: int) -> int:
        """Tell that so many left, if any; returns the same number."""
        if entries > 0:
            self._sink.emit(Evicted(part="index", cause=cause, entries=entries))
        return entries

    def held(self, entries: int) -> None:
        """Tell how many there are."""
        self.entries = entries
        size = Bytes(entries * self._dim * 4)
        self._sink.emit(HeldBytes(part="index", size=size, entries=entries))

    def statistics(self) -> dict[str, float]:
        """Figures for `Statistics`."""
        return {"entries": self.entries, "searches": self.searches}
