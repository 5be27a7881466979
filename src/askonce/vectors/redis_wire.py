"""Redis commands over a bounded pool; swap this one class for a quicker wire."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any

from askonce.errors import ConfigError, MissingExtra, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Word = bytes | str | int | float

CONNECTIONS = 16
_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
"""Only bounds how long a dead connection is held: callers set shorter deadlines."""


class RedisError(VectorIndexError):
    """The server said no; carries its words."""


class Script:
    """Lua that the server keeps by digest."""

    def __init__(self, source: str) -> None:
        """Digest it once."""
        self.source = source
        self.digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class RedisWire:
    """Calls raise VectorIndexError, and RedisError for what the server refuses; cancelable."""

    def __init__(self, url: str, *, connections: int = CONNECTIONS) -> None:
        """Connect to nothing yet; raises MissingExtra, ConfigError."""
        try:
            from redis import asyncio as driver
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise MissingExtra("redis", "redis") from error
        self._closed = False
        try:
            self._pool = driver.BlockingConnectionPool.from_url(
                url,
                max_connections=connections,
                timeout=_ANSWER_SECONDS,
                socket_timeout=_ANSWER_SECONDS,
                socket_connect_timeout=_CONNECT_SECONDS,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            )
        except (ValueError, TypeError) as error:
            raise ConfigError(f"not a Redis URL: {error}") from error
        self._client: Any = driver.Redis.from_pool(self._pool)

    async def call(self, *words: Word) -> Any:  # noqa: ANN401 - as many shapes as Redis has
        """One command, its answer as the server gave it."""
        with self._mapped():
            return await self._client.execute_command(*words)

    async def batch(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Several in one round trip, not atomic."""
        with self._mapped():
            pipeline = self._client.pipeline(transaction=False)
            for words in commands:
                pipeline.execute_command(*words)
            answers: list[Any] = await pipeline.execute()
            return answers

    async def run(self, script: Script, key: bytes, *words: Word) -> Any:  # noqa: ANN401
        """Run a script over one key; a server that has lost it is given it again."""
        try:
            return await self.call("EVALSHA", script.digest, 1, key, *words)
        except RedisError as error:
            if "NOSCRIPT" not in str(error):
                raise
        return await self.call("EVAL", script.source, 1, key, *words)

    async def close(self) -> None:
        """Drop all connections; idempotent."""
        self._closed = True
        await self._client.aclose()
        await self._pool.disconnect()

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        from redis.exceptions import NoScriptError, ResponseError
        from redis.exceptions import RedisError as DriverError

        if self._closed:
            raise VectorIndexError("the index is closed")
        try:
            yield
        except NoScriptError as error:
            raise RedisError(f"NOSCRIPT {error}") from error
        except ResponseError as error:
            raise RedisError(str(error)) from error
        except (DriverError, OSError) as error:
            raise VectorIndexError(f"{type(error).__name__}: {error}") from error


def driver_url(url: str, scheme: str) -> str:
    """As redis-py wants it: `SCHEME`, `SCHEME`s and `SCHEME+unix` become redis, rediss and unix."""
    found, _, rest = url.partition("://")
    kinds = {scheme: "redis", f"{scheme}s": "rediss", f"{scheme}+unix": "unix"}
    if not rest or found not in kinds:
        raise ConfigError(f"not a URL of an index in Redis: {url.partition('@')[2] or url}")
    return f"{kinds[found]}://{rest}"
