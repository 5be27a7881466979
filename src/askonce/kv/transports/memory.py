"""A store in this process, for tests and for one engine alone; it can be told to misbehave."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from askonce.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.kv.ports import Arrived, Buffer, Outcome, Outcomes
    from askonce.ports import Clock
    from askonce.units import Seconds


class MemoryTransport:
    """A `BlockTransport` over a dictionary; the oldest values make room for new ones."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        max_bytes: int = 1 << 30,
        trouble: Callable[[str, bytes], Outcome | None] | None = None,
    ) -> None:
        """max_bytes: of all values. trouble: asked before each key by the call's name.

        What `trouble` returns stands in for what the store would have said.
        """
        self._clock = clock or SystemClock()
        self._max_bytes = max_bytes
        self._trouble = trouble
        self._values: OrderedDict[bytes, tuple[bytes, float]] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()
        self._closed = False

    def exists(self, keys: Sequence[bytes], *, deadline: Seconds) -> Outcomes:
        """Whether the keys are there."""
        return self._each("exists", keys, deadline, lambda i: self._found(keys[i]) is not None)

    def fetch(
        self,
        keys: Sequence[bytes],
        headers: Sequence[memoryview],
        payloads: Sequence[memoryview],
        *,
        deadline: Seconds,
        arrived: Arrived | None = None,
    ) -> Outcomes:
        """Copy each value into its two views."""

        def fill(index: int) -> Outcome | bool:
            value, header = self._found(keys[index]), headers[index]
            if value is None:
                return False
            if len(value) != header.nbytes + payloads[index].nbytes:
                return "size"
            header[:] = value[: header.nbytes]
            payloads[index][:] = value[header.nbytes :]
            if arrived is not None:
                arrived(index)
            return True

        return self._each("fetch", keys, deadline, fill)

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
        """Keep a copy of each value."""
        ends = float("inf") if ttl is None else self._clock.monotonic() + ttl

        def keep(index: int) -> Outcome | bool:
            if not replace and self._found(keys[index]) is not None:
                return "present"
            return self._keep(keys[index], bytes(headers[index]) + payloads[index], ends)

        return self._each("put", keys, deadline, keep)

    def delete(self, keys: Sequence[bytes], *, deadline: Seconds) -> Outcomes:
        """Remove the values."""
        return self._each("delete", keys, deadline, lambda i: self._removed(keys[i]))

    def renew(
        self, keys: Sequence[bytes], lives: Sequence[Seconds], *, deadline: Seconds
    ) -> Outcomes:
        """Move the ends of lives."""
        now = self._clock.monotonic()
        return self._each(
            "renew", keys, deadline, lambda i: self._prolonged(keys[i], now + lives[i])
        )

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._values.clear()
            self._held = 0

    def _each(
        self,
        name: str,
        keys: Sequence[bytes],
        deadline: Seconds,
        act: Callable[[int], Outcome | bool],
    ) -> Outcomes:
        """Do it for each key under the lock; a bool is `done` or `missing`."""
        outcomes: Outcomes = []
        for index, key in enumerate(keys):
            said = self._trouble(name, key) if self._trouble else None
            if said is None and self._clock.monotonic() >= deadline:
                said = "late"
            if said is None:
                with self._lock:
                    said = "down" if self._closed else _spoken(act(index))
            outcomes.append(said)
        return outcomes

    def _found(self, key: bytes) -> bytes | None:
        value, ends = self._values.get(key, (None, 0.0))
        if value is not None and ends <= self._clock.monotonic():
            self._removed(key)
            return None
        return value

    def _keep(self, key: bytes, value: bytes, ends: float) -> Outcome:
        if len(value) > self._max_bytes:
            return "full"
        self._removed(key)
        while self._held + len(value) > self._max_bytes:
            self._removed(next(iter(self._values)))
        self._values[key] = (value, ends)
        self._held += len(value)
        return "done"

    def _prolonged(self, key: bytes, ends: float) -> bool:
        value = self._found(key)
        if value is None or self._values[key][1] >= ends:
            return False
        self._values[key] = (value, ends)
        return True

    def _removed(self, key: bytes) -> bool:
        value, _ = self._values.pop(key, (None, 0.0))
        self._held -= len(value or b"")
        return value is not None


def _spoken(said: Outcome | bool) -> Outcome:  # noqa: FBT001 - what an act returns
    if isinstance(said, bool):
        return "done" if said else "missing"
    return said
