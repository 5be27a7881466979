"""The engine's bytes as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from askonce.kv.ports import Buffer

FLOATS: Final = frozenset({"float16", "bfloat16", "float32"})
"""Types of KV whose values can be told."""


def floats_of(block: Buffer, dtype: str) -> NDArray[np.float32]:
    """The block's values; dtype: one of `FLOATS`."""
    if dtype == "bfloat16":
        wide = np.frombuffer(block, np.uint16).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    return np.frombuffer(block, dtype).astype(np.float32, copy=False)
