"""Splitting server-sent events."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from askonce.canonical.sse import EventSplitter, data_of

STREAMS = st.lists(
    st.sampled_from([b"data: x", b":", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r\r", b"d"]),
    max_size=14,
).map(b"".join)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """The stream in pieces."""
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


def split(pieces: list[bytes]) -> tuple[list[bytes], bytes]:
    """All events of the pieces, and the tail."""
    splitter = EventSplitter()
    return [event for piece in pieces for event in splitter.feed(piece)], splitter.tail


@given(STREAMS, st.lists(st.integers(0, 100), max_size=8))
@example(b"data: x\r\n\r\ndata: y\r\n\r\n", [8, 9, 10])
@example(b"a\n\r\nb\r\n\nc", [1, 2, 3, 4, 5, 6])
def test_nothing_is_lost_and_cuts_make_no_difference(stream: bytes, places: list[int]) -> None:
    """Events and tail join to the stream, and are the same wherever it is cut."""
    events, tail = split(cut(stream, places))
    assert b"".join(events) + tail == stream
    assert (events, tail) == split([stream])


@pytest.mark.parametrize("blank", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n", b"\n\r"])
def test_every_blank_line_ends_an_event(blank: bytes) -> None:
    """All ends of line that the standard knows make a blank line, mixed ones too."""
    events, tail = split([b"data: a" + blank + b"data: b"])
    assert events == [b"data: a" + blank]
    assert tail == b"data: b"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_one_end_of_line_ends_nothing(end: bytes) -> None:
    """Lines of one event stay together."""
    events, tail = split([b"event: e" + end + b"data: a" + end + b"id: 1"])
    assert events == []
    assert tail.endswith(b"id: 1")


def test_a_blank_line_that_may_go_on_is_waited_for() -> None:
    """A carriage return at the end of a piece may be half an end of line."""
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\r\n\r") == []
    assert splitter.feed(b"\ndata: b\r\r") == [b"data: a\r\n\r\n"]
    assert splitter.tail == b"data: b\r\r"
    assert splitter.feed(b"d") == [b"data: b\r\r"]


def test_many_events_in_one_piece_and_one_in_many() -> None:
    """Pieces and events need not match."""
    assert split([b"a\n\nb\n\nc\n\n"]) == ([b"a\n\n", b"b\n\n", b"c\n\n"], b"")
    assert split([b"a", b"", b"\n", b"\n"]) == ([b"a\n\n"], b"")
    assert split([b""]) == ([], b"")


def test_a_piece_that_is_one_event_is_handed_on_as_it_is() -> None:
    """The common case copies nothing."""
    splitter, piece = EventSplitter(), b"data: x\n\n"
    (event,) = splitter.feed(piece)
    assert event is piece
    assert splitter.feed(b"\n\n") == [b"\n\n"]


class Counting(EventSplitter):
    """Counts how many bytes are looked through."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def _end_of_event(self, seek: int) -> int:
        self.seen += len(self._held) - seek
        return super()._end_of_event(seek)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_long_event_is_looked_through_once(end: bytes) -> None:
    """The work for an event in many pieces grows with its length, not with its square."""
    splitter = Counting()
    pieces = [b"data: " + b"x" * 90 + end] * 1000 + [end]
    events = [event for piece in pieces for event in splitter.feed(piece)]
    assert events == [b"".join(pieces)]
    assert splitter.seen < 2 * len(events[0])


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: x\n\n", b"x"),
        (b"data:x\n\n", b"x"),
        (b"data:  x\n\n", b" x"),
        (b"data: x\r\n\r\n", b"x"),
        (b"data: x\r\r", b"x"),
        (b"data: x", b"x"),
        (b"data: x\ny", b"x"),
        (b"data: a\rb\n\n", b"a"),
        (b"data: a\ndata: b\n\n", b"a\nb"),
        (b"data\n\n", b""),
        (b"data:\n\n", b""),
        (b"data: \n\n", b""),
        (b"\ndata: x\n\n", b"x"),
        (b"event: e\nid: 1\nretry: 5\ndata: x\n: c\n\n", b"x"),
        (b"data: a:b\n\n", b"a:b"),
        (b": ping\n\n", None),
        (b":\n\n", None),
        (b"event: ping\n\n", None),
        (b"database: x\n\n", None),
        (b"\n\n", None),
        (b"", None),
    ],
)
def test_data_of_an_event(event: bytes, data: bytes | None) -> None:
    """Data lines are joined, one space after the colon goes, all other lines are ignored."""
    assert data_of(event) == data
