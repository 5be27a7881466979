"""Another spelling of the engine's bytes: smaller, and not quite the same. Off by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from askonce.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from askonce.kv.block import Codec
    from askonce.kv.ports import Buffer

GROUP = 256
"""Values that share a scale."""
_SCALE_BYTES = 4


class BlockCodec(Protocol):
    """Spells a block; holds no state."""

    @property
    def name(self) -> Codec:
        """As the header tells it."""
        ...

    def stored_bytes(self, size: int) -> int:
        """Bytes that a block of this size takes in the store."""
        ...

    def encode(self, block: Buffer) -> memoryview:
        """The block as it is stored."""
        ...

    def decode(self, stored: Buffer, block: memoryview) -> None:
        """The block again, into its view."""
        ...


class Int8:
    """Eight bits a value, with a scale for each 256 values.

    A value comes back within 1/254 of the largest magnitude among its 256, and then rounded to the
    engine's type. Infinite values and NaN do not survive: such a group comes back as zeros.
    """

    name: Codec = "int8"

    def __init__(self, dtype: str) -> None:
        """dtype: the engine's, `float16`, `bfloat16` or `float32`; raises ConfigError."""
        try:
            import numpy as np

            from askonce.kv.floats import FLOATS, floats_of
        except ImportError:
            raise MissingExtra("numpy", "kv") from None
        if dtype not in FLOATS:
            raise ConfigError(f"int8 storage needs KV in 16 or 32 bit floats, not {dtype!r}")
        self._np, self._floats_of = np, floats_of
        self._dtype = dtype
        self._width = 4 if dtype == "float32" else 2

    def stored_bytes(self, size: int) -> int:
        """A byte a value, and a scale for each group; size: of whole groups."""
        values = size // self._width
        if size % self._width or values % GROUP:
            raise ConfigError(f"int8 storage needs blocks of a multiple of {GROUP} values")
        return values + values // GROUP * _SCALE_BYTES

    def encode(self, block: Buffer) -> memoryview:
        """Scales, then values."""
        np = self._np
        stored = bytearray(self.stored_bytes(memoryview(block).nbytes))
        values = self._floats_of(block, self._dtype).reshape(-1, GROUP)
        scales = np.abs(values).max(axis=1) / np.float32(127)
        scales[~np.isfinite(scales)] = 0
        split = len(scales) * _SCALE_BYTES
        np.frombuffer(stored, np.float32, len(scales))[:] = scales
        with np.errstate(all="ignore"):
            steps = np.rint(values / np.where(scales > 0, scales, np.inf)[:, None])
        np.frombuffer(stored, np.int8, offset=split)[:] = np.nan_to_num(steps).ravel()
        return memoryview(stored)

    def decode(self, stored: Buffer, block: memoryview) -> None:
        """Multiply, and round to the engine's type."""
        np = self._np
        count = block.nbytes // self._width // GROUP
        scales = np.frombuffer(stored, np.float32, count)
        steps = np.frombuffer(stored, np.int8, offset=count * _SCALE_BYTES).reshape(-1, GROUP)
        values = (steps * scales[:, None]).ravel()
        if self._dtype == "bfloat16":
            bits = values.view(np.uint32)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            np.frombuffer(block, np.uint16)[:] = rounded
        else:
            np.frombuffer(block, self._dtype)[:] = values
