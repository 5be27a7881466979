"""Memcached's meta commands over one connection that all callers share.

Commands of callers that come together leave in one write, and answers come in the order of the
commands. Each command carries a number that a hit repeats: a server, or something in between, that
answers out of step loses the connection before a value can go to the wrong caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, cast

from askonce.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_LINE = 2048
LONGEST_VALUE = 128 * 1024 * 1024
"""Memcached's own bound is 1 GiB; nobody keeps answers of that size."""
MOST_WAITING = 8192
"""Commands that may wait for their answers."""
MOST_UNSENT = 64 * 1024 * 1024
"""Bytes that may wait to be written."""

_NUMBERS = 1 << 30
_KINDS = frozenset({b"HD", b"EN", b"NF", b"NS", b"EX", b"MN"})
_NUMBERED = frozenset({b"VA", b"HD"})
"""Old servers repeat no number where they found nothing."""
_SERVER_ERROR = b"SERVER_ERROR"


class ServerDown(StoreError):
    """The server cannot be reached, or does not talk sense."""


class Reply(NamedTuple):
    """One answer."""

    kind: bytes
    """`VA` with a value, `HD` done, `EN` and `NF` not found, `NS` not stored, `EX` changed,
    `MN` nothing, `SE` an error of the server's, whose words are the flags."""
    flags: bytes = b""
    value: bytes = b""


class Command(NamedTuple):
    """One request without its line's end."""

    line: bytes
    data: bytes | None = None


class _Batch:
    """The commands of one call, answered together."""

    __slots__ = ("began", "first", "future", "replies", "want")

    def __init__(self, first: int, want: int, began: float) -> None:
        self.first = first
        self.want = want
        self.began = began
        self.replies: list[Reply] = []
        self.future: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()


class Garbage(Exception):
    """Bytes that are no answer to what was asked."""


class Wire(asyncio.Protocol):
    """One connection; once `lost`, it stays so."""

    def __init__(self, patience: float) -> None:
        """patience: seconds without an answer after which the connection is given up."""
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._waiting: deque[_Batch] = deque()
        self._commands_waiting = 0
        self._number = 0
        self._pieces: list[bytes] = []
        self._held = 0
        self._need = 1
        self._watch: asyncio.TimerHandle | None = None
        self._due = 0.0
        self.lost: str | None = None
        """Why the connection is no more, or None while it is."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when it is lost."""

    async def ask(self, commands: Sequence[Command]) -> list[Reply]:
        """Send all and wait for all answers; raises ServerDown, and StoreError under overload."""
        if self.lost is not None or self._transport is None:
            raise ServerDown(self.lost or "not connected")
        if self._commands_waiting + len(commands) > MOST_WAITING:
            raise StoreError("too many commands wait for Memcached")
        if self._transport.get_write_buffer_size() > MOST_UNSENT:
            raise StoreError("too many bytes wait for Memcached")
        batch = _Batch(self._number, len(commands), self._loop.time())
        if not self._unsent:
            self._loop.call_soon(self._flush)
        for command in commands:
            self._unsent.append(b"%b O%d\r\n" % (command.line, self._number))
            if command.data is not None:
                self._unsent += (command.data, b"\r\n")
            self._number = (self._number + 1) % _NUMBERS
        self._waiting.append(batch)
        self._commands_waiting += batch.want
        if self._watch is None:
            self._look_in(self._patience)
        return await batch.future

    def give_up(self, why: str) -> None:
        """Drop the connection and fail all who wait."""
        if self.lost is not None:
            return
        self.lost = why
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.abort()
        for batch in self._waiting:
            if not batch.future.done():
                batch.future.set_exception(ServerDown(why))
                batch.future.exception()  # who waited may have left
        self._waiting.clear()
        self._unsent.clear()
        self._pieces.clear()
        if not self.gone.done():
            self.gone.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by shape alone

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.give_up("the connection broke" if exc else "the server closed the connection")

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._pieces.append(data)
        self._held += len(data)
        if self._held < self._need or self.lost is not None:
            return
        whole = data if len(self._pieces) == 1 else b"".join(self._pieces)
        try:
            rest = self._take(whole)
        except Garbage as garbage:
            self.give_up(f"the server does not speak Memcached's meta protocol: {garbage}")
            return
        self._pieces = [rest] if rest else []
        self._held = len(rest)

    def _flush(self) -> None:
        if self._transport is not None and self._unsent:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _take(self, data: bytes) -> bytes:
        """Hand out all whole answers; returns what is left, and notes how much it needs."""
        at = 0
        while at < len(data):
            end = data.find(b"\r\n", at, at + LONGEST_LINE)
            if end < 0:
                if len(data) - at >= LONGEST_LINE:
                    raise Garbage("an endless line")
                self._need = len(data) - at + 1
                return data[at:]
            line = data[at:end]
            after = end + 2
            value = b""
            if line.startswith(b"VA "):
                size = _size(line)
                if len(data) < after + size + 2:
                    self._need = after + size + 2 - at
                    return data[at:]
                value = data[after : after + size]
                after += size + 2
                if data[after - 2 : after] != b"\r\n":
                    raise Garbage("a value of another length than it says")
            self._answer(line, value)
            at = after
        self._need = 1
        return b""

    def _answer(self, line: bytes, value: bytes) -> None:
        if not self._waiting:
            raise Garbage("an answer to nothing")
        batch = self._waiting[0]
        kind, flags = _read(line)
        if kind != b"SE":
            flags, mark, number = flags.rpartition(b"O")
            own = b"%d" % ((batch.first + len(batch.replies)) % _NUMBERS)
            if number != own if mark else kind in _NUMBERED:
                raise Garbage("an answer out of step")
        batch.replies.append(Reply(kind, flags, value))
        if len(batch.replies) == batch.want:
            self._waiting.popleft()
            self._commands_waiting -= batch.want
            if not batch.future.done():
                batch.future.set_result(batch.replies)

    def _look(self) -> None:
        """Follow the oldest that waits; one timer is enough for all."""
        self._watch = None
        if not self._waiting:
            return
        now = self._loop.time()
        left = self._waiting[0].began + self._patience - now
        if now - self._due > self._patience / 2:  # the loop was busy: answers may lie there unread
            left = self._patience
        if left > 0:
            self._look_in(left)
        else:
            self.give_up(f"no answer for {self._patience:g} s")

    def _look_in(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        self._watch = self._loop.call_later(seconds, self._look)


def _size(line: bytes) -> int:
    size = line[3:].partition(b" ")[0]
    if not size.isdigit() or len(size) > 10 or int(size) > LONGEST_VALUE:
        raise Garbage("a value of no sane length")
    return int(size)


def _read(line: bytes) -> tuple[bytes, bytes]:
    kind, _, flags = line.partition(b" ")
    if kind == b"VA":
        return kind, flags.partition(b" ")[2]
    if kind in _KINDS:
        return kind, flags
    if kind == _SERVER_ERROR:
        return b"SE", flags
    raise Garbage("an unknown answer")
