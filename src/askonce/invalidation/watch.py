"""What this replica knows of the revocation log, and whether it may serve an entry by it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from askonce.errors import CacheFault
from askonce.policy.revocation import Revocations
from askonce.ports import Revocation, Selector
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.canonical.entry import Entry
    from askonce.ports import Clock, RevocationLog

log = logging.getLogger(__name__)

INTERVAL = Seconds(0.5)
"""Between two looks at the log: how long another replica may serve what was taken back."""
PAGE = 1000
"""Rules read at once."""


class Watch:
    """Follows the log. One that could not be read for `patience` seconds is no leave to serve."""

    def __init__(self, log: RevocationLog, *, clock: Clock, patience: Seconds) -> None:
        """Serve nothing before the first `refresh`."""
        self._log = log
        self._clock = clock
        self._patience = patience
        self._rules = Revocations()
        self._read_at = Seconds(float("-inf"))
        self._said: dict[str, str] = {}

    def said_by(self, by: str) -> str | None:
        """Why this one took something back last; None before it did."""
        return self._said.get(by)

    @property
    def stamp(self) -> int:
        """The newest rule that is known here, for entries to come."""
        return self._rules.last

    @property
    def rules(self) -> int:
        """How many different rules are in force."""
        return len(self._rules)

    @property
    def blind(self) -> bool:
        """Whether rules may have been made that are not known here."""
        return self._clock.monotonic() - self._read_at > self._patience

    def serves(self, entry: Entry) -> bool:
        """Whether nobody has taken the entry back."""
        return not self._rules.takes_back(entry) and not self.blind

    async def refresh(self) -> None:
        """Take what is new in the log; raises StoreError."""
        began = self._clock.monotonic()
        while True:
            known = self._rules.last
            page = await self._log.read(known, PAGE)
            if page.last < known:
                await self._log.append(self._lost())
            last = page.rules[-1].seq if page.rules else page.last
            self._said.update({rule.by: rule.why for rule in page.rules})
            self._rules.take(page.rules, birth=page.birth, last=last)
            if len(page.rules) < PAGE:
                break
        self._read_at = began

    def _lost(self) -> Revocation:
        """For a log that has lost rules which others may never have seen: all is taken back."""
        log.warning("the log of what was taken back has lost rules: all answers are taken back")
        return Revocation(what=Selector(), at=self._clock.now(), why="rules were lost")

    async def revoke(self, *rules: Revocation) -> int:
        """Add rules and obey them at once; returns the last one's number; raises StoreError."""
        seqs = [await self._log.append(rule) for rule in rules]
        await self.refresh()
        return seqs[-1]

    async def follow(self) -> None:
        """Take what is new again and again; runs until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                async with asyncio.timeout(self._patience):
                    await self.refresh()
            except (CacheFault, TimeoutError) as fault:
                log.debug("the revocation log cannot be read: %s", fault)
