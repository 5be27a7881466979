"""A cluster of Redis or Valkey: which server has a slot is asked of them, and corrected by them."""

from __future__ import annotations

import binascii
import threading
from typing import TYPE_CHECKING

from askonce.clock import SystemClock
from askonce.kv.transports.exchange import drive
from askonce.kv.transports.inbox import (
    Garbage,
    Inbox,
    Reading,
    read_end,
    read_into,
    read_line,
    read_number,
)
from askonce.kv.transports.resp import RespTransport, command
from askonce.kv.transports.wire import Place
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.kv.transports.endpoint import Endpoint
    from askonce.kv.transports.inbox import Redirect

SLOTS = 16_384
_AGAIN = 1.0
"""Seconds between two askings for the whole map."""
_MOST = 65_536
"""Parts of an answer that are still believed."""
_clock = SystemClock()

Value = bytes | int | None | list["Value"]


def ClusterTransport(  # noqa: N802 - stands for a class
    places: Sequence[Place], endpoint: Callable[[Place], Endpoint], *, lanes: int = 1
) -> RespTransport:
    """A transport over the cluster that these servers belong to."""
    return RespTransport(SlotMap(places, endpoint), lanes=lanes)


def slot_of(key: bytes) -> int:
    """The slot of a key without a hash tag."""
    return binascii.crc_hqx(key, 0) % SLOTS


class SlotMap:
    """`Routes` by slot."""

    def __init__(self, places: Sequence[Place], endpoint: Callable[[Place], Endpoint]) -> None:
        """places: servers to ask first. endpoint: makes one for a place."""
        self._make = endpoint
        self._lock = threading.Lock()
        self._named = frozenset(places)
        self._servers = {place: endpoint(place) for place in places}
        self._slots: list[Endpoint] = [next(iter(self._servers.values()))] * SLOTS
        self._mapped = frozenset(self._slots)
        """Servers that have slots."""
        self._stale = True
        self._asked_at = float("-inf")

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """All servers that are known."""
        with self._lock:
            return list(self._servers.values())

    def route(self, key: bytes) -> Endpoint:
        """Of the key's slot."""
        return self._slots[slot_of(key)]

    def redirected(self, redirect: Redirect) -> Endpoint | None:
        """The named server; the map is asked for again before the next call."""
        self._stale = self._stale or not redirect.asking
        return self._server(Place(redirect.host, redirect.port)) if redirect.host else None

    def prepare(self, deadline: Seconds) -> None:
        """Ask for the map where it is known to be wrong, or may be: a dead server says no more."""
        doubtful = self._stale or not all(each.works for each in self._mapped)
        now = _clock.monotonic()
        with self._lock:
            if not doubtful or now - self._asked_at < _AGAIN:
                return
            self._asked_at = now
        for endpoint in sorted(self.endpoints, key=lambda each: not each.works):
            if endpoint.allows() and self._learn(endpoint, deadline):
                self._stale = False
                return

    def _learn(self, endpoint: Endpoint, deadline: Seconds) -> bool:
        told: list[Value] = []

        def read(inbox: Inbox) -> Reading[None]:
            told.append((yield from read_any(inbox)))

        began = _clock.monotonic()
        soon = Seconds(began + (deadline - began) / 2)
        try:
            exchange = endpoint.begin([command(b"CLUSTER", b"SLOTS")], read, soon)
        except OSError:
            endpoint.tell(works=False, began=began)
            return False
        drive([exchange], soon)
        endpoint.end(exchange)
        endpoint.tell(works=exchange.fault is None, began=began)
        return exchange.fault is None and self._take(told[0], endpoint.place)

    def _take(self, told: Value, asked: Place) -> bool:
        ranges = told if isinstance(told, list) else []
        slots = list(self._slots)
        for each in ranges:
            match each:
                case [int(first), int(last), [bytes(host), int(port), *_], *_] if (
                    0 <= first <= last < SLOTS
                ):
                    place = Place(host.decode("ascii", "replace") or asked.host, port)
                    slots[first : last + 1] = [self._server(place)] * (last + 1 - first)
                case _:
                    return False
        if ranges:
            self._adopt(slots)
        return bool(ranges)

    def _adopt(self, slots: list[Endpoint]) -> None:
        """Follow this map, and leave the servers that have no part in it."""
        mapped = frozenset(slots)
        with self._lock:
            self._slots, self._mapped = slots, mapped
            left = {
                place: each
                for place, each in self._servers.items()
                if each not in mapped and place not in self._named
            }
            for place in left:
                del self._servers[place]
        for each in left.values():
            each.close()

    def _server(self, place: Place) -> Endpoint:
        with self._lock:
            if place not in self._servers:
                self._servers[place] = self._make(place)
            return self._servers[place]


def read_any(inbox: Inbox, depth: int = 6) -> Reading[Value]:
    """Any answer of RESP2; raises Garbage for one that is too large or too deep."""
    line = yield from read_line(inbox)
    kind, rest = line[:1], line[1:]
    if kind in {b"+", b"-"}:
        return rest
    size = read_number(rest)
    if kind == b":":
        return size
    if size == -1:
        return None
    if kind not in {b"$", b"*"} or not 0 <= size <= _MOST or not depth:
        raise Garbage("no answer that was asked for")
    if kind == b"$":
        text = bytearray(size)
        yield from read_into(inbox, [memoryview(text)])
        yield from read_end(inbox)
        return bytes(text)
    parts: list[Value] = []
    for _ in range(size):
        parts.append((yield from read_any(inbox, depth - 1)))  # noqa: PERF401 - a generator
    return parts
