"""What prefill costs on one engine, and what a load from the store costs, learned as they happen.

prefill = (a + b new + c ((context + new)^2 - context^2)) (1 + d busy)
load    = round trip + (bytes + bytes ahead of them) / bandwidth
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from askonce.kv.fit import NonNegativeFit
from askonce.units import Bytes, Seconds, Tokens

if TYPE_CHECKING:
    from askonce.kv.curves import Curve

_TOKENS: Final = 1024.0
_SQUARES: Final = 8192.0**2
_BYTES: Final = 1e8
_ANCHORS: Final = (256, 2048, 8192, 32768)


class PrefillModel:
    """Prefill time of one engine."""

    def __init__(self, curve: Curve, *, keep: float = 0.98) -> None:
        """curve: what to believe before the engine has shown its own times."""
        prior = [curve.fixed, curve.per_token * _TOKENS, curve.per_square * _SQUARES]
        anchors = [_prefill_features(tokens, 0) for tokens in _ANCHORS]
        self._fit = NonNegativeFit(prior, anchors, keep=keep)
        self._keep = keep
        self._busy_rest = self._busy_squares = 0.0

    @property
    def slope(self) -> float:
        """d: how much slower a busy engine is; 0 if it is not, or never was busy."""
        return max(0.0, self._busy_rest / (self._busy_squares + 0.2))

    @property
    def spread(self) -> float:
        """Relative error of late."""
        return self._fit.spread

    def predict(self, new: Tokens, context: Tokens, busy: float = 0.0) -> Seconds:
        """Time to compute `new` tokens behind `context` known ones; busy: share of the engine's
        slots that other requests hold, 0 to 1."""
        told = self._fit.predict(_prefill_features(new, context))
        return Seconds(told * (1.0 + self.slope * busy))

    def observe(self, new: Tokens, seconds: Seconds, *, context: Tokens, busy: float) -> None:
        """Learn from one prefill, without the time that it queued."""
        features = _prefill_features(new, context)
        idle = self._fit.predict(features)
        rest = seconds / idle - 1.0 if idle else 0.0
        self._busy_rest = self._keep * self._busy_rest + min(rest, 4.0) * busy
        self._busy_squares = self._keep * self._busy_squares + busy * busy
        self._fit.observe(features, seconds / (1.0 + self.slope * busy))


class StoreModel:
    """Load time from one store as one engine sees it."""

    def __init__(self, round_trip: Seconds, bytes_per_second: float, *, keep: float = 0.98) -> None:
        """What to believe before the first loads: from `askonce kv bench`, or the link's rate."""
        prior = [round_trip, _BYTES / bytes_per_second]
        anchors = [(1.0, size / _BYTES) for size in (0.0, 1e6, 1e8, 1e9)]
        self._fit = NonNegativeFit(prior, anchors, keep=keep)

    @property
    def round_trip(self) -> Seconds:
        """Of a load without bytes."""
        return Seconds(self._fit.coefficients[0])

    @property
    def per_byte(self) -> float:
        """Seconds a byte."""
        return self._fit.coefficients[1] / _BYTES

    def predict(self, size: Bytes, ahead: Bytes) -> Seconds:
        """Time until `size` bytes are here, behind the `ahead` bytes of other loads."""
        return Seconds(self._fit.predict((1.0, (size + ahead) / _BYTES)))

    def observe(self, size: Bytes, seconds: Seconds, *, ahead: Bytes) -> None:
        """Learn from one load; `ahead` as it was when it began."""
        self._fit.observe((1.0, (size + ahead) / _BYTES), seconds)


def _prefill_features(new: int, context: int) -> tuple[float, float, float]:
    squares = float(context + new) ** 2 - float(context) ** 2
    return (1.0, new / _TOKENS, squares / _SQUARES)
