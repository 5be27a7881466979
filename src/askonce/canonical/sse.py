"""Server-sent events, split without loss."""

from __future__ import annotations


class EventSplitter:
    """Cuts a byte stream into whole events, wherever the pieces break."""

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that this piece completes, byte for byte with their blank line."""
        raise NotImplementedError

    @property
    def tail(self) -> bytes:
        """Bytes of an event that has not ended."""
        raise NotImplementedError


def data_of(event: bytes) -> bytes | None:
    """The event's data lines joined, or None for a comment or an event without data."""
    raise NotImplementedError
