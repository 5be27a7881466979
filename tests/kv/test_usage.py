"""How much of the recent past a resource was in use."""

from __future__ import annotations

import pytest

from askonce.kv.usage import Usage


def test_what_was_long_ago_fades() -> None:
    """Half a minute of work counts for half of the memory, and for less later."""
    usage = Usage()
    usage.add(10.0, 30.0)
    assert usage.share(10.0) == 0.5
    assert usage.share(9.0) == 0.5
    assert usage.share(70.0) == pytest.approx(0.5 / 2.71828, rel=1e-4)


def test_never_more_than_all() -> None:
    """More work than time has passed is all of the time."""
    usage = Usage()
    usage.add(0.0, 500.0)
    assert usage.share(0.0) == 1.0
