"""Lives of stored blocks: told block by block, and renewed, where the store can do that."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from askonce.clock import SystemClock
from askonce.errors import places
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.figures import Tally
    from askonce.kv.ports import BlockTransport, SupportsRenewal
    from askonce.ports import Clock

_REFUSED = 60.0
"""Seconds for which a store that refused is not asked."""
_log = logging.getLogger(__name__)


class Renewals:
    """For one pool; any thread may call."""

    def __init__(
        self,
        transport: BlockTransport,
        tally: Tally,
        *,
        most: Seconds | None,
        deadline: Seconds,
        clock: Clock | None = None,
    ) -> None:
        """most: no block lives longer; None for no bound. deadline: seconds of a call."""
        able = hasattr(transport, "renew")
        self._transport = cast("SupportsRenewal", transport) if able else None
        self._tally = tally
        self._most = most
        self._deadline = deadline
        self._clock = clock or SystemClock()
        self._again = Seconds(0.0)
        """When a store that refused may be asked again."""

    @property
    def possible(self) -> bool:
        """Whether the store can do it."""
        return self._transport is not None and self._clock.monotonic() >= self._again

    def life(self, told: Seconds | None) -> Seconds | None:
        """What a block gets: where none can be renewed, as much as any."""
        if told is None or not self.possible:
            return self._most
        return self._bounded(told)

    def renew(self, names: Sequence[bytes], lives: Sequence[Seconds]) -> None:
        """Do it, on the caller's thread; a store that knows no such thing is left alone a while."""
        if self._transport is None or not self.possible:
            return
        began = self._clock.monotonic()
        bounded = [self._bounded(life) for life in lives]
        until = Seconds(began + self._deadline)
        try:
            told: Sequence[str] = self._transport.renew(names, bounded, deadline=until)
        except Exception as error:  # noqa: BLE001 - a third party's transport; costs misses
            _log.error("a KV transport raised %s\n%s", type(error).__name__, places(error))
            told = ["broken"] * len(names)
        now = self._clock.monotonic()
        if all(said == "refused" for said in told):
            self._again = Seconds(now + _REFUSED)
        self._tally.count("renew", told, size=0, seconds=now - began)

    def _bounded(self, life: Seconds) -> Seconds:
        return life if self._most is None else min(life, self._most)
