"""Envelopes: a value comes out as it went in, or is a miss with a reason."""

from __future__ import annotations

import sys
import threading
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.clock import SystemClock
from askonce.config import Config, ExactConfig, ServerConfig
from askonce.errors import ConfigError, MissingExtra
from askonce.events import Unreadable
from askonce.ports import SupportsAbsence, SupportsEpoch, SupportsPutMany, SupportsTags
from askonce.stores import envelope
from askonce.stores.envelope import Envelope, KeyRing, SealedStore, read_keys
from askonce.stores.memory import MemoryStore
from askonce.testing import (
    FakeClock,
    RecordingSink,
    check_store,
    check_store_epoch,
    check_store_tags,
)
from askonce.units import Seconds
from askonce.wiring import open_exact_store

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = b"o" * 32, b"n" * 32
LONG = Seconds(3600.0)
SEALED = [
    Envelope("n", compress_over=0),
    Envelope("n", compress_over=1),
    Envelope("n", compress_over=0, keys=KeyRing([NEW])),
    Envelope("n", compress_over=1, keys=KeyRing([NEW, OLD])),
]


@given(st.sampled_from(SEALED), st.binary(max_size=64), st.binary(max_size=500))
def test_what_is_sealed_opens(one: Envelope, key: bytes, value: bytes) -> None:
    """In every form."""
    assert one.open(key, one.seal(key, value * 3)) == value * 3


@given(st.sampled_from(SEALED), st.data(), st.binary(max_size=100))
def test_no_damage_opens(one: Envelope, data: st.DataObject, value: bytes) -> None:
    """Cut, longer, or changed in any bit, it is a reason and never a value or an exception."""
    sealed = one.seal(b"k", value * 2)
    at = data.draw(st.integers(0, len(sealed) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    for bad in (
        sealed[:at],
        sealed + b"x",
        sealed[:at] + bytes([sealed[at] ^ bit]) + sealed[at + 1 :],
    ):
        assert isinstance(one.open(b"k", bad), str)


@given(st.sampled_from(SEALED), st.binary(max_size=200))
def test_noise_does_not_open(one: Envelope, noise: bytes) -> None:
    """Neither does anything else that lies in a store."""
    assert isinstance(one.open(b"k", noise), str)
    assert isinstance(one.open(b"k", b"AOV\x01" + noise), str)


@pytest.mark.parametrize("keys", [None, KeyRing([NEW])])
def test_a_value_is_bound_to_key_and_namespace(keys: KeyRing | None) -> None:
    """Moved to another key or another cache, it does not open."""
    one, other = (Envelope(name, compress_over=0, keys=keys) for name in ("a", "b"))
    sealed = one.seal(b"k", b"v")
    assert one.open(b"K", sealed) == "damaged"
    assert other.open(b"k", sealed) == "damaged"


def test_keys_rotate() -> None:
    """The first seals and all open; without its key, or without any encryption, nothing opens."""
    old, both, new = (
        Envelope("n", compress_over=0, keys=KeyRing(k)) for k in ([OLD], [NEW, OLD], [NEW])
    )
    plain = Envelope("n", compress_over=0)
    before, after = old.seal(b"k", b"v"), both.seal(b"k", b"v")
    assert both.open(b"k", before) == both.open(b"k", after) == new.open(b"k", after) == b"v"
    assert new.open(b"k", before) == old.open(b"k", after) == plain.open(b"k", after) == "no_key"
    assert new.open(b"k", plain.seal(b"k", b"v")) == "no_key"
    assert b"secret text" not in both.seal(b"k", b"secret text")


def test_a_bomb_is_not_inflated() -> None:
    """Deflated bytes that grow past the length they state are refused without growing."""
    one = Envelope("n", compress_over=1)
    sealed = one.seal(b"k", b"x" * 1000)
    head, body = sealed[:9], zlib.compress(bytes(10_000_000))
    forged = head + one._digest(b"k", head, body) + body
    assert one.open(b"k", forged) == "length"
    garbage = head + one._digest(b"k", head, b"no zlib") + b"no zlib"
    assert one.open(b"k", garbage) == "length"
    huge = head[:5] + b"\xff\xff\xff\xff"
    assert one.open(b"k", huge + one._digest(b"k", huge, b"") + b"") == "length"
    assert (
        one.open(b"k", b"AOV\x02" + sealed[4:])
        == one.open(b"k", b"AOV\x01\x08" + sealed[5:])
        == "version"
    )


@pytest.mark.anyio
@pytest.mark.parametrize("keys", [None, KeyRing([NEW])])
async def test_a_store_in_envelopes_keeps_its_promises(keys: KeyRing | None) -> None:
    """It is a Store, with the abilities of the one below."""
    clock = FakeClock()

    def make() -> SealedStore:
        below = MemoryStore(clock=clock, sink=RecordingSink(), max_bytes=64 * 1024 * 1024)
        return SealedStore(
            below, Envelope("n", compress_over=2000, keys=keys), sink=RecordingSink()
        )

    store = make()
    for ability in (SupportsTags, SupportsEpoch, SupportsPutMany, SupportsAbsence):
        assert isinstance(store, ability)
    await check_store(make, clock)
    await check_store_tags(make, clock)
    await check_store_epoch(make, clock)


@pytest.mark.anyio
async def test_what_does_not_open_is_a_miss_and_counted() -> None:
    """The caller sees None, the metrics the reason."""
    sink = RecordingSink()
    below = MemoryStore(clock=FakeClock(), sink=RecordingSink(), max_bytes=1_000_000)
    store = SealedStore(below, Envelope("n", compress_over=0), sink=sink)
    await store.put(b"k", b"v", ttl=LONG)
    await below.put(b"k", b"something else", ttl=LONG)
    assert await store.get(b"k") is None
    assert sink.events == [Unreadable("store", "foreign")]


@pytest.mark.anyio
async def test_large_values_leave_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come back the same."""
    monkeypatch.setattr(envelope, "OFF_LOOP", 10)
    below = MemoryStore(clock=FakeClock(), sink=RecordingSink(), max_bytes=1_000_000)
    store = SealedStore(below, Envelope("n", compress_over=1), sink=RecordingSink())
    await store.put(b"k", b"v" * 5000, ttl=LONG)
    assert await store.get(b"k") == b"v" * 5000
    assert (await store.stats()).size < 200


def test_keys_come_from_settings_and_a_file(tmp_path: Path) -> None:
    """Hexadecimal, one a line; anything else is refused without showing it."""
    file = tmp_path / "keys"
    file.write_text(f"{NEW.hex()}\n{OLD.hex()}\n")
    assert read_keys([], str(file)) == [NEW, OLD]
    assert read_keys([OLD.hex()], str(file)) == [OLD, NEW, OLD]
    with pytest.raises(ConfigError, match="hexadecimal") as refused:
        read_keys(["no key"], "")
    assert "no key" not in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys([], str(tmp_path / "none"))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigError, match="holds no sealing key"):
        read_keys([OLD.hex()], str(tmp_path / "empty"))
    with pytest.raises(ConfigError, match="64 hexadecimal"):
        KeyRing([b"short"])


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealing without cryptography is a configuration error."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(MissingExtra, match=r"askonce\[seal\]"):
        KeyRing([NEW])


@pytest.mark.anyio
async def test_only_what_leaves_the_machine_is_put_into_envelopes(tmp_path: Path) -> None:
    """Local stores stay as they are, unless there is a key."""

    async def kind(store: str, *keys: str) -> str:
        config = Config(
            server=ServerConfig(data_dir=str(tmp_path)),
            exact=ExactConfig(store=store, seal_keys=keys),
        )
        opened = open_exact_store(config, clock=SystemClock(), sink=RecordingSink())
        await opened.close()
        return type(opened).__name__

    assert await kind("memory") == "MemoryStore"
    assert await kind("memory", NEW.hex()) == "SealedStore"
    assert await kind("memcached://127.0.0.1:1?namespace=x") == "SealedStore"


@pytest.mark.anyio
@pytest.mark.parametrize("board", [False, True])
async def test_what_grows_when_it_is_opened_is_opened_off_the_loop(
    monkeypatch: pytest.MonkeyPatch, *, board: bool
) -> None:
    """A short envelope may hold a long value, and anyone may have written it."""
    loop_thread, threads = threading.get_ident(), []
    one = Envelope("n", compress_over=1)
    opens = one.open

    def watched(key: bytes, sealed: bytes) -> bytes | envelope.Reason:
        threads.append(threading.get_ident())
        return opens(key, sealed)

    monkeypatch.setattr(one, "open", watched)
    sealed = one.seal(b"k", bytes(8 * envelope.OFF_LOOP))
    assert len(sealed) < envelope.OFF_LOOP
    store = Shared(sealed)
    over = SealedStore(store, one, sink=RecordingSink())
    found = await (over.board(b"k", b"f", look=True) if board else over.get(b"k"))
    assert found == bytes(8 * envelope.OFF_LOOP)
    assert loop_thread not in threads


class Shared(MemoryStore):
    """A store that holds one value, and knows flights."""

    def __init__(self, value: bytes) -> None:
        super().__init__(clock=FakeClock(), sink=RecordingSink(), max_bytes=1 << 20)
        self._value = value

    async def get(self, key: bytes) -> bytes | None:
        """The value."""
        return self._value

    async def board(self, key: bytes, flight: bytes, *, look: bool) -> bytes:
        """The value."""
        return self._value
