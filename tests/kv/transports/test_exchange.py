"""Connections that one thread drives, until their time is over."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from askonce.kv.transports.exchange import Exchange, Window, drive
from askonce.kv.transports.inbox import Inbox, Reading, read_line
from askonce.kv.transports.wire import Wire
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

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
