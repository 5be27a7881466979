"""Answers are read however they are cut, and what is no answer is refused."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.kv.transports.cluster import read_any
from askonce.kv.transports.inbox import Garbage, Inbox, Redirect, read_number
from askonce.kv.transports.memcached import _read_item, _read_status
from askonce.kv.transports.resp import read_value

if TYPE_CHECKING:
    from askonce.kv.transports.inbox import Reading, T


def fed(reading: Reading[T], inbox: Inbox, data: bytes, cuts: list[int]) -> tuple[T | None, bytes]:
    """What the reading says of the data in pieces, None where it wants more; and what is left."""
    try:
        into = next(reading)
        while data:
            size = max(1, cuts.pop() if cuts else 7)
            took = 0
            for view in into:
                piece = data[: min(size - took, view.nbytes)]
                view[: len(piece)] = piece
                data, took = data[len(piece) :], took + len(piece)
            into = reading.send(took)
    except StopIteration as end:
        return end.value, data
    return None, data


VALUE = bytes(range(256)) * 20
CUTS = st.lists(st.integers(1, 3000), max_size=40)


@given(CUTS)
def test_a_value_arrives_whole_however_it_is_cut(cuts: list[int]) -> None:
    """Header and payload go to their views, and nothing else is touched."""
    for wire, read in (
        (b"$%d\r\n%b\r\n" % (len(VALUE), VALUE), read_value),
        (b"VA %d f1\r\n%b\r\n" % (len(VALUE), VALUE), _read_item),
    ):
        header, payload = bytearray(192), bytearray(len(VALUE) - 192)
        inbox = Inbox()
        views = [memoryview(header), memoryview(payload)]
        assert fed(read(inbox, views), inbox, wire, list(cuts)) == ("done", b"")
        assert header + payload == VALUE
        assert inbox.empty


@given(CUTS, st.integers(0, 9000))
def test_a_value_of_another_size_is_left_out(cuts: list[int], size: int) -> None:
    """The connection is understood afterwards."""
    header = bytearray(192)
    wire = b"$%d\r\n%b\r\n" % (size, bytes(size))
    inbox = Inbox()
    told = fed(read_value(inbox, [memoryview(header)]), inbox, wire, list(cuts))
    assert told == ("done" if size == 192 else "size", b"")
    assert inbox.empty


@given(st.binary(max_size=300), CUTS)
def test_no_bytes_make_a_reading_fail_otherwise(data: bytes, cuts: list[int]) -> None:
    """An outcome, a wait for more, or Garbage; and never `done` without a value."""
    header, payload = bytearray(10), bytearray(4)
    for read in (read_value, _read_item):
        inbox = Inbox()
        views = [memoryview(header), memoryview(payload)]
        try:
            told, _ = fed(read(inbox, views), inbox, data, list(cuts))
        except (Garbage, Redirect):
            continue
        assert told != "done" or bytes(header + payload) in data


@given(st.binary(max_size=200))
def test_any_answer_is_bounded(data: bytes) -> None:
    """Nothing that a server says makes the reader fail in another way."""
    inbox = Inbox()
    with contextlib.suppress(Garbage):
        fed(read_any(inbox), inbox, data + b"\r\n", [])


@pytest.mark.parametrize(
    "wire",
    [
        b"$99999999999999999999\r\n",
        b"$-5\r\n",
        b"$70000000\r\n",
        b"$1x\r\n",
        b"hello\r\n",
        b"$14\r\n0123456789abcdXX\r\n",
        b"x" * 5000,
    ],
)
def test_garbage_is_told(wire: bytes) -> None:
    """Lengths that cannot be, lines without end, values that end elsewhere."""
    inbox = Inbox()
    with pytest.raises(Garbage):
        fed(read_value(inbox, [memoryview(bytearray(14))]), inbox, wire, [])


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (b"$-1\r\n", "missing"),
        (b"_\r\n", "missing"),
        (b"-OOM command not allowed\r\n", "full"),
        (b"-WRONGTYPE Operation\r\n", "size"),
        (b"-LOADING Redis is loading\r\n", "refused"),
    ],
)
def test_what_redis_says_besides(wire: bytes, said: str) -> None:
    """Errors and absences have outcomes of their own."""
    inbox = Inbox()
    assert fed(read_value(inbox, [memoryview(bytearray(4))]), inbox, wire, []) == (said, b"")


def test_a_redirect_names_its_server() -> None:
    """MOVED and ASK."""
    inbox = Inbox()
    with pytest.raises(Redirect) as told:
        fed(read_value(inbox, []), inbox, b"-ASK 3999 127.0.0.1:6381\r\n", [])
    assert (told.value.host, told.value.port, told.value.asking) == ("127.0.0.1", 6381, True)


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (b"HD\r\n", "done"),
        (b"EN\r\n", "missing"),
        (b"NF\r\n", "missing"),
        (b"NS\r\n", "present"),
        (b"SERVER_ERROR out of memory storing object\r\n", "full"),
        (b"SERVER_ERROR object too large for cache\r\n", "full"),
        (b"SERVER_ERROR busy\r\n", "refused"),
    ],
)
def test_what_memcached_says(wire: bytes, said: str) -> None:
    """Each status has its outcome."""
    inbox = Inbox()
    assert fed(_read_status(inbox, 0), inbox, wire, []) == (said, b"")


@pytest.mark.parametrize("wire", [b"CLIENT_ERROR bad data chunk\r\n", b"ERROR\r\n", b"HDX\r\n"])
def test_after_a_client_error_nothing_is_understood(wire: bytes) -> None:
    """The connection is dropped."""
    inbox = Inbox()
    with pytest.raises(Garbage):
        fed(_read_status(inbox, 0), inbox, wire, [])


def test_numbers() -> None:
    """Decimal, with a sign at most."""
    assert read_number(b"-12") == -12
    for text in (b"", b"-", b"1.5", b"+1", b"1" * 20):
        with pytest.raises(Garbage):
            read_number(text)
