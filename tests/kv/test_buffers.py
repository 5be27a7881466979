"""Buffers are lent again, and not hoarded."""

from __future__ import annotations

from askonce.kv import buffers as module
from askonce.kv.buffers import Buffers


def test_a_buffer_is_lent_again() -> None:
    """To one borrower at a time, and only for its own size."""
    buffers = Buffers()
    one, two = buffers.lease(64), buffers.lease(64)
    assert one is not two
    buffers.give_back([one])
    assert buffers.lease(65) is not one
    assert buffers.lease(64) is one
    assert buffers.lease(64) is not one


def test_idle_buffers_are_bounded() -> None:
    """Beyond that they go."""
    buffers, size = Buffers(), module._KEPT // 2
    lent = [buffers.lease(size) for _ in range(3)]
    buffers.give_back(lent)
    again = [buffers.lease(size) for _ in range(3)]
    assert sum(any(one is other for other in lent) for one in again) == 2
