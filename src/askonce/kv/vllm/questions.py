"""Lookups of a scheduler that asks key by key, gathered into one round trip for each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from askonce.kv.block import BlockKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from askonce.kv.jobs import Lookup
    from askonce.kv.pool import BlockPool
    from askonce.ports import Clock

    Worth = Callable[[str, Sequence[BlockKey], Sequence[bool]], bool]

_GROUP_BYTES = 4


@dataclass(slots=True)
class _Asked:
    """What one request wants to know."""

    waiting: dict[bytes, float] = field(default_factory=dict)
    """Keys that are not under way yet, and since when."""
    under_way: dict[bytes, tuple[Lookup, int]] = field(default_factory=dict)
    known: dict[bytes, bool] = field(default_factory=dict)


class Questions:
    """One thread calls; nothing here waits."""

    def __init__(self, pool: BlockPool, clock: Clock, worth: Worth | None = None) -> None:
        """worth: whether what was found for a request is to be loaded; always without it."""
        self._pool = pool
        self._clock = clock
        self._worth = worth
        self._asked: dict[str, _Asked] = {}

    @property
    def open(self) -> int:
        """Requests that have asked and not ended."""
        return len(self._asked)

    def ask(self, request: str, key: bytes) -> bool | None:
        """Whether the block is there; None for not yet, and never for longer than the deadline."""
        asked = self._asked.setdefault(request, _Asked())
        if key in asked.known:
            return asked.known[key]
        if key in asked.under_way:
            lookup, _ = asked.under_way[key]
            answer = self._pool.poll(lookup)
            if answer is not None:
                self._take(asked, lookup, answer)
            return asked.known.get(key)
        since = asked.waiting.setdefault(key, self._clock.monotonic())
        late = self._clock.monotonic() - since >= self._pool.settings.lookup_deadline
        return False if late else None

    def _take(self, asked: _Asked, lookup: Lookup, answer: list[bool]) -> None:
        worth = self._worth is None or self._worth(lookup.request, lookup.keys, answer)
        for key, (other, index) in list(asked.under_way.items()):
            if other is lookup:
                del asked.under_way[key]
                asked.known[key] = worth and answer[index]

    def send(self) -> None:
        """Send off what was asked since the last call."""
        for request, asked in self._asked.items():
            if asked.waiting:
                keys = list(asked.waiting)
                asked.waiting.clear()
                lookup = self._pool.begin_lookup(request, [block_key(key) for key in keys])
                asked.under_way.update((key, (lookup, index)) for index, key in enumerate(keys))

    def failed(self, keys: Iterable[bytes]) -> None:
        """These could not be loaded: misses, whatever was said before."""
        for key in keys:
            for asked in self._asked.values():
                if key in asked.known:
                    asked.known[key] = False

    def end(self, request: str) -> None:
        """The request is finished."""
        if self._asked.pop(request, None) is not None:
            self._pool.abort(request)

    def forget(self) -> None:
        """What was there may be there no more."""
        for request in list(self._asked):
            self._asked[request] = _Asked()


def block_key(key: bytes) -> BlockKey:
    """vLLM's offload key is the block's hash, then its group."""
    return BlockKey(bytes(key[:-_GROUP_BYTES]), int.from_bytes(key[-_GROUP_BYTES:], "big"))
