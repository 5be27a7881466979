"""Reading answers as they come: small parts through a buffer, payloads straight to their place.

A reading is a generator. It yields the buffers that the next bytes belong into, is sent how many
came, and returns what it has read. It never looks at a socket, so any order of bytes can be tried
on it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
Reading = Generator[list[memoryview], int, T]

_ROOM = 4096
_SCRATCH = 256 * 1024
_DRAINED = 64 * 1024 * 1024
"""An unwanted value longer than this costs the connection, not the time to read it."""


class Garbage(Exception):
    """The bytes are no answer: the connection cannot be understood any longer."""


class Redirect(Exception):
    """A whole answer that names another server for the key."""

    def __init__(self, host: str, port: int, *, asking: bool) -> None:
        """asking: for this one question alone. host: empty for the server that was asked."""
        super().__init__(f"{host}:{port}")
        self.host = host
        self.port = port
        self.asking = asking


class Inbox:
    """Bytes that one connection has brought and nobody has read."""

    __slots__ = ("_bytes", "_end", "_start", "_view")

    def __init__(self) -> None:
        """Empty."""
        self._bytes = bytearray(_ROOM)
        self._view = memoryview(self._bytes)
        self._start = 0
        self._end = 0

    @property
    def empty(self) -> bool:
        """Whether all was read."""
        return self._start == self._end

    def room(self) -> memoryview:
        """Where the next bytes go; raises Garbage when a line is longer than any can be."""
        if self._start:
            held = self._end - self._start
            self._bytes[:held] = self._bytes[self._start : self._end]
            self._start, self._end = 0, held
        if self._end == _ROOM:
            raise Garbage("an endless line")
        return self._view[self._end :]

    def filled(self, count: int) -> None:
        """So many bytes came into the room."""
        self._end += count

    def take_line(self) -> bytes | None:
        """The next line without its end, when it is there whole."""
        at = self._bytes.find(b"\r\n", self._start, self._end)
        if at < 0:
            return None
        line = bytes(self._bytes[self._start : at])
        self._start = at + 2
        return line

    def take_into(self, view: memoryview) -> int:
        """Move what is here into the view; returns how much that was."""
        count = min(view.nbytes, self._end - self._start)
        if not count:
            return 0
        view[:count] = self._view[self._start : self._start + count]
        self._start += count
        return count


def read_line(inbox: Inbox) -> Reading[bytes]:
    """The next line, without its end."""
    while (line := inbox.take_line()) is None:
        inbox.filled((yield [inbox.room()]))
    return line


def read_into(inbox: Inbox, views: Sequence[memoryview]) -> Reading[None]:
    """Fill the views to the last byte."""
    for view in views:
        at = inbox.take_into(view)
        while at < view.nbytes:
            came = yield [view[at:], inbox.room()]
            direct = min(came, view.nbytes - at)
            at += direct
            inbox.filled(came - direct)


def read_end(inbox: Inbox) -> Reading[None]:
    """The end of a value; raises Garbage for anything else."""
    if (yield from read_line(inbox)):
        raise Garbage("a value does not end where it should")


def read_past(inbox: Inbox, size: int) -> Reading[None]:
    """Leave a value out, with its end; raises Garbage when it is too long to wait for."""
    if not 0 <= size <= _DRAINED:
        raise Garbage("a value of a size that nobody asked for")
    scratch = memoryview(bytearray(min(size, _SCRATCH)))
    for at in range(0, size, _SCRATCH):
        yield from read_into(inbox, [scratch[: size - at]])
    yield from read_end(inbox)


def read_number(text: bytes) -> int:
    """A decimal number on the wire; raises Garbage."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19:
        raise Garbage("no number")
    return int(text)
