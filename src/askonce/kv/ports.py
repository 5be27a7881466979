"""What the pool asks of a store for blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from askonce.units import Seconds

Outcome = Literal[
    "done",
    "missing",
    "present",
    "size",
    "full",
    "refused",
    "broken",
    "late",
    "down",
    "open",
]
"""What became of one key in a call.

`done`: it is there, was received whole, stored or removed. `missing`: it is not there. `present`:
not stored, since there is one already. `size`: what is stored has another size than asked for.
`full`: the store has no room. `refused`: it answered with an error. `broken`: it answered with what
is no answer. `late`: the deadline came first. `down`: no connection, or it was lost. `open`: not
asked, since the server failed too often lately.
"""

OUTCOMES: Final[tuple[Outcome, ...]] = (
    "done",
    "missing",
    "present",
    "size",
    "full",
    "refused",
    "broken",
    "late",
    "down",
    "open",
)
FAULTS: Final[frozenset[Outcome]] = frozenset({"refused", "broken", "late", "down"})
"""Those that speak against the server."""

Outcomes = list[Outcome]
"""One for each key, in the order of the keys."""

Buffer = bytes | bytearray | memoryview

Arrived = Callable[[int], None]
"""Takes the index of a key whose value has come."""


class BlockTransport(Protocol):
    """Moves bytes between buffers and a store; any number of threads may call at once.

    Blocking, and never by more than 10 ms past `deadline`, which is a moment of
    `SystemClock.monotonic`. Nothing is raised for what a store does: a call returns an outcome for
    each key. After it has returned, no buffer is touched any more. Buffers are contiguous bytes.
    A key has at most 240 bytes, none of them blank or a control.
    """

    def exists(self, keys: Sequence[bytes], *, deadline: Seconds) -> Outcomes:
        """Whether the keys are there, in one round trip."""
        ...

    def fetch(
        self,
        keys: Sequence[bytes],
        headers: Sequence[memoryview],
        payloads: Sequence[memoryview],
        *,
        deadline: Seconds,
        arrived: Arrived | None = None,
    ) -> Outcomes:
        """Receive each value into its two views, straight from the wire.

        A value must fill both exactly. Where the outcome is not `done` their content is undefined.
        arrived: may be called with the index of a key that is done, on the calling thread, while
        others are under way and its bytes are still in the processor's cache.
        """
        ...

    def put(
        self,
        keys: Sequence[bytes],
        headers: Sequence[Buffer],
        payloads: Sequence[Buffer],
        *,
        ttl: Seconds | None,
        deadline: Seconds,
        replace: bool = False,
    ) -> Outcomes:
        """Store header and payload as one value, each key whole or not at all.

        ttl: its life, at least a millisecond; None is for ever. replace: write over what is there;
        otherwise that is `present`. A put that is not `done` may have been stored all the same.
        """
        ...

    def delete(self, keys: Sequence[bytes], *, deadline: Seconds) -> Outcomes:
        """Remove the values; `missing` where there was none."""
        ...

    def close(self) -> None:
        """Let go of all connections; a call after that finds the store `down`."""
        ...


class SupportsFigures(Protocol):
    """A transport whose servers tell about themselves."""

    def servers(self, *, deadline: Seconds) -> Mapping[str, Mapping[str, str] | None]:
        """By address what each server says, in its own words; None where it says nothing."""
        ...


class SupportsPeek(Protocol):
    """A transport that can look at a value without knowing its size."""

    def peek(self, key: bytes, size: int, *, deadline: Seconds) -> bytes | None:
        """At most `size` first bytes; None where there is nothing, or no answer."""
        ...


class SupportsRenewal(Protocol):
    """A transport that can make what is stored live longer."""

    def renew(
        self, keys: Sequence[bytes], lives: Sequence[Seconds], *, deadline: Seconds
    ) -> Outcomes:
        """Let each live so long from now, never shorter than it would.

        `missing` where nothing is, or where it lives longer anyway.
        """
        ...
