"""Qdrant's REST calls on one collection, over a bounded pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from askonce.errors import ConfigError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")

CONNECTIONS = 16
_ANSWER_SECONDS = 5.0
"""Only bounds how long a dead connection is held: callers set shorter deadlines."""


class QdrantWire:
    """Calls raise VectorIndexError; cancelable. A collection that is not there is made."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str,
        connections: int,
        settings: Mapping[str, object],
        indexes: Sequence[Mapping[str, object]],
    ) -> None:
        """Connect to nothing yet.

        url: of the collection. settings, indexes: how it is made, as Qdrant's bodies.
        """
        self._url = url
        self._headers = {"api-key": api_key} if api_key else {}
        self._connections = connections
        self._settings = settings
        self._indexes = indexes
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def ask(self, method: str, path: str, body: object, answer: type[T]) -> T:
        """One call below the collection; `answer` is the shape of its result."""
        status, said = await self._send(method, f"{self._url}/{path}", body)
        if status == 404:
            await self._create()
            status, said = await self._send(method, f"{self._url}/{path}", body)
        self._check(status, said)
        try:
            return msgspec.convert(msgspec.json.decode(said)["result"], answer)
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise VectorIndexError(f"not an answer of Qdrant: {error}") from error

    async def close(self) -> None:
        """Drop all connections; idempotent."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _create(self) -> None:
        status, said = await self._send("PUT", self._url, self._settings)
        if status != 409:  # else another client was quicker
            self._check(status, said)
        for index in self._indexes:
            status, said = await self._send("PUT", f"{self._url}/index?wait=true", index)
            self._check(status, said)

    async def _send(self, method: str, url: str, body: object) -> tuple[int, bytes]:
        if self._closed:
            raise VectorIndexError("the index is closed")
        try:
            packed = msgspec.json.encode(body)
            async with self._opened().request(
                method, url, data=packed, allow_redirects=False
            ) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise VectorIndexError(f"{type(error).__name__}: {error}") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS),
                headers={"content-type": "application/json", **self._headers},
            )
        return self._session

    def _check(self, status: int, said: bytes) -> None:
        if status >= 400:
            raise VectorIndexError(
                f"Qdrant answers {status}: {said[:200].decode(errors='replace')}"
            )


def place_of(url: str) -> tuple[str, str]:
    """Base URL and API key; raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme not in {"qdrant", "qdrants"} or not parts.hostname:
        raise ConfigError("write qdrant://host:6333, or qdrants:// with TLS")
    scheme = "https" if parts.scheme == "qdrants" else "http"
    path = parts.path.rstrip("/")
    return f"{scheme}://{parts.hostname}:{parts.port or 6333}{path}", parts.password or ""
