"""Several connections driven by one thread, until all is read or the time is over."""

from __future__ import annotations

import math
import select
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from askonce.clock import SystemClock
from askonce.kv.transports.inbox import Garbage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from askonce.kv.ports import Buffer, Outcome
    from askonce.kv.transports.inbox import Reading
    from askonce.kv.transports.wire import Wire
    from askonce.units import Seconds

_TURN = 4 * 1024 * 1024
"""Bytes that one connection may bring before the others, and the clock, are looked at."""
_AT_ONCE = 64
_clock = SystemClock()


class Window:
    """How many more questions may be sent before answers come: a server holds those ready."""

    __slots__ = ("free",)

    def __init__(self, free: int) -> None:
        """free: questions ahead of the first answer."""
        self.free = free


class Exchange:
    """What one connection has to send, and the reading of what it answers."""

    __slots__ = ("_into", "_out", "_reading", "_window", "fault", "over", "wire")

    def __init__(
        self, wire: Wire, out: Iterable[Buffer], reading: Reading[None], window: Window
    ) -> None:
        """Send nothing yet; each part of `out` takes a place in the window."""
        self.wire = wire
        self.fault: Outcome | None = None
        self.over = False
        self._out = deque(memoryview(part).cast("B") for part in out if len(part))
        self._reading = reading
        self._window = window
        self._into: list[memoryview] = []
        self._advance(None)

    @property
    def events(self) -> int:
        """What to poll for."""
        if not self.wire.is_open:
            return self.wire.wants
        return select.POLLIN | (select.POLLOUT if self._out and self._window.free > 0 else 0)

    def step(self, events: int) -> None:
        """Do what can be done now; never raises."""
        try:
            if not self.wire.opens():
                return
            if self._out:
                self._send()
            if events & ~select.POLLOUT:
                self._receive()
                if self._out:
                    self._send()
        except Garbage:
            self.fail("broken")
        except PermissionError:
            self.fail("refused")
        except OSError:
            self.fail("down")

    def fail(self, fault: Outcome) -> None:
        """Give up: the connection cannot be used again."""
        self.fault = fault
        self.over = True

    def stop(self) -> None:
        """Give up what is not over."""
        if not self.over:
            self.fail("late")

    def _send(self) -> None:
        while self._out and self._window.free > 0:
            sent = self.wire.send(list(islice(self._out, min(_AT_ONCE, self._window.free))))
            if not sent:
                return
            while sent:
                first = self._out[0]
                if first.nbytes > sent:
                    self._out[0] = first[sent:]
                    return
                sent -= first.nbytes
                self._out.popleft()
                self._window.free -= 1

    def _receive(self) -> None:
        brought = 0
        while not self.over and (brought < _TURN or self.wire.holds_bytes):
            came = self.wire.receive(self._into)
            if not came:
                break
            brought += came
            asked = sum(view.nbytes for view in self._into)
            self._advance(came)
            if came < asked and not self.wire.buffers_inside:
                break
        self.wire.expect(0 if self.over else self._into[0].nbytes)

    def _advance(self, came: int | None) -> None:
        try:
            self._into = next(self._reading) if came is None else self._reading.send(came)
        except StopIteration:
            self.over = True
            if self._out or not self.wire.inbox.empty:
                self.fault = "broken"


def drive(exchanges: Sequence[Exchange], deadline: Seconds) -> None:
    """Run them side by side; those that are not over at the deadline have failed as late.

    What has come by then is read all the same: a thread that got no processor is no slow server.
    """
    poller = select.poll()
    live: dict[int, Exchange] = {}
    for exchange in exchanges:
        exchange.step(select.POLLOUT)
        if not exchange.over:
            live[exchange.wire.fileno()] = exchange
            poller.register(exchange.wire, exchange.events)
    while live:
        left = max(deadline - _clock.monotonic(), 0)
        for number, events in poller.poll(math.ceil(left * 1000)):
            exchange = live[number]
            exchange.step(events)
            if exchange.over:
                poller.unregister(number)
                del live[number]
            else:
                poller.modify(number, exchange.events)
        if not left:
            break
    for exchange in live.values():
        exchange.fail("late")
