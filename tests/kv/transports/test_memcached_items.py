"""Blocks that lie in several items of Memcached."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from tests.servers.memcached import memcached

from askonce.clock import SystemClock
from askonce.kv.block import BlockKey
from askonce.kv.shelf import Shelf
from askonce.kv.transports.urls import open_transport
from askonce.units import Seconds

if TYPE_CHECKING:
    from pathlib import Path

KEY = BlockKey(b"k" * 32)
BLOCK = memoryview(bytes(5000))


@pytest.mark.servers
@pytest.mark.slow
def test_a_block_that_has_lost_an_item_makes_way_for_a_whole_one(tmp_path: Path) -> None:
    """Lookups keep its first item alive: it would be found, not loaded and not stored for ever."""
    with memcached(tmp_path) as server:
        transport = open_transport(server.url + "?item=2000")
        shelf = Shelf(transport, b"n" * 32)

        def stored() -> list[str]:
            return shelf.store([KEY], [BLOCK], epoch=1, ttl=None, deadline=_soon())

        assert stored() == ["done"]
        (name,) = shelf.names([KEY], 1)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as wire:
            wire.sendall(b"md %b~1\r\n" % name)
            assert wire.recv(64) == b"HD\r\n"
        assert shelf.exists([KEY], epoch=1, deadline=_soon()) == ["done"]
        room = memoryview(bytearray(5000))
        assert shelf.load([KEY], [room], epoch=1, deadline=_soon()) == ["size"]
        assert stored() == ["done"]
        assert shelf.load([KEY], [room], epoch=1, deadline=_soon()) == ["done"]
        transport.close()


def _soon() -> Seconds:
    return Seconds(SystemClock().monotonic() + 5.0)
