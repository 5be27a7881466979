"""One engine call for all replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class Lead(Protocol):
    """An engine call that this process makes for all replicas."""

    def tell(self, piece: bytes) -> None:
        """Hand on one more piece, in order; synchronous, never raises."""
        ...

    def end(self, *, kept: bool) -> None:
        """Nothing more comes; idempotent, synchronous, never raises.

        kept: the answer is about to be put, and whoever asks before it is there may still follow.
        """
        ...


@runtime_checkable
class Followed(Protocol):
    """An engine call that another replica makes."""

    async def read(self) -> Sequence[bytes]:
        """Pieces that were not read before, from the first on; none when the leader has ended.

        Raises StoreError when the leader is gone or cannot be heard.
        """
        ...

    def leave(self) -> None:
        """Read no more; idempotent."""
        ...


@runtime_checkable
class SupportsFlights(Protocol):
    """A store shared by processes that lets one of them make an engine call for all."""

    async def board(
        self, key: bytes, flight: bytes, *, look: bool
    ) -> bytes | Lead | Followed | None:
        """Lead the flight, follow its leader, or go alone (None); atomic.

        flight: 32 bytes; those who may share an answer have the same. look: give the key's live
        value instead when there is one. A leader that dies is replaced within two seconds; a put
        of the key by one that was replaced is left out.
        """
        ...
