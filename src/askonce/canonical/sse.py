"""Server-sent events, split without loss."""

from __future__ import annotations

import re
from typing import Final

_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?=[^\n]))")
"""Two ends of line in a row; a carriage return counts once it is sure that no newline follows."""
_OVERLAP: Final = 3
"""How much of a blank line of at most four bytes can lie before a piece."""


class EventSplitter:
    """Cuts a byte stream into whole events, wherever the pieces break.

    An event whose blank line ends in a lone carriage return is whole when its next byte comes.
    """

    __slots__ = ("_held", "_returns")

    def __init__(self) -> None:
        self._held = bytearray()
        self._returns = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that this piece completes, byte for byte with their blank line."""
        self._returns = self._returns or b"\r" in piece
        if not self._held and not self._returns and piece.find(b"\n\n") == len(piece) - 2 >= 0:
            return [piece]
        held = self._held
        seek = max(0, len(held) - _OVERLAP)
        held += piece
        events, start = [], 0
        while (end := self._end_of_event(seek)) >= 0:
            events.append(bytes(held[start:end]))
            start = seek = end
        del held[:start]
        return events

    def _end_of_event(self, seek: int) -> int:
        """Where the next blank line at or after `seek` ends, or -1."""
        if not self._returns:
            at = self._held.find(b"\n\n", seek)
            return at if at < 0 else at + 2
        found = _BLANK_LINE.search(self._held, seek)
        return found.end() if found else -1

    @property
    def tail(self) -> bytes:
        """Bytes of an event that has not ended."""
        return bytes(self._held)


def data_of(event: bytes) -> bytes | None:
    """The event's data lines joined, or None for a comment or an event without data."""
    if _is_plain(event):
        return event[6:-2]
    values = []
    for line in event.splitlines():
        name, _, value = line.partition(b":")
        if name == b"data":
            values.append(value.removeprefix(b" "))
    return b"\n".join(values) if values else None


def _is_plain(event: bytes) -> bool:
    """Whether it is one data line as nearly every engine writes it."""
    if not (event.startswith(b"data: ") and event.endswith(b"\n\n")):
        return False
    return event.find(b"\n") == len(event) - 2 and b"\r" not in event
