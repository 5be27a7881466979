"""A TCP relay before a store: lets bytes through, slows them, holds them back or cuts the line."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Mode = Literal["open", "slow", "late", "held", "cut", "closed"]
"""`late` holds each answer back for a while.

`held` and `cut` begin after the next `after` bytes; `closed` refuses new connections as well."""


class Weir:
    """One relay; its mode may change at any time."""

    def __init__(self, port: int) -> None:
        """port: of the server behind."""
        self._behind = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._mode: Mode = "open"
        self._after = 0
        self._rate = 0
        self._pause = 0.0
        self._lines: list[socket.socket] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Of a Redis behind it."""
        return f"redis://127.0.0.1:{self.port}"

    def set(self, mode: Mode, *, after: int = 0, rate: int = 0, pause: float = 0.0) -> None:
        """after: bytes from the store that still pass. rate: bytes a second where it is `slow`.

        pause: seconds before an answer where it is `late`.
        """
        self._mode, self._after, self._rate, self._pause = mode, after, rate, pause
        if mode in {"open", "closed"}:
            self._cut()

    def close(self) -> None:
        """Let nothing through any more."""
        self._closed = True
        self._listener.close()
        self._cut()

    def _cut(self) -> None:
        lines, self._lines = self._lines, []
        for line in lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            with contextlib.suppress(OSError):
                near, _ = self._listener.accept()
                if self._mode == "closed":
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._behind))
                self._lines += [near, far]
                asked = threading.Event()
                threading.Thread(target=self._ask, args=(near, far, asked), daemon=True).start()
                threading.Thread(target=self._answer, args=(far, near, asked), daemon=True).start()

    def _ask(self, source: socket.socket, sink: socket.socket, asked: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(16384):
                asked.set()
                sink.sendall(piece)
        self._part(source, sink)

    def _answer(self, source: socket.socket, sink: socket.socket, asked: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(16384):
                if asked.is_set() and self._mode == "late":
                    time.sleep(self._pause)
                asked.clear()
                self._wait(len(piece))
                sink.sendall(piece)
        self._part(source, sink)

    def _part(self, source: socket.socket, sink: socket.socket) -> None:
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _wait(self, size: int) -> None:
        if self._mode == "slow":
            time.sleep(size / self._rate)
        elif self._mode in {"held", "cut"}:
            self._after -= size
            if self._after < 0 and self._mode == "cut":
                raise OSError("the line is cut")
            while self._after < 0 and self._mode == "held":
                time.sleep(0.01)


@contextmanager
def weir(port: int) -> Iterator[Weir]:
    """A relay for the time of a test."""
    relay = Weir(port)
    try:
        yield relay
    finally:
        relay.close()
