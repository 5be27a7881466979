"""Prefill curves that were published, and an estimate for what nobody published.

Milliseconds at batch size 1 in bfloat16, from NVIDIA's aiconfigurator 0.12.0
(`cli_estimate`, static context, vLLM backend), which reads measured tables of operators. They
stand in until an engine has shown its own times.
"""

from __future__ import annotations

from typing import Final

import msgspec

from askonce.kv.fit import NonNegativeFit

LENGTHS: Final = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Prompt lengths of the published points."""
EFFICIENCY: Final = 0.6
"""Share of a GPU's peak that prefill reaches; the published curves lie between 0.5 and 0.85."""
TERAFLOPS: Final = {
    "T4": 65,
    "V100": 125,
    "A10G": 70,
    "L4": 121,
    "A100": 312,
    "L40S": 362,
    "RTX4090": 165,
    "H20": 148,
    "H100": 989,
    "H200": 989,
    "B200": 2250,
}
"""Dense 16-bit peak by vendor's data sheet."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Prefill time of n tokens: fixed + per_token n + per_square n^2, in seconds."""

    name: str
    fixed: float
    per_token: float
    per_square: float
    points: tuple[float, ...] = ()
    """Seconds at LENGTHS, where they were published."""

    def seconds(self, tokens: float) -> float:
        """By the formula."""
        return self.fixed + self.per_token * tokens + self.per_square * tokens * tokens


_PUBLISHED: Final = {
    ("H100", "llama-8b", 1): (7.6, 12.0, 22.1, 43.5, 90, 200, 440, 1082),
    ("H100", "qwen3-32b", 2): (18.9, 30.1, 55.5, 107, 224, 476, 1049, 2503),
    ("H100", "llama-70b", 4): (20.1, 37.3, 67.4, 130, 264, 577, 1132, 2531),
    ("H100", "llama-70b", 8): (13.8, 26.5, 46.2, 86, 170, 344, 690, 1536),
    ("A100", "llama-8b", 1): (14.5, 36.0, 64.7, 125, 259, 557, 1315, 3430),
    ("A100", "llama-70b", 4): (37.9, 105, 182, 337, 666, 1372, 2954, 6897),
}


def known() -> list[str]:
    """What was published, in words."""
    return [f"{model} on {parallel} x {gpu}" for gpu, model, parallel in _PUBLISHED]


def published(gpu: str, model: str, parallel: int) -> Curve | None:
    """The curve of a known model on so many GPUs, or None."""
    points = _PUBLISHED.get((gpu, model, parallel))
    if points is None:
        return None
    seconds = tuple(point / 1000 for point in points)
    return _through(f"{model} on {parallel} x {gpu}, published", seconds)


def estimated(gpu: str, parallel: int, *, parameters: float, attention: float) -> Curve:
    """From arithmetic alone. parameters: active ones. attention: layers x heads x head size.

    Raises KeyError for an unknown GPU.
    """
    speed = TERAFLOPS[gpu] * 1e12 * EFFICIENCY * parallel
    return Curve(
        name=f"{parallel} x {gpu}, estimated from its peak",
        fixed=0.005,
        per_token=2 * parameters / speed,
        per_square=2 * attention / speed,
    )


def _through(name: str, seconds: tuple[float, ...]) -> Curve:
    fit = NonNegativeFit((0.01, seconds[-1] / LENGTHS[-1] * 1000, 0.0), [(1.0, 1.0, 1.0)], keep=1.0)
    for _ in range(40):
        for tokens, value in zip(LENGTHS, seconds, strict=True):
            fit.observe((1.0, tokens / 1000, (tokens / 1000) ** 2), value)
    fixed, linear, square = fit.coefficients
    return Curve(
        name=name, fixed=fixed, per_token=linear / 1e3, per_square=square / 1e6, points=seconds
    )
