"""Int8 storage: half the bytes, and an error that is stated."""

from __future__ import annotations

import numpy as np
import pytest

from askonce.errors import ConfigError
from askonce.kv.block import BlockKey
from askonce.kv.codec import GROUP, Int8
from askonce.kv.shelf import Shelf
from askonce.kv.transports.memory import MemoryTransport
from askonce.units import Seconds

RANDOM = np.random.default_rng(0)
ROUNDING = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def _bytes_of(values: np.ndarray, dtype: str) -> bytes:
    if dtype == "bfloat16":
        return (values.astype("<f4").view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return values.astype(dtype).tobytes()


def _values_of(block: bytes | bytearray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return (np.frombuffer(block, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(block, dtype).astype(np.float32)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_the_error_is_within_half_a_step(dtype: str, scale: float) -> None:
    """A step is the largest magnitude of the group over 127."""
    codec = Int8(dtype)
    block = _bytes_of(RANDOM.normal(size=GROUP * 64) * scale, dtype)
    stored = codec.encode(block)
    assert stored.nbytes == codec.stored_bytes(len(block))
    back = bytearray(len(block))
    codec.decode(stored, memoryview(back))
    before = _values_of(block, dtype).reshape(-1, GROUP)
    after = _values_of(back, dtype).reshape(-1, GROUP)
    largest = np.abs(before).max(axis=1, keepdims=True)
    assert (np.abs(after - before) <= largest / 254 + largest * ROUNDING[dtype]).all()


def test_zeros_and_what_is_no_number() -> None:
    """Zeros stay zeros; a group with an infinity or a NaN becomes zeros."""
    codec = Int8("float32")
    values = np.zeros(GROUP * 3, np.float32)
    values[GROUP], values[GROUP * 2] = np.inf, np.nan
    back = bytearray(values.nbytes)
    codec.decode(codec.encode(values.tobytes()), memoryview(back))
    assert not any(back)


def test_what_cannot_be_stored_so() -> None:
    """Other types, and blocks that are no whole groups."""
    with pytest.raises(ConfigError):
        Int8("fp8_e4m3")
    with pytest.raises(ConfigError):
        Int8("float16").stored_bytes(100)


def test_a_shelf_tells_spellings_apart() -> None:
    """A block that was stored in one is none to an engine that expects the other."""
    transport, soon = MemoryTransport(), Seconds(1e18)
    block = memoryview(bytearray(_bytes_of(RANDOM.normal(size=GROUP), "float16")))
    small = Shelf(transport, b"n" * 32, codec=Int8("float16"))
    raw = Shelf(transport, b"n" * 32)
    key = [BlockKey(b"k" * 32)]
    assert small.store(key, [block], epoch=1, ttl=None, deadline=soon) == ["done"]
    into = memoryview(bytearray(block.nbytes))
    assert small.load(key, [into], epoch=1, deadline=soon) == ["done"]
    size = Int8("float16").stored_bytes(block.nbytes)
    other = memoryview(bytearray(size))
    assert raw.load(key, [other], epoch=1, deadline=soon) == ["flaw_codec"]
    assert small.exists(key, epoch=1, deadline=soon) == ["missing"]
