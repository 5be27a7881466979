"""One server that holds blocks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from askonce.clock import SystemClock
from askonce.kv.transports.exchange import Exchange, Window
from askonce.kv.transports.inbox import Inbox, Reading
from askonce.kv.transports.wire import Dialler
from askonce.policy.breaker import Breaker
from askonce.units import Seconds

if TYPE_CHECKING:
    import ssl

    from askonce.kv.ports import Buffer
    from askonce.kv.transports.wire import Place, Wire

_IDLE = 16
"""Connections kept for the next call, at one server."""
UNBOUNDED = 1 << 62
_clock = SystemClock()

ReadAll = Callable[[Inbox], Reading[None]]


class Greeting(NamedTuple):
    """What a new connection says before anything else."""

    out: bytes
    reading: Callable[[Inbox], Reading[None]]


class Endpoint:
    """One server: its idle connections, and a breaker of its own."""

    def __init__(
        self,
        place: Place,
        *,
        greeting: Greeting | None = None,
        context: ssl.SSLContext | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        """Connect to nothing yet."""
        self.place = place
        self.seed = xxhash.xxh3_64_intdigest(str(place).encode())
        self._greeting = greeting
        self._dialler = Dialler(place, context)
        self._idle: deque[Wire] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._breaker = breaker or Breaker(failures=3, cooldown=Seconds(1.0))

    @property
    def works(self) -> bool:
        """Whether nothing speaks against it."""
        with self._lock:
            return self._breaker.state == "closed"

    def allows(self) -> bool:
        """Whether it may be asked now."""
        with self._lock:
            return not self._closed and self._breaker.allows(_clock.monotonic())

    def tell(self, *, works: bool | None, began: Seconds) -> None:
        """Count how a call went; None for one that says nothing about the server."""
        with self._lock:
            if works is None:
                self._breaker.abandoned()
            elif works:
                self._breaker.succeeded()
            else:
                self._breaker.failed(_clock.monotonic(), began=began)

    def begin(
        self, out: list[Buffer], reading: ReadAll, deadline: Seconds, window: Window | None = None
    ) -> Exchange:
        """An exchange over an idle connection, or a new one; raises OSError."""
        window = window or Window(UNBOUNDED)
        wire = self._leased()
        if wire is not None:
            return Exchange(wire, out, reading(wire.inbox), window)
        try:
            wire = self._dialler.dial(deadline)
        except OSError:
            self._dialler.failed()
            raise
        if self._greeting is None:
            return Exchange(wire, out, reading(wire.inbox), window)
        window.free += 1
        whole = [self._greeting.out, *out]
        return Exchange(wire, whole, _after(self._greeting, wire.inbox, reading), window)

    def end(self, exchange: Exchange) -> None:
        """Keep the connection for the next call, or drop it."""
        with self._lock:
            keep = exchange.fault is None and not self._closed and len(self._idle) < _IDLE
            if keep:
                self._idle.append(exchange.wire)
        if not keep:
            exchange.wire.close()
        if not exchange.wire.is_open:
            self._dialler.failed()

    def close(self) -> None:
        """Hang up; it is asked nothing any more."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for wire in idle:
            wire.close()

    def _leased(self) -> Wire | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                wire = self._idle.pop()
            if wire.silent:
                return wire
            wire.close()


def _after(greeting: Greeting, inbox: Inbox, reading: ReadAll) -> Reading[None]:
    yield from greeting.reading(inbox)
    yield from reading(inbox)
