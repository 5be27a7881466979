"""Sealed blocks of one namespace in a store: what is not provably the right one is none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from askonce.clock import SystemClock
from askonce.kv.block import FLAWS, HEADER_BYTES, Sealer
from askonce.kv.buffers import Buffers
from askonce.kv.ports import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.block import BlockKey, Flaw
    from askonce.kv.codec import BlockCodec
    from askonce.kv.ports import BlockTransport, Outcomes
    from askonce.units import Seconds

BlockOutcome = str
"""An `Outcome` of the transport, a `Flaw` of what it brought, or one of `CAUSES`."""

Cause = Literal["claimed", "declined", "busy", "cancelled", "stale", "failed_before"]
CAUSES: Final[tuple[Cause, ...]] = (
    "claimed",
    "declined",
    "busy",
    "cancelled",
    "stale",
    "failed_before",
)
"""`claimed`: another replica is storing it. `declined`: admission said no. `busy`: too much is
under way. `cancelled`: its request ended. `stale`: the epoch changed, or is not known.
`failed_before`: it was there and could not be loaded a moment ago."""

ALL_OUTCOMES: Final[tuple[str, ...]] = (*OUTCOMES, *(f"flaw_{each}" for each in FLAWS), *CAUSES)


_GRACE = 0.005
"""Seconds past the deadline in which blocks that have come are still checked."""
_clock = SystemClock()


class Shelf:
    """Looks up, loads and stores, on the caller's thread; any number of threads may call."""

    def __init__(
        self,
        transport: BlockTransport,
        namespace: bytes,
        *,
        secret: bytes = b"",
        codec: BlockCodec | None = None,
        claim_life: Seconds | None = None,
    ) -> None:
        """namespace: 32 bytes. secret: see `Sealer`. codec: None keeps the engine's bytes.

        claim_life: how long a replica that stores a block keeps the others from doing so; None
        lets each store at will.
        """
        self._transport = transport
        self._sealer = Sealer(namespace, secret=secret)
        self._root = b"ak1:" + namespace.hex().encode()
        self._codec = codec
        self._claim_life = claim_life
        self._buffers = Buffers()
        self._me = os.urandom(16)

    def names(self, keys: Sequence[BlockKey], epoch: int) -> list[bytes]:
        """What the store calls them: at most 230 bytes, without blanks."""
        root = b"%b:%x:" % (self._root, epoch)
        return [b"%b%b.%d" % (root, key.hash.hex().encode(), key.group) for key in keys]

    def exists(self, keys: Sequence[BlockKey], *, epoch: int, deadline: Seconds) -> Outcomes:
        """Whether there is something under each key; only a load says whether it is any good."""
        return self._transport.exists(self.names(keys, epoch), deadline=deadline)

    def load(
        self,
        keys: Sequence[BlockKey],
        views: Sequence[memoryview],
        *,
        epoch: int,
        deadline: Seconds,
    ) -> list[BlockOutcome]:
        """Receive and check; where the outcome is not `done`, the view's content is undefined.

        What is flawed is removed from the store, so that a good one can take its place. Blocks
        that there is no time left to check are `late`.
        """
        names = self.names(keys, epoch)
        headers = [self._buffers.lease(HEADER_BYTES) for _ in keys]
        into = [self._room_for(view) for view in views]
        checked: dict[int, BlockOutcome] = {}

        def check(index: int) -> None:
            received = headers[index], into[index], views[index]
            checked[index] = self._checked(keys[index], received, epoch)

        told = self._transport.fetch(names, headers, into, deadline=deadline, arrived=check)
        outcomes: list[BlockOutcome] = []
        for index, outcome in enumerate(told):
            in_time = _clock.monotonic() <= deadline + _GRACE
            if outcome == "done" and index not in checked and in_time:
                check(index)
            outcomes.append(checked.get(index, "late") if outcome == "done" else outcome)
        self._buffers.give_back(headers)
        if self._codec is not None:
            self._buffers.give_back(into)
        bad = [name for name, said in zip(names, outcomes, strict=True) if _is_bad(said)]
        if bad:
            self._transport.delete(bad, deadline=deadline)
        return outcomes

    def store(
        self,
        keys: Sequence[BlockKey],
        views: Sequence[memoryview],
        *,
        epoch: int,
        ttl: Seconds | None,
        deadline: Seconds,
    ) -> list[BlockOutcome]:
        """Seal and store what is not there, and what nobody else is storing."""
        names = self.names(keys, epoch)
        outcomes: list[BlockOutcome] = list(self._transport.exists(names, deadline=deadline))
        outcomes = ["present" if said == "done" else said for said in outcomes]
        absent = [index for index, said in enumerate(outcomes) if said == "missing"]
        mine = self._claimed(names, absent, outcomes, deadline)
        if not mine:
            return outcomes
        payloads = [self._spelt(views[index]) for index in mine]
        spelling = "raw" if self._codec is None else self._codec.name
        headers = [
            self._sealer.seal(keys[index], payload, epoch=epoch, codec=spelling)
            for index, payload in zip(mine, payloads, strict=True)
        ]
        kept = [names[index] for index in mine]
        said = self._transport.put(kept, headers, payloads, ttl=ttl, deadline=deadline)
        for index, outcome in zip(mine, said, strict=True):
            outcomes[index] = outcome
        return outcomes

    def _claimed(
        self,
        names: Sequence[bytes],
        absent: Sequence[int],
        outcomes: list[BlockOutcome],
        deadline: Seconds,
    ) -> list[int]:
        """Which of the absent ones are this replica's to store."""
        if not absent or self._claim_life is None:
            return list(absent)
        said = self._transport.put(
            [names[index] + b"+" for index in absent],
            [self._me] * len(absent),
            [b""] * len(absent),
            ttl=self._claim_life,
            deadline=deadline,
        )
        for index, outcome in zip(absent, said, strict=True):
            outcomes[index] = "claimed" if outcome == "present" else outcome
        return [index for index in absent if outcomes[index] == "done"]

    def _room_for(self, view: memoryview) -> memoryview:
        if self._codec is None:
            return view
        return self._buffers.lease(self._codec.stored_bytes(view.nbytes))

    def _spelt(self, view: memoryview) -> memoryview:
        return view if self._codec is None else self._codec.encode(view)

    def _checked(
        self,
        key: BlockKey,
        received: tuple[memoryview, memoryview, memoryview],
        epoch: int,
    ) -> BlockOutcome:
        header, payload, view = received
        spelling = "raw" if self._codec is None else self._codec.name
        flaw: Flaw | None = self._sealer.check(header, payload, key, epoch=epoch, codec=spelling)
        if flaw is not None:
            return f"flaw_{flaw}"
        if self._codec is not None:
            self._codec.decode(payload, view)
        return "done"


def _is_bad(outcome: BlockOutcome) -> bool:
    """Whether what is stored there can never be loaded."""
    return outcome == "size" or outcome.startswith("flaw_")
