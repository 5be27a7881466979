"""Sealed blocks: what is not provably the right one is none."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askonce.errors import MissingExtra
from askonce.kv.block import FLAWS, HEADER_BYTES, BlockKey, Sealer

if TYPE_CHECKING:
    from askonce.kv.block import Codec

HERE, THERE = b"n" * 32, b"m" * 32
SECRET = b"0123456789abcdef"
KEY = BlockKey(b"k" * 32)
PAYLOAD = bytes(range(256)) * 8


@pytest.fixture(params=[b"", SECRET], ids=["plain", "secret"])
def sealer(request: pytest.FixtureRequest) -> Sealer:
    """With and without a secret."""
    return Sealer(HERE, secret=request.param)


def test_what_was_sealed_is_sound(sealer: Sealer) -> None:
    """Header and payload as written pass, in any buffer."""
    header = sealer.seal(KEY, PAYLOAD, epoch=3)
    assert len(header) == HEADER_BYTES
    assert sealer.check(header, PAYLOAD, KEY, epoch=3) is None
    assert sealer.check(bytearray(header), memoryview(bytearray(PAYLOAD)), KEY, epoch=3) is None


@pytest.mark.parametrize(
    ("flaw", "asked"),
    [
        ("key", {"key": BlockKey(b"x" * 32)}),
        ("key", {"key": BlockKey(b"k" * 16)}),
        ("group", {"key": BlockKey(b"k" * 32, group=1)}),
        ("epoch", {"epoch": 4}),
        ("codec", {"codec": "int8"}),
        ("length", {"payload": PAYLOAD[:-1]}),
        ("checksum", {"payload": PAYLOAD[:-1] + b"\0"}),
    ],
)
def test_each_binding_has_its_flaw(sealer: Sealer, flaw: str, asked: dict[str, Any]) -> None:
    """A sound block for something else is none."""
    header = sealer.seal(KEY, PAYLOAD, epoch=3)
    wanted = {"key": KEY, "payload": PAYLOAD, "epoch": 3, "codec": "raw", **asked}
    payload, key = wanted.pop("payload"), wanted.pop("key")
    assert sealer.check(header, payload, key, **wanted) == flaw


def test_another_namespace_and_other_bytes_are_told(sealer: Sealer) -> None:
    """By the first thing that is wrong."""
    header = sealer.seal(KEY, PAYLOAD, epoch=3)
    assert Sealer(THERE).check(header, PAYLOAD, KEY, epoch=3) == "namespace"
    assert sealer.check(header[:-1], PAYLOAD, KEY, epoch=3) == "short"
    assert sealer.check(b"X" + header[1:], PAYLOAD, KEY, epoch=3) == "magic"
    assert sealer.check(header[:4] + b"\7" + header[5:], PAYLOAD, KEY, epoch=3) == "version"


def test_a_writer_without_the_secret_is_found_out() -> None:
    """A sound checksum is not enough where a secret is asked for, nor is a secret where none is."""
    plain, sealed = Sealer(HERE), Sealer(HERE, secret=SECRET)
    forged = plain.seal(KEY, PAYLOAD, epoch=3)
    assert sealed.check(forged, PAYLOAD, KEY, epoch=3) == "seal"
    others = Sealer(HERE, secret=b"f" * 16).seal(KEY, PAYLOAD, epoch=3)
    assert sealed.check(others, PAYLOAD, KEY, epoch=3) == "seal"
    assert plain.check(sealed.seal(KEY, PAYLOAD, epoch=3), PAYLOAD, KEY, epoch=3) == "seal"


def test_a_forged_checksum_does_not_save_another_payload() -> None:
    """The header of one block, made to fit the payload of another, is refused."""
    plain, sealed = Sealer(HERE), Sealer(HERE, secret=SECRET)
    other = PAYLOAD[::-1]
    honest = sealed.seal(KEY, PAYLOAD, epoch=3)
    refitted = plain.seal(KEY, other, epoch=3)[:124] + honest[124:]
    assert sealed.check(refitted, other, KEY, epoch=3) == "seal"
    tampered = bytearray(honest)
    tampered[140] ^= 1
    assert sealed.check(tampered, PAYLOAD, KEY, epoch=3) == "seal"


@given(at=st.integers(0, HEADER_BYTES - 1), bit=st.integers(0, 7), secret=st.booleans())
def test_any_flipped_bit_of_a_header_is_found(at: int, bit: int, secret: bool) -> None:  # noqa: FBT001
    """No byte of it goes unread."""
    sealer = Sealer(HERE, secret=SECRET if secret else b"")
    header = bytearray(sealer.seal(KEY, PAYLOAD, epoch=3))
    header[at] ^= 1 << bit
    assert sealer.check(header, PAYLOAD, KEY, epoch=3) in FLAWS


@given(st.binary(max_size=400), st.binary(max_size=64))
def test_bytes_from_elsewhere_are_never_a_block(header: bytes, payload: bytes) -> None:
    """Whatever stands in the store."""
    assert Sealer(HERE).check(header, payload, KEY, epoch=0) in FLAWS


@given(st.binary(max_size=3000), st.binary(min_size=1, max_size=64), st.integers(0, 2**63))
def test_any_payload_survives(payload: bytes, name: bytes, epoch: int) -> None:
    """Of any length, under any hash, in any codec."""
    codec: Codec = "int8" if epoch % 2 else "raw"
    sealer, key = Sealer(HERE), BlockKey(name, group=epoch % 5)
    header = sealer.seal(key, payload, epoch=epoch, codec=codec)
    assert sealer.check(header, payload, key, epoch=epoch, codec=codec) is None


def test_bad_arguments_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In plain words."""
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer(b"short")
    with pytest.raises(ValueError, match="16 bytes"):
        Sealer(HERE, secret=b"short")
    there = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return there(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"askonce\[kv\]"):
        Sealer(HERE, secret=SECRET)
