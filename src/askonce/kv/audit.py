"""Is what the store holds what the engine computes? Whom to ask, and how far apart two blocks are.

A seal proves who wrote a block and that it is whole, not that it was computed rightly. So now and
then a hit is computed in spite of it, and what came out is held against what the store has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from askonce.errors import ConfigError
from askonce.kv.floats import FLOATS, floats_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from askonce.kv.ports import Buffer

TOLERANCES: Final[Mapping[str, float]] = {"float32": 0.001, "float16": 0.1, "bfloat16": 0.5}
"""Error up to which two blocks count as the same, by the engine's type of KV."""
LOSSY: Final = 0.5
"""The same where blocks are stored as `int8`, and later blocks were computed on top of such."""
WORST: Final = 2.0
"""Error of values that are opposite, or of which one is no number."""
_GROUP: Final = 256
_FLOOR: Final = 0.01
"""Values smaller than this share of what is usual in their block are as good as zero."""


class Sample:
    """Chooses a share of hits."""

    def __init__(self, share: float, chance: Callable[[], float]) -> None:
        """share: 0 to 1. chance: gives numbers from 0 up to 1, each as likely as the others."""
        self._share = share
        self._chance = chance

    def chooses(self) -> bool:
        """Whether this one is audited."""
        return self._chance() < self._share


class Comparison:
    """Holds blocks of one engine against each other; holds no state."""

    def __init__(self, dtype: str, *, lossy: bool = False, tolerance: float = 0.0) -> None:
        """dtype: of the engine's KV. lossy: the store's spelling is. tolerance: 0 for the usual.

        Raises ConfigError for a type whose values cannot be told.
        """
        if dtype not in FLOATS:
            raise ConfigError(f"an audit needs KV in 16 or 32 bit floats, not {dtype!r}")
        self._dtype = dtype
        usual = max(TOLERANCES[dtype], LOSSY if lossy else 0.0)
        self.tolerance = tolerance or usual

    def error(self, computed: Buffer, stored: Buffer) -> float:
        """The largest difference, as a share of the largest value among its 256; at most 2.

        Blocks of equal size. Whatever an instruction set does to the order of values within a
        block, both have it.
        """
        if np.array_equal(np.frombuffer(computed, np.uint8), np.frombuffer(stored, np.uint8)):
            return 0.0
        ours, theirs = floats_of(computed, self._dtype), floats_of(stored, self._dtype)
        with np.errstate(all="ignore"):
            gap = np.abs(ours - theirs)
        largest = np.maximum(np.abs(ours), np.abs(theirs))
        if not np.isfinite(gap).all():
            gap[(ours == theirs) | (np.isnan(ours) & np.isnan(theirs))] = 0
            largest[~np.isfinite(largest)] = 0
            if not np.isfinite(gap).all():
                return WORST
        scale = _most(largest)
        scale = np.maximum(scale, _FLOOR * np.median(scale))
        scale[scale == 0] = 1
        return float((_most(gap) / scale).max())


def _most(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest of each group."""
    whole = np.pad(values, (0, -len(values) % _GROUP))
    largest: NDArray[np.float32] = whole.reshape(-1, _GROUP).max(axis=1)
    return largest


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What audits have found."""

    agreed: int = 0
    disagreed: int = 0
    undone: int = 0
    """Blocks of audits that could not be fetched, or not in time."""
    errors: float = 0.0
    """Sum over the audited blocks."""
    worst: float = 0.0

    def heard(self, error: float, tolerance: float) -> Record:
        """With one more block."""
        agrees = error <= tolerance
        return msgspec.structs.replace(
            self,
            agreed=self.agreed + agrees,
            disagreed=self.disagreed + (not agrees),
            errors=self.errors + error,
            worst=max(self.worst, error),
        )

    def missed(self, count: int) -> Record:
        """With so many blocks more that could not be compared."""
        return msgspec.structs.replace(self, undone=self.undone + count)
