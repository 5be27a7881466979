"""What JSON decodes to."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A decoded JSON value of any kind: each use looks at the kind before it relies on it."""
