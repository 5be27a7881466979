"""The least store over redis-py, as the measure of ours: no tags, no checks, no counts."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from redis.asyncio import Redis

from askonce.ports import StoreStats
from askonce.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Put
    from askonce.units import Seconds

SCHEME = "redispy+unix"
ENTRY_POINT = f"[askonce.stores]\n{SCHEME} = bench.redis_py:open_plain\n"


class PlainStore:
    """Gets and sets; a pool of connections, one for each call under way."""

    def __init__(self, socket: str) -> None:
        self._client = Redis(unix_socket_path=socket, max_connections=64)

    async def get(self, key: bytes) -> bytes | None:
        """GET."""
        found: bytes | None = await self._client.get(b"plain:" + key)
        return found

    async def put(
        self,
        key: bytes,
        value: bytes,
        *,
        ttl: Seconds,
        tags: Sequence[str] = (),  # noqa: ARG002 - there are none
    ) -> None:
        """SET."""
        await self._client.set(b"plain:" + key, value, px=int(ttl * 1000))

    async def put_many(self, puts: Sequence[Put]) -> None:
        """One after another."""
        for each in puts:
            await self.put(each.key, each.value, ttl=each.ttl)

    async def delete(self, key: bytes) -> bool:
        """DEL."""
        return bool(await self._client.delete(b"plain:" + key))

    async def clear(self) -> int:
        """Not measured."""
        return 0

    async def stats(self) -> StoreStats:
        """Not measured."""
        return StoreStats(entries=0, size=Bytes(0))

    async def close(self) -> None:
        """Close the pool."""
        await self._client.aclose()


def open_plain(url: str, **_: object) -> PlainStore:
    """Open `redispy+unix:///path`."""
    return PlainStore(urlsplit(url).path)
