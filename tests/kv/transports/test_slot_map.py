"""A cluster whose servers come and go."""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from askonce.clock import SystemClock
from askonce.kv.transports import cluster
from askonce.kv.transports.cluster import SLOTS, SlotMap, slot_of
from askonce.kv.transports.endpoint import Endpoint
from askonce.kv.transports.resp import RespTransport
from askonce.kv.transports.wire import Place
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

HALF = SLOTS // 2
KEY = next(key for key in (b"k%d" % n for n in range(99)) if slot_of(key) >= HALF)


class _Node(socketserver.ThreadingTCPServer):
    """Has every key, and says of the cluster what it is told to."""

    daemon_threads = True
    halves: tuple[int, int] = (0, 0)
    """Ports of the two that have a half of the slots each."""
    asked = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.wires: list[socket.socket] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def slots(self) -> bytes:
        self.asked += 1
        ranges = zip((0, HALF), (HALF - 1, SLOTS - 1), self.halves, strict=True)
        told = [b"*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % each for each in ranges]
        return b"*2\r\n" + b"".join(told)


class _Talk(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        node = self.server
        assert isinstance(node, _Node)
        node.wires.append(self.request)
        while heard := self.request.recv(65536):
            self.request.sendall(node.slots() if b"CLUSTER" in heard else b":1\r\n")


@contextmanager
def _running() -> Iterator[_Node]:
    with _Node() as node:
        thread = threading.Thread(target=node.serve_forever, args=(0.01,))
        thread.start()
        yield node
        node.shutdown()
        for wire in node.wires:
            with suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_slots_of_a_server_that_is_gone_are_found_where_they_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that died redirects nobody: the others are asked who has its slots now."""
    monkeypatch.setattr(cluster, "_AGAIN", 0.0)
    with ExitStack() as stack:
        first, heir = stack.enter_context(_running()), stack.enter_context(_running())
        with _running() as lost:
            first.halves = (first.port, lost.port)
            routes = SlotMap([Place("127.0.0.1", first.port)], Endpoint)
            transport = RespTransport(routes)
            assert transport.exists([KEY], deadline=_soon()) == ["done"]
            assert _ports(routes) == {first.port, lost.port}
        first.halves = (first.port, heir.port)
        told = [transport.exists([KEY], deadline=_soon()) for _ in range(4)]
        assert told == [["down"]] * 3 + [["done"]]
        assert _ports(routes) == {first.port, heir.port}
        asked = first.asked
        assert transport.exists([KEY], deadline=_soon()) == ["done"]
        assert first.asked == asked
        transport.close()


def _ports(routes: SlotMap) -> set[int]:
    return {each.place.port for each in routes.endpoints}


def _soon() -> Seconds:
    return Seconds(SystemClock().monotonic() + 5.0)
