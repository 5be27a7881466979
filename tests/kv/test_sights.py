"""What replicas saw, as pages."""

from __future__ import annotations

import struct

import pytest

from askonce.kv.sights import PAGE_BYTES, Journal, read_page

FULL = (PAGE_BYTES - 4) // 8


def page(*parts: bytes) -> bytes:
    """These bytes, padded."""
    return b"".join(parts).ljust(PAGE_BYTES, b"\0")


def test_what_was_written_down_is_read() -> None:
    """In order, request by request, and once."""
    journal = Journal(2)
    journal.write_down([1, 2, (1 << 64) - 1])
    journal.write_down([])
    journal.write_down([3])
    (told,) = journal.drain()
    assert len(told) == PAGE_BYTES
    assert read_page(told) == [(1, 2, (1 << 64) - 1), (3,)]
    assert journal.drain() == []


def test_a_long_request_goes_on_on_the_next_page() -> None:
    """A full page ends without a mark."""
    journal = Journal(3)
    journal.write_down(list(range(1, FULL + 11)))
    first, second = (read_page(each) for each in journal.drain())
    assert first == [tuple(range(1, FULL + 1))]
    assert second == [tuple(range(FULL + 1, FULL + 11))]


def test_a_page_may_be_full_to_the_byte() -> None:
    """Then nothing marks its end."""
    journal = Journal(1)
    journal.write_down([7] * (FULL - 95))
    journal.write_down([8] * 95)
    (told,) = journal.drain()
    assert read_page(told) == [(7,) * (FULL - 95), (8,) * 95]


def test_a_full_journal_takes_no_more() -> None:
    """Until it is drained; what was left out is counted."""
    journal = Journal(1)
    journal.write_down([7] * FULL)
    journal.write_down([8, 9])
    assert journal.dropped == 2
    assert journal.drain() == [
        struct.pack(f"<I{FULL}Q", FULL, *[7] * FULL).ljust(PAGE_BYTES, b"\0")
    ]
    journal.write_down([8, 9])
    assert [read_page(each) for each in journal.drain()] == [[(8, 9)]]


@pytest.mark.parametrize(
    "told",
    [
        b"",
        bytes(PAGE_BYTES - 1),
        bytes(PAGE_BYTES + 8),
        page(struct.pack("<I", FULL + 1)),
        page(b"\xff" * 4),
        page(struct.pack("<IQI", 1, 5, 0), b"more"),
        b"\x01\0\0\0" * (PAGE_BYTES // 4),
    ],
)
def test_what_is_no_page_is_none(told: bytes) -> None:
    """Of another size, with counts beyond its end, or with anything behind its end."""
    assert read_page(told) is None


def test_an_empty_page_is_one() -> None:
    """Of no requests."""
    assert read_page(bytes(PAGE_BYTES)) == []
