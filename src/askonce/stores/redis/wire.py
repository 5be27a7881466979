"""One connection that many calls share: written together, answered in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from askonce.errors import MissingExtra, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

WAITING = 4096
"""Calls that may wait for their replies on one connection."""
UNSENT = 64 * 1024 * 1024
"""Bytes that may wait for the server to read them."""
LARGEST_REPLY = 512 * 1024 * 1024
"""Bytes of an unfinished reply, at which it is taken for garbage: no value can be longer."""
MOST_PARTS = 1 << 20
"""Parts that the aggregates of an unfinished reply may announce; the parser makes room for all of
them at once, so more are not even shown to it."""
LONGEST_LINE = 64 * 1024
"""Bytes of a line that has not ended, at which it is taken for garbage."""


class Refused(StoreError):
    """The server answered with an error."""

    def __init__(self, said: str) -> None:
        super().__init__(f"the server says: {said}")
        self.said = said
        self.code = said.partition(" ")[0]


def pack(*parts: bytes | str | int) -> bytes:
    """A command as the server reads it."""
    out = [b"*%d\r\n" % len(parts)]
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        out += (b"$%d\r\n" % len(raw), raw, b"\r\n")
    return b"".join(out)


class Headers:
    """Reads the lines between the values of a stream of replies, before a parser obeys them."""

    __slots__ = ("_begun", "_skip", "parts")

    def __init__(self) -> None:
        """Begin between two replies."""
        self.parts = 0
        """Announced since somebody set this to 0."""
        self._skip = 0
        self._begun = b""

    def read(self, data: bytes) -> None:
        """Look at the next bytes; raises ValueError for what no server says."""
        if self._begun:
            data, self._begun = self._begun + data, b""
        at, end = self._skip, len(data)
        while at < end:
            stop = data.find(b"\r\n", at)
            if stop < 0:
                if end - at > LONGEST_LINE:
                    raise ValueError("a line without end")
                self._begun = data[at:]
                break
            kind = data[at]
            if kind in _VALUES:
                size = int(data[at + 1 : stop])
                at = stop + 2 if size < 0 else stop + 4 + size
                continue
            if kind in _AGGREGATES:
                self.parts += max(int(data[at + 1 : stop]), 0)
                if self.parts > MOST_PARTS:
                    raise ValueError("a reply of too many parts")
            at = stop + 2
        self._skip = max(at - end, 0) if not self._begun else 0


_VALUES = frozenset(b"$=!")
_AGGREGATES = frozenset(b"*%~>|")


def need_parser() -> None:
    """Raise MissingExtra at the start, not in a task that connects, where nobody would see it."""
    try:
        import hiredis  # noqa: F401 - to be there is all
    except ImportError as error:
        raise MissingExtra("hiredis", "redis") from error


class Connection(asyncio.Protocol):
    """Matches replies to calls by their order alone, so anything odd closes it.

    A call that is given up keeps its place: its reply is dropped when it comes. What was being
    waited for when the connection is lost fails with StoreError; nothing is ever sent twice.
    """

    def __init__(self, pushed: Callable[[list[Any]], None]) -> None:
        """pushed: takes what the server says unasked."""
        import hiredis

        self._garbage = hiredis.HiredisError, ValueError, MemoryError
        self._push, self._error = hiredis.PushNotification, hiredis.ReplyError
        self._loop = asyncio.get_running_loop()
        self._pushed = pushed
        self._nothing = object()
        self._reader = hiredis.Reader(notEnoughData=self._nothing)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
        self._unread = 0
        self._heard = self._said = 0
        self._headers = Headers()
        self._transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[str] = self._loop.create_future()
        """Done, with the reason, when the connection is of no more use."""

    @property
    def waiting(self) -> int:
        """Calls without a reply."""
        return len(self._waiting)

    @property
    def moved(self) -> tuple[int, int, int]:
        """Bytes heard, bytes that left, and bytes that still wait for the server to read."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._heard, self._said - unsent, unsent

    def call(self, command: bytes) -> asyncio.Future[Any]:
        """Send a packed command with all others of this turn of the loop; its reply to be.

        Raises StoreError when too much waits or the connection is lost; the future raises Refused
        where the server answers with an error.
        """
        transport = self._transport
        if transport is None or self.lost.done():
            raise StoreError("the connection is lost")
        if len(self._waiting) >= WAITING or transport.get_write_buffer_size() > UNSENT:
            raise StoreError("too many calls wait for the store")
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(command)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def fail(self, reason: str) -> None:
        """Close at once; all that wait fail with the reason."""
        if self.lost.done():
            return
        self.lost.set_result(reason)
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            if not future.done():
                future.set_exception(StoreError(reason))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.fail(f"the connection broke: {type(exc).__name__}" if exc else "the server hung up")

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        reader, nothing = self._reader, self._nothing
        self._unread += len(data)
        self._heard += len(data)
        headers = self._headers
        try:
            headers.read(data)
            reader.feed(data)
            while (reply := reader.gets()) is not nothing:
                self._unread = headers.parts = 0
                if not self._take(reply):
                    return
        except self._garbage as error:
            self.fail(f"the server speaks garbage: {type(error).__name__}")
        if self._unread > LARGEST_REPLY:
            self.fail("the server speaks garbage: a reply without end")

    def _take(self, reply: object) -> bool:
        if isinstance(reply, self._push):
            self._pushed(cast("list[Any]", reply))
            return not self.lost.done()
        if not self._waiting:
            self.fail("the server speaks garbage: a reply to nothing")
            return False
        future = self._waiting.popleft()
        if not future.done():
            if isinstance(reply, self._error):
                future.set_exception(Refused(str(reply)))
            else:
                future.set_result(reply)
        return True

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None:
            said = out[0] if len(out) == 1 else b"".join(out)
            self._said += len(said)
            self._transport.write(said)
