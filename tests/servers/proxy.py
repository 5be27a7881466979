"""A TCP proxy that makes trouble: between a client and a server, switched while they talk."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Trouble = Literal["none", "swallow", "slow", "garbage", "half", "hang up"]
"""`swallow`: takes everything and says nothing. `slow`: each piece of an answer comes late.
`garbage`: answers are bytes without sense. `half`: answers stop after their first bytes.
`hang up`: connections are closed at once."""


class Proxy:
    """Listens at a port of its own, and passes on what its trouble lets through."""

    def __init__(self, server_port: int, *, delay: float = 0.2) -> None:
        """delay: of each piece when slow, in seconds."""
        self._server = server_port
        self._delay = delay
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.settimeout(0.05)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.trouble: Trouble = "none"
        self._threads[0].start()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        """Let go of everything."""
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server:
            try:
                while not self._stop.is_set() and self.trouble != "hang up":
                    for ready in select.select([client, server], [], [], 0.02)[0]:
                        data = ready.recv(65_536)
                        if not data:
                            return
                        self._pass_on(data, client, server, from_client=ready is client)
            except OSError:
                return

    def _pass_on(
        self, data: bytes, client: socket.socket, server: socket.socket, *, from_client: bool
    ) -> None:
        if self.trouble == "swallow":
            return
        if from_client:
            server.sendall(data)
        elif self.trouble == "slow":
            self._stop.wait(self._delay)
            client.sendall(data)
        elif self.trouble == "garbage":
            client.sendall(b"\x00\xff garbage \r\n$99999999999999\r\n" + data[::-1])
        elif self.trouble == "half":
            client.sendall(data[: max(len(data) // 2, 1)])
            self._stop.wait(0.02)
            client.shutdown(socket.SHUT_RDWR)
        else:
            client.sendall(data)


@contextmanager
def proxy(server_port: int, *, delay: float = 0.2) -> Iterator[Proxy]:
    """A proxy for the time of a test."""
    made = Proxy(server_port, delay=delay)
    try:
        yield made
    finally:
        made.close()
