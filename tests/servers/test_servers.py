"""The real servers that other tests stand on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from tests.servers.memcached import answers, memcached
from tests.servers.redis import Kind, pings, redis

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = [pytest.mark.servers, pytest.mark.slow]


@pytest.mark.parametrize("kind", ["redis7", "redis8", "valkey"])
def test_redis_runs_stops_and_comes_back(kind: Kind, tmp_path: Path) -> None:
    """A server answers, is gone when killed, and answers again when started."""
    with redis(kind, tmp_path) as one:
        assert one.socket.exists()
        one.server.kill()
        assert not pings(one.port)
        one.server.start()
        assert pings(one.port)


def test_memcached_freezes_and_goes_on(tmp_path: Path) -> None:
    """A frozen server says nothing until it may go on."""
    with memcached(tmp_path) as one:
        one.server.signal(signal.SIGSTOP)
        assert not answers(one.port)
        one.server.signal(signal.SIGCONT)
        assert answers(one.port)
