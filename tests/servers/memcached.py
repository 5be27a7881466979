"""Memcached for tests."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tests.servers.process import Server, binary, free_port, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class Memcached(NamedTuple):
    """A running server."""

    server: Server
    port: int

    @property
    def url(self) -> str:
        """Over TCP."""
        return f"memcached://127.0.0.1:{self.port}"


def answers(port: int) -> bool:
    """Whether a server on this port tells its version."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as wire:
            wire.sendall(b"version\r\n")
            return wire.recv(64).startswith(b"VERSION")
    except OSError:
        return False


@contextmanager
def memcached(folder: Path, *, arguments: Sequence[str] = ()) -> Iterator[Memcached]:
    """A server on a free port."""
    port = free_port()
    user = ["-u", "nobody"] if os.getuid() == 0 else []
    program = binary("memcached", "debian/usr/bin/memcached")
    command: list[str | Path] = [
        program,
        "-l",
        "127.0.0.1",
        "-p",
        str(port),
        "-U",
        "0",
        *user,
        *arguments,
    ]
    with running(command, folder, lambda: answers(port)) as server:
        yield Memcached(server, port)


def cluster(
    stack: ExitStack, folder: Path, count: int, *, arguments: Sequence[str] = ()
) -> list[Memcached]:
    """Several servers, for as long as the stack is open."""
    servers = []
    for number in range(count):
        place = folder / f"memcached-{number}"
        place.mkdir()
        servers.append(stack.enter_context(memcached(place, arguments=arguments)))
    return servers


def url_of(servers: Sequence[Memcached]) -> str:
    """All of them as one store."""
    return f"memcached://{','.join(f'127.0.0.1:{each.port}' for each in servers)}"
