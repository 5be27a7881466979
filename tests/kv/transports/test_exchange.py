"""Connections that one thread drives, until their time is over."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

import pytest

from askonce.kv.transports.exchange import Exchange, Window, drive
from askonce.kv.transports.inbox import Inbox, Reading, read_end, read_into, read_line
from askonce.kv.transports.wire import Wire
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONG_OVER = Seconds(0.0)


@pytest.fixture
def server() -> Iterator[tuple[socket.socket, Wire]]:
    """The other end of a connection, and ours."""
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    yield theirs, Wire(ours, None, "")
    ours.close()
    theirs.close()


def _line(inbox: Inbox) -> Reading[None]:
    yield from read_line(inbox)


@pytest.mark.parametrize(("said", "fault"), [(b"+OK\r\n", None), (b"+O", "late"), (b"", "late")])
def test_what_came_before_the_deadline_is_read_after_it(
    server: tuple[socket.socket, Wire], said: bytes, fault: str | None
) -> None:
    """A thread that got no processor in time blames no server for it."""
    theirs, wire = server
    theirs.send(said)
    exchange = Exchange(wire, [b"PING\r\n"], _line(wire.inbox), Window(1))
    drive([exchange], LONG_OVER)
    assert exchange.over
    assert exchange.fault == fault


def test_a_turn_leaves_nothing_where_a_poller_does_not_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under TLS the end of a record waits inside, and nothing comes after the last one."""
    monkeypatch.setattr("askonce.kv.transports.exchange._TURN", 10)
    wire = _Inside(b"0123456789\r\n")
    room = memoryview(bytearray(10))

    def read() -> Reading[None]:
        yield from read_into(wire.inbox, [room[:4], room[4:]])
        yield from read_end(wire.inbox)

    exchange = Exchange(wire, [b"GET\r\n"], read(), Window(1))  # type: ignore[arg-type] # a fake
    exchange.step(select.POLLIN)
    assert (exchange.over, exchange.fault) == (True, None)
    assert bytes(room) == b"0123456789"


class _Inside:
    """A connection that has taken a whole record off its socket."""

    buffers_inside = True
    is_open = True

    def __init__(self, record: bytes) -> None:
        self.inbox = Inbox()
        self._record = record

    @property
    def holds_bytes(self) -> bool:
        return bool(self._record)

    def opens(self) -> bool:
        return True

    def send(self, buffers: Sequence[memoryview]) -> int:
        return sum(each.nbytes for each in buffers)

    def receive(self, buffers: Sequence[memoryview]) -> int:
        came = min(len(self._record), buffers[0].nbytes)
        buffers[0][:came], self._record = self._record[:came], self._record[came:]
        return came

    def expect(self, count: int) -> None:
        pass
