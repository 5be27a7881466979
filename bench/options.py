"""How long to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The same for all benchmarks of one run."""

    rounds: int = 5
    seconds: int = 2
    """Length of one load."""
    requests: int = 1_000_000
    """Distinct requests of the memory benchmark."""
