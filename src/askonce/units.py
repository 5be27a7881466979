"""Units as types, so that a number cannot pass for another kind of number."""

from __future__ import annotations

from typing import NewType

Seconds = NewType("Seconds", float)
"""A span of time."""

UnixTime = NewType("UnixTime", float)
"""Seconds since 1970-01-01 UTC, by the wall clock."""

Cosine = NewType("Cosine", float)
"""Similarity of two unit vectors, clamped to 0..1; 1 is the same direction."""

Tokens = NewType("Tokens", int)
"""A count of model tokens."""

USD = NewType("USD", float)
"""Money."""

Bytes = NewType("Bytes", int)
"""A size."""
