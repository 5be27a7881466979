"""What the shared tier gave and what it took, losses included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from askonce.units import Bytes, Seconds, Tokens

if TYPE_CHECKING:
    from askonce.kv.gate import Decision


class Ledger(msgspec.Struct, kw_only=True):
    """Totals of one engine; the only mutable struct here, since it is nothing but its counters."""

    computed_tokens: int = 0
    local_tokens: int = 0
    store_tokens: int = 0
    """Used from the store after they were verified."""
    loads: int = 0
    bytes_read: int = 0
    """Verified and used."""
    bytes_wasted: int = 0
    """Read, and of no use: late, flawed, or for a request that was gone."""
    bytes_written: int = 0
    load_seconds: float = 0.0
    """From decision to blocks at hand."""
    saved_seconds: float = 0.0
    """Time to first token won by loads that won."""
    lost_seconds: float = 0.0
    """Time to first token lost by loads that lost."""
    lost: int = 0
    """Loads that made their request slower."""
    refused: int = 0
    """Requests with blocks in the store that were cheaper to compute."""
    audited: int = 0
    """Requests with blocks in the store that were computed for an audit."""
    forgone_seconds: float = 0.0
    """Time to first token that audited requests would have won; predicted, and no loss."""

    def request(self, *, local: Tokens, store: Tokens, computed: Tokens) -> None:
        """Count a request's prompt by where it came from."""
        self.local_tokens += local
        self.store_tokens += store
        self.computed_tokens += computed

    def refuse(self) -> None:
        """Count a request that the gate kept from loading."""
        self.refused += 1

    def audit(self, decision: Decision) -> None:
        """Count a request that is computed for an audit; decision: what it would have done."""
        self.audited += 1
        if decision.blocks:
            self.forgone_seconds += max(0.0, decision.compute - decision.load)

    def loaded(self, decision: Decision, took: Seconds) -> Seconds:
        """Count a load that was used and took so long; returns what it won, negative if it lost."""
        won = decision.compute - max(decision.wait, took) - decision.rest
        self.loads += 1
        self.bytes_read += decision.size
        self.load_seconds += took
        if won < 0:
            self.lost += 1
            self.lost_seconds -= won
        else:
            self.saved_seconds += won
        return Seconds(won)

    def wasted(self, size: Bytes, took: Seconds) -> None:
        """Count a load of which nothing could be used: all of it is lost."""
        self.loads += 1
        self.lost += 1
        self.bytes_wasted += size
        self.load_seconds += took
        self.lost_seconds += took

    def wrote(self, size: Bytes) -> None:
        """Count bytes stored."""
        self.bytes_written += size

    @property
    def net_seconds(self) -> Seconds:
        """Won less lost."""
        return Seconds(self.saved_seconds - self.lost_seconds)

    def plus(self, other: Ledger) -> Ledger:
        """The sum with another engine's."""
        names = self.__struct_fields__
        return Ledger(**{name: getattr(self, name) + getattr(other, name) for name in names})
