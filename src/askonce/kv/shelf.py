"""Sealed blocks of one namespace in a store: what is not provably the right one is none."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Literal

from askonce.kv.block import FLAWS, HEADER_BYTES, Sealer
from askonce.kv.ports import FAULTS, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.block import BlockKey, Flaw
    from askonce.kv.codec import BlockCodec
    from askonce.kv.ports import BlockTransport, Outcome, Outcomes
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


_AT_ONCE = 16 * 1024 * 1024


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
        self._headers = _Headers()
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

        What is flawed is removed from the store, so that a good one can take its place. So many
        bytes at once as a server may well hold ready for one connection; after a batch of which
        nothing came, the rest is not asked for.
        """
        outcomes: list[BlockOutcome] = []
        while len(outcomes) < len(keys):
            start = len(outcomes)
            stop = start + _within(views[start:], _AT_ONCE)
            batch = keys[start:stop], views[start:stop]
            told = self._loaded(batch, epoch=epoch, deadline=deadline)
            outcomes += told
            if all(said in FAULTS for said in told):
                outcomes += [told[-1]] * (len(keys) - stop)
        return outcomes

    def _loaded(
        self,
        batch: tuple[Sequence[BlockKey], Sequence[memoryview]],
        *,
        epoch: int,
        deadline: Seconds,
    ) -> list[BlockOutcome]:
        keys, views = batch
        names = self.names(keys, epoch)
        into = [self._room_for(view) for view in views]
        headers = self._headers.lease(len(keys))
        told = self._transport.fetch(names, headers, into, deadline=deadline)
        outcomes: list[BlockOutcome] = [
            self._checked(outcome, key, (header, payload, view), epoch)
            for outcome, key, header, payload, view in zip(
                told, keys, headers, into, views, strict=True
            )
        ]
        self._headers.give_back(headers)
        bad = [
            n
            for n, said in zip(names, outcomes, strict=True)
            if said == "size" or said[:5] == "flaw_"
        ]
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
        return memoryview(bytearray(self._codec.stored_bytes(view.nbytes)))

    def _spelt(self, view: memoryview) -> memoryview:
        return view if self._codec is None else self._codec.encode(view)

    def _checked(
        self,
        outcome: Outcome,
        key: BlockKey,
        received: tuple[memoryview, memoryview, memoryview],
        epoch: int,
    ) -> BlockOutcome:
        if outcome != "done":
            return outcome
        header, payload, view = received
        spelling = "raw" if self._codec is None else self._codec.name
        flaw: Flaw | None = self._sealer.check(header, payload, key, epoch=epoch, codec=spelling)
        if flaw is not None:
            return f"flaw_{flaw}"
        if self._codec is not None:
            self._codec.decode(payload, view)
        return "done"


def _within(views: Sequence[memoryview], most: int) -> int:
    """How many of the first views have no more bytes together; one at least."""
    count = held = 0
    for view in views:
        held += view.nbytes
        if count and held > most:
            break
        count += 1
    return count


class _Headers:
    """Room for headers, used over and over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: deque[memoryview] = deque(maxlen=4096)

    def lease(self, count: int) -> list[memoryview]:
        with self._lock:
            ready = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = memoryview(bytearray(HEADER_BYTES * (count - len(ready))))
        return ready + [fresh[at : at + HEADER_BYTES] for at in range(0, len(fresh), HEADER_BYTES)]

    def give_back(self, headers: Sequence[memoryview]) -> None:
        with self._lock:
            self._free.extend(headers)
