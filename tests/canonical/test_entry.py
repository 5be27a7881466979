"""Sealed entries."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.canonical.answer import Answer
from askonce.canonical.entry import _MAGIC, Entry, _digest, seal, unseal
from askonce.errors import EntryUnreadable
from askonce.units import Seconds, Tokens, UnixTime

KEY = hashlib.sha256(b"a").digest()
OTHER = hashlib.sha256(b"b").digest()
TIMES = st.floats(0, 4e9).map(UnixTime)
ENTRIES = st.builds(
    Entry,
    key=st.binary(min_size=32, max_size=32),
    answer=st.builds(
        Answer,
        rest=st.binary(max_size=50),
        id_prefix=st.text(max_size=9),
        prompt_tokens=st.integers(0, 2**40).map(Tokens),
        completion_tokens=st.integers(0, 2**40).map(Tokens),
    ),
    created_at=TIMES,
    exact_until=TIMES,
    semantic_until=TIMES,
    tags=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    model=st.text(max_size=9),
    upstream=st.text(max_size=9),
    question=st.text(max_size=9),
    engine_time=st.floats(0, 1e6).map(Seconds),
)
ENTRY = Entry(
    key=KEY,
    answer=Answer(b'"choices":[]}', "chatcmpl-", Tokens(3), Tokens(5)),
    created_at=UnixTime(1.0),
    exact_until=UnixTime(2.0),
    semantic_until=UnixTime(0.0),
    tags=("t",),
    model="m",
    upstream="u",
    question="",
    engine_time=Seconds(0.5),
)
SEALED = seal(ENTRY)


@given(ENTRIES)
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    """Sealing loses nothing."""
    assert unseal(entry.key, seal(entry)) == entry


def test_every_single_wrong_bit_is_found() -> None:
    """No bit of a sealed entry can flip unnoticed."""
    for at in range(len(SEALED) * 8):
        wrong = bytearray(SEALED)
        wrong[at // 8] ^= 1 << at % 8
        with pytest.raises(EntryUnreadable):
            unseal(KEY, bytes(wrong))


def test_every_truncation_is_found() -> None:
    """A sealed entry that broke off is unreadable, and so is one with more behind it."""
    for end in range(len(SEALED)):
        with pytest.raises(EntryUnreadable):
            unseal(KEY, SEALED[:end])
    with pytest.raises(EntryUnreadable):
        unseal(KEY, SEALED + b"\0")


@given(st.binary(max_size=120))
def test_foreign_bytes_are_unreadable(noise: bytes) -> None:
    """Bytes of another origin raise nothing but EntryUnreadable."""
    for sealed in (noise, SEALED[:4] + noise, SEALED[:20] + noise):
        with pytest.raises(EntryUnreadable):
            unseal(KEY, sealed)


@pytest.mark.parametrize("key", [OTHER, b"", KEY[:31], KEY + b"\0", b"k" * 100])
def test_another_keys_entry_is_unreadable(key: bytes) -> None:
    """Entries cannot be swapped in the store."""
    with pytest.raises(EntryUnreadable, match="another key"):
        unseal(key, SEALED)


def test_another_version_is_unreadable() -> None:
    """An entry of another age is not guessed at."""
    with pytest.raises(EntryUnreadable, match="version"):
        unseal(KEY, SEALED[:3] + b"\x02" + SEALED[4:])


@pytest.mark.parametrize("payload", [b"", b"\xc1", msgspec.msgpack.encode({"key": KEY})])
def test_a_sound_seal_around_something_else_is_unreadable(payload: bytes) -> None:
    """The payload is checked by type even when its digest is right."""
    with pytest.raises(EntryUnreadable, match="fields"):
        unseal(KEY, _MAGIC + _digest(KEY, payload) + payload)
