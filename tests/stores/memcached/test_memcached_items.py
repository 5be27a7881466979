"""Names and bytes of items in Memcached."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from askonce.stores.memcached.items import (
    EPOCH_BYTES,
    Names,
    bloom,
    digest,
    pack,
    split,
    tag_digest,
    unpack,
)

EPOCH = b"e" * EPOCH_BYTES
TAGS = st.lists(
    st.tuples(
        st.binary(min_size=16, max_size=16),
        st.binary(min_size=EPOCH_BYTES, max_size=EPOCH_BYTES),
    ),
    max_size=4,
)


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_names_are_valid_and_their_own(one: bytes, other: bytes) -> None:
    """Any key has a name that Memcached takes, and no other key has it."""
    names = Names("n" * 64)
    allowed = set((string.ascii_letters + string.digits + "._-:").encode())
    for name in (names.entry(EPOCH, one), names.tag(EPOCH, tag_digest("é ")), names.epoch):
        assert len(name) <= 250
        assert set(name) <= allowed
    assert (names.entry(EPOCH, one) == names.entry(EPOCH, other)) == (one == other)


@given(st.binary(max_size=64), st.binary(max_size=300), st.floats(0, 1e10), TAGS)
def test_what_is_packed_comes_back(
    key: bytes, value: bytes, end: float, tags: list[tuple[bytes, bytes]]
) -> None:
    """Value, end and tags are as they were."""
    record = unpack(key, pack(key, value, expires_at=end, tags=tags))
    assert record is not None
    assert (record.inline, record.expires_at, list(record.tags)) == (value, end, tags)
    assert record.pieces == ()


@given(st.binary(min_size=1, max_size=300), st.integers(1, 50), TAGS)
def test_pieces_are_known_by_their_digests(
    value: bytes, size: int, tags: list[tuple[bytes, bytes]]
) -> None:
    """A long value's item says where its pieces are and what they must be."""
    pieces = split(value, size)
    assert b"".join(pieces) == value
    record = unpack(b"k", pack(b"k", pieces, expires_at=1.0, tags=tags, blob=7))
    assert record is not None
    assert (record.blob, record.pieces) == (7, tuple(map(digest, pieces)))


@given(st.data(), st.binary(max_size=100), TAGS)
def test_no_damage_goes_unnoticed(
    data: st.DataObject, value: bytes, tags: list[tuple[bytes, bytes]]
) -> None:
    """An item that is cut, longer, changed in a bit or another key's is none."""
    item = pack(b"k", value, expires_at=1.0, tags=tags)
    at = data.draw(st.integers(0, len(item) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    assert unpack(b"k", item[:at]) is None
    assert unpack(b"k", item + b"x") is None
    assert unpack(b"k", item[:at] + bytes([item[at] ^ bit]) + item[at + 1 :]) is None
    assert unpack(b"K", item) is None


@given(st.lists(st.text(max_size=20), max_size=8))
def test_flags_never_hide_a_tag(tags: list[str]) -> None:
    """A sweep that goes by the flags looks at every entry that has the tag."""
    digests = [tag_digest(tag) for tag in tags]
    assert all(bloom([each]) & bloom(digests) for each in digests)
