"""How a connection begins."""

from __future__ import annotations

import errno
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from askonce.clock import SystemClock
from askonce.kv.transports.endpoint import Endpoint
from askonce.kv.transports.fleet import Rendezvous
from askonce.kv.transports.resp import RespTransport
from askonce.kv.transports.wire import Dialler, Place
from askonce.units import Seconds

if TYPE_CHECKING:
    from askonce.kv.transports.inbox import Inbox, Reading

FIRST, SECOND = ("127.0.0.2", 1), ("127.0.0.3", 1)


def test_what_can_be_no_name_has_no_address() -> None:
    """It fails as an unknown name does, before the deadline and each time."""
    dialler = Dialler(Place("a..b", 6379))
    for _ in range(2):
        began = SystemClock().monotonic()
        with pytest.raises(TimeoutError):
            dialler.dial(Seconds(began + 5.0))
        assert SystemClock().monotonic() - began < 4.0


def test_a_name_is_looked_up_again_after_no_thread_was_to_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that could start no thread for a moment finds its store afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        dialler = Dialler(Place("localhost", server.getsockname()[1]))
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", _refuse)
            with pytest.raises(OSError, match="thread"):
                dialler.dial(_soon())
        dialler.dial(_soon()).close()


def test_an_address_that_cannot_even_be_tried_makes_way_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one without a route does."""
    tried = []
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in (FIRST, SECOND)]

    def connect(_: socket.socket, address: tuple[str, int]) -> int:
        tried.append(address)
        return errno.ENETUNREACH

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    endpoint = Endpoint(Place("kv", 1))
    for _ in range(2):
        with pytest.raises(OSError, match="cannot connect"):
            endpoint.begin([b"x"], _nothing, _soon())
    assert tried == [FIRST, SECOND]


def _nothing(_: Inbox) -> Reading[None]:
    yield []


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def _soon() -> Seconds:
    return Seconds(SystemClock().monotonic() + 5.0)


def test_a_silent_server_takes_no_time_from_the_others() -> None:
    """What others tell of themselves is heard, wherever the silent one stands in the list."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):

        def answer() -> None:
            wire, _ = server.accept()
            with wire:
                wire.recv(100)
                wire.sendall(b"$5\r\nab:12\r\n")

        speaking = threading.Thread(target=answer)
        speaking.start()
        ports = [each.getsockname()[1] for each in (silent, server)]
        transport = RespTransport(
            Rendezvous([Endpoint(Place("127.0.0.1", port)) for port in ports])
        )
        told = transport.servers(deadline=Seconds(SystemClock().monotonic() + 0.2))
        speaking.join()
        transport.close()
    assert list(told.values()) == [None, {"ab": "12"}]
