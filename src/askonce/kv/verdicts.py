"""What lookups said a moment ago, and what loads have proved since."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from askonce.kv.block import BlockKey
    from askonce.ports import Clock
    from askonce.units import Seconds

_MOST = 65_536


class Verdicts:
    """Remembers keys for a while, so that a hit that cannot be loaded is not tried for ever."""

    def __init__(self, clock: Clock, *, found_life: Seconds, failed_life: Seconds) -> None:
        """found_life: of a key that is there. failed_life: of one that could not be loaded."""
        self._clock = clock
        self._found_life = found_life
        self._failed_life = failed_life
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[BlockKey, int], tuple[bool, float]] = OrderedDict()

    def recall(self, keys: Sequence[BlockKey], epoch: int) -> list[bool | None]:
        """True: is there; False: failed; None: ask the store."""
        now = self._clock.monotonic()
        with self._lock:
            said = [self._known.get((key, epoch), (None, now)) for key in keys]
        return [verdict if until > now else None for verdict, until in said]

    def seen(self, keys: Iterable[BlockKey], epoch: int) -> None:
        """A lookup says that these are there; what has failed to load stays failed all the same."""
        self._remember(keys, epoch, verdict=True, life=self._found_life, yields=True)

    def stored(self, keys: Iterable[BlockKey], epoch: int) -> None:
        """These are there, and good: they were stored just now."""
        self._remember(keys, epoch, verdict=True, life=self._found_life)

    def failed(self, keys: Iterable[BlockKey], epoch: int) -> None:
        """These could not be loaded: misses from now on, whatever a lookup has said."""
        self._remember(keys, epoch, verdict=False, life=self._failed_life)

    def forget(self) -> None:
        """All of it."""
        with self._lock:
            self._known.clear()

    def _remember(
        self,
        keys: Iterable[BlockKey],
        epoch: int,
        *,
        verdict: bool,
        life: Seconds,
        yields: bool = False,
    ) -> None:
        """yields: to what has failed."""
        now = self._clock.monotonic()
        until = now + life
        with self._lock:
            for key in keys:
                known, lasts = self._known.get((key, epoch), (None, now))
                if yields and known is False and lasts > now:
                    continue
                self._known[key, epoch] = (verdict, until)
                self._known.move_to_end((key, epoch))
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
