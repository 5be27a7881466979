"""One connection that never blocks: TCP, a socket file, either of them under TLS."""

from __future__ import annotations

import errno
import ipaddress
import select
import socket
import ssl
import threading
from typing import TYPE_CHECKING, NamedTuple

from askonce.clock import SystemClock
from askonce.kv.transports.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.units import Seconds

_AT_ONCE = 64
"""Buffers given to the kernel in one call."""
_LEAST = 256 * 1024
_FRESH = 30.0
"""Seconds for which the addresses of a name are taken as known."""
_CONNECTING = frozenset({0, errno.EINPROGRESS})
_clock = SystemClock()


Address = tuple[socket.AddressFamily, tuple[str, int]]


class Place(NamedTuple):
    """Where a server is."""

    host: str
    port: int
    path: str = ""
    """Of its socket file, instead of host and port."""

    def __str__(self) -> str:
        """As an operator writes it."""
        return self.path or (f"[{self.host}]" if ":" in self.host else self.host) + f":{self.port}"


class Wire:
    """A connection, from its first packet on; its owner polls it."""

    __slots__ = ("_context", "_host", "_least", "_socket", "inbox", "is_open", "wants")

    def __init__(self, wire: socket.socket, context: ssl.SSLContext | None, host: str) -> None:
        """Take over a socket that is connecting."""
        self._socket = wire
        self._context = context
        self._host = host
        self._least = 1
        self.inbox = Inbox()
        self.is_open = False
        self.wants = select.POLLOUT
        """What to poll for until it is open."""

    def fileno(self) -> int:
        """For a poller."""
        return self._socket.fileno()

    def opens(self) -> bool:
        """Go on with connecting; whether that is done. Raises OSError."""
        if not self.is_open:
            self.is_open = self._connects() and self._shakes_hands()
        return self.is_open

    def _connects(self) -> bool:
        failed = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            raise OSError(failed, "cannot connect")
        try:
            self._socket.getpeername()
        except OSError:
            return False
        return True

    def _shakes_hands(self) -> bool:
        if self._context is None:
            return True
        if not isinstance(self._socket, ssl.SSLSocket):
            self._socket = self._context.wrap_socket(
                self._socket, server_hostname=self._host or None, do_handshake_on_connect=False
            )
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self.wants = select.POLLIN
            return False
        except ssl.SSLWantWriteError:
            self.wants = select.POLLOUT
            return False
        return True

    @property
    def holds_bytes(self) -> bool:
        """Whether some wait where a poller does not see them."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    @property
    def buffers_inside(self) -> bool:
        """Whether bytes may wait where a poller does not see them."""
        return isinstance(self._socket, ssl.SSLSocket)

    def send(self, buffers: Sequence[memoryview]) -> int:
        """Send what goes now; returns how many bytes that was. Raises OSError."""
        try:
            if isinstance(self._socket, ssl.SSLSocket):
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers[:_AT_ONCE])
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0

    def receive(self, buffers: Sequence[memoryview]) -> int:
        """Receive what is there into the buffers; returns how much. Raises OSError at its end."""
        try:
            if isinstance(self._socket, ssl.SSLSocket):
                count = self._socket.recv_into(buffers[0])
            else:
                count = self._socket.recvmsg_into(buffers)[0]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        if not count:
            raise ConnectionResetError("the server hung up")
        return count

    def expect(self, count: int) -> None:
        """So many bytes are sure to come next: a poller need not be woken for a few of them."""
        least = min(count, _LEAST) if count >= _LEAST // 4 and self._context is None else 1
        if least != self._least:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
            self._least = least

    @property
    def silent(self) -> bool:
        """Whether an idle connection is as it was left: open, and without a word."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return self.inbox.empty and not poller.poll(0)

    def close(self) -> None:
        """Hang up at once."""
        self._socket.close()


class Dialler:
    """Begins connections to one place; a name is looked up on a thread of its own."""

    def __init__(self, place: Place, context: ssl.SSLContext | None = None) -> None:
        """Connect to nothing yet."""
        self._place = place
        self._context = context
        self._lock = threading.Lock()
        self._known = _literal(place)
        self._known_until = float("inf") if self._known else 0.0
        self._looking: threading.Event | None = None

    def dial(self, deadline: Seconds) -> Wire:
        """A connection that has begun; raises OSError, TimeoutError among them."""
        if self._place.path:
            return self._begin(socket.AF_UNIX, self._place.path)
        family, address = self._address(deadline)
        return self._begin(family, address)

    def failed(self) -> None:
        """A connection did not come about: try the name's next address first."""
        with self._lock:
            self._known = self._known[1:] + self._known[:1]

    def _begin(self, family: socket.AddressFamily, address: str | tuple[str, int]) -> Wire:
        wire = socket.socket(family, socket.SOCK_STREAM)
        try:
            wire.settimeout(0)
            if family != socket.AF_UNIX:
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            failed = wire.connect_ex(address)
        except OSError:
            wire.close()
            raise
        if failed not in _CONNECTING:
            wire.close()
            raise OSError(failed, "cannot connect")
        return Wire(wire, self._context, self._place.host)

    def _address(self, deadline: Seconds) -> Address:
        with self._lock:
            if self._known and _clock.monotonic() < self._known_until:
                return self._known[0]
            looking = self._looking or self._look_up()
            known = self._known
        if not known:
            looking.wait(max(deadline - _clock.monotonic(), 0))
            known = self._known
        if not known:
            raise TimeoutError(f"{self._place.host} has no address")
        return known[0]

    def _look_up(self) -> threading.Event:
        looking = threading.Event()
        try:
            threading.Thread(
                target=self._look, args=(looking,), name="askonce-kv-name", daemon=True
            ).start()
        except RuntimeError as reason:
            raise OSError(str(reason)) from None
        self._looking = looking
        return looking

    def _look(self, done: threading.Event) -> None:
        """`getaddrinfo` knows no deadline."""
        try:
            found = socket.getaddrinfo(
                self._place.host, self._place.port, type=socket.SOCK_STREAM, proto=0
            )
        except (OSError, ValueError):  # the latter for what can be no name
            found = []
        with self._lock:
            self._looking = None
            if found:
                self._known = tuple((each[0], (str(each[4][0]), int(each[4][1]))) for each in found)
                self._known_until = _clock.monotonic() + _FRESH
        done.set()


def _literal(place: Place) -> tuple[Address, ...]:
    """The address of a host that is one already."""
    try:
        version = ipaddress.ip_address(place.host).version
    except ValueError:
        return ()
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    return ((family, (place.host, place.port)),)
