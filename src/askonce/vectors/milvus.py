"""Milvus: one collection an embedder, the partition its partition key.

Also its embedded form for one machine (milvus-lite), which is slow beyond some thousand vectors.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from askonce.errors import ConfigError, MissingExtra, VectorIndexError
from askonce.ports import IndexedText
from askonce.units import UnixTime
from askonce.vectors.binding import check_names, check_vector
from askonce.vectors.ranking import SPARE, Row, above, ranked
from askonce.vectors.tally import Tally
from askonce.vectors.urls import Options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from askonce.ports import Clock, Neighbour, Sink, Vector
    from askonce.units import Cosine
    from askonce.vectors.binding import Binding

_FIELDS = ["id", "part", "ends", "text", "tokens", "vector"]
_LONGEST = 65_535
"""Bytes of a VARCHAR."""
_LONGEST_TEXT = 1024 * 1024
"""Bytes of a text that was kept small; whoever may write to the server may claim more."""
_ANSWER_SECONDS = 5.0
"""Only bounds how long a dead connection is held: callers set shorter deadlines."""
_KEYS_AT_ONCE = 500
_SWEEP_EVERY = 256
_MOST_FOUND = 16_384
_SAMPLE = 10_000
_NOT_READY = (100, 101)
"""Codes: there is no such collection, or it is not loaded."""
_ATTEMPTS = 10
_PAUSE = 0.05
_SEES = "Session"
"""A client sees what it wrote; Strong would have every search wait for the server's next tick."""


def open_milvus(url: str, *, binding: Binding, clock: Clock, sink: Sink) -> MilvusIndex:
    """`milvus://user:password@host:19530`, `milvuss://…` with TLS, `milvus:///path.db` or `milvus`.

    `?db=` names the database.
    """
    options = Options(url, ("db",))
    target = dict(_target(options.url, binding), db_name=options.text("db", ""))
    return MilvusIndex(target, options.prefix, binding=binding, clock=clock, sink=sink)


def _target(url: str, binding: Binding) -> dict[str, str]:
    """The client's `uri` and `token`; without a host it is a file of milvus-lite."""
    parts = urlsplit(url if "://" in url else f"{url}://")
    if not parts.hostname:
        if parts.scheme != "milvus" or (parts.path and not parts.path.endswith(".db")):
            raise ConfigError("a file of milvus-lite is named milvus:///path.db")
        return {"uri": parts.path or str(binding.data_dir / "milvus.db")}
    scheme = "https" if parts.scheme == "milvuss" else "http"
    token = f"{parts.username}:{parts.password or ''}" if parts.username else ""
    return {"uri": f"{scheme}://{parts.hostname}:{parts.port or 19530}", "token": token}


class MilvusIndex:
    """A VectorIndex. Past the bound, about as many of the first to die leave."""

    def __init__(
        self, target: dict[str, str], prefix: str, *, binding: Binding, clock: Clock, sink: Sink
    ) -> None:
        """Connect to nothing yet; raises MissingExtra."""
        try:
            import pymilvus
        except ImportError as error:
            raise MissingExtra("pymilvus", "milvus") from error
        self._driver: Any = pymilvus
        self._target = target
        self._name = binding.name(prefix)
        self._binding = binding
        self._clock = clock
        self._tally = Tally(sink, binding.dim)
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._making: asyncio.Task[None] | None = None
        self._closed = False
        self._adds = 0

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Insert or replace by item.key."""
        check_vector(vector, self._binding.dim)
        check_names(partition, item.key)
        record = {
            "id": item.key.hex(),
            "part": partition.hex(),
            "ends": item.expires_at,
            "text": _packed(item.text),
            "tokens": base64.b64encode(item.tokens).decode(),
            "vector": vector,
        }
        await self._ask("upsert", data=[record])
        if self._adds % _SWEEP_EVERY == 0:
            await self._sweep()
        self._adds += 1

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """The k nearest live items by exact cosine."""
        check_vector(vector, self._binding.dim)
        self._tally.searches += 1
        (found,) = await self._ask(
            "search",
            data=[vector],
            limit=k + SPARE,
            filter=f'part == "{partition.hex()}" and ends > {self._clock.now()!r}',
            output_fields=_FIELDS,
            consistency_level=_SEES,
        )
        rows = (_row(one["entity"], partition.hex()) for one in found)
        return ranked((row for row in rows if row is not None), vector, k)

    async def search_all(self, vector: Vector, *, floor: Cosine, limit: int) -> list[Neighbour]:
        """See `SupportsSearchAll`; as complete as the server's index."""
        check_vector(vector, self._binding.dim)
        (found,) = await self._ask(
            "search",
            data=[vector],
            limit=min(limit + SPARE, _MOST_FOUND),
            filter=f"ends > {self._clock.now()!r}",
            output_fields=_FIELDS,
            consistency_level=_SEES,
        )
        rows = (_row(one["entity"], one["entity"]["part"]) for one in found)
        return above((row for row in rows if row is not None), vector, floor, limit)

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remove items by entry key in any partition; returns how many live ones there were."""
        names, removed = sorted({key.hex() for key in keys}), 0
        for start in range(0, len(names), _KEYS_AT_ONCE):
            some = json.dumps(names[start : start + _KEYS_AT_ONCE])
            removed += await self._remove(f"id in {some}")
        return removed

    async def drop_partition(self, partition: bytes) -> int:
        """Remove a partition's items; returns how many live ones there were."""
        return await self._remove(f'part == "{partition.hex()}"')

    async def clear(self) -> int:
        """Remove everything of this embedder; returns how many live items there were."""
        return await self._remove('id != ""')

    async def count(self) -> int:
        """How many live items there are, over all partitions."""
        return await self._count(f"ends > {self._clock.now()!r}")

    def statistics(self) -> dict[str, float]:
        """What this process has seen."""
        return self._tally.statistics()

    async def close(self) -> None:
        """Drop the connection; idempotent."""
        self._closed = True
        if self._making is not None:
            await asyncio.wait([self._making])
        async with self._opening:
            client, self._client = self._client, None
            if client is not None:
                await client.close()

    async def _remove(self, condition: str) -> int:
        live = await self._count(f"({condition}) and ends > {self._clock.now()!r}")
        await self._ask("delete", filter=condition)
        return self._tally.gone("cleared", live)

    async def _count(self, condition: str) -> int:
        found = await self._ask(
            "query", filter=condition, output_fields=["count(*)"], consistency_level=_SEES
        )
        entries: int = found[0]["count(*)"]
        return entries

    async def _ask(self, method: str, **words: object) -> Any:  # noqa: ANN401 - as many shapes as calls
        """One call; makes the collection anew where it has gone."""
        with self._mapped():
            client = self._client or await self._open()
            call = getattr(client, method)
            try:
                return await call(self._name, timeout=_ANSWER_SECONDS, **words)
            except self._driver.MilvusException as error:
                if error.code not in _NOT_READY:
                    raise
            await self._created()
            return await call(self._name, timeout=_ANSWER_SECONDS, **words)

    async def _open(self) -> Any:  # noqa: ANN401
        async with self._opening:
            if self._closed:
                raise VectorIndexError("the index is closed")
            if self._client is None:
                await self._created()
                self._client = self._driver.AsyncMilvusClient(**self._target)
            return self._client

    async def _created(self) -> None:
        """One thread at a time makes the collection, whoever stops waiting for it."""
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(asyncio.to_thread(self._create))
            self._making.add_done_callback(_heard)
        await asyncio.shield(self._making)

    def _create(self) -> None:
        """Make the collection unless it is there; in a thread, since only this client can wait."""
        client = self._driver.MilvusClient(**self._target, timeout=_ANSWER_SECONDS)
        try:
            if not client.has_collection(self._name):
                self._create_new(client)
            client.load_collection(self._name)
        finally:
            client.close()

    def _create_new(self, client: Any) -> None:  # noqa: ANN401
        index = client.prepare_index_params()
        index.add_index("vector", index_type="AUTOINDEX", metric_type="IP")
        words = {"schema": self._schema(), "index_params": index, "consistency_level": _SEES}
        for attempt in range(_ATTEMPTS):
            try:
                client.create_collection(self._name, **words)
            except self._driver.MilvusException:
                if client.has_collection(self._name):
                    return
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_PAUSE)  # perhaps another client is about to have made it
            else:
                return

    def _schema(self) -> Any:  # noqa: ANN401
        kinds = self._driver.DataType
        schema = self._driver.MilvusClient.create_schema(auto_id=False)
        schema.add_field("id", kinds.VARCHAR, max_length=64, is_primary=True)
        schema.add_field("part", kinds.VARCHAR, max_length=64, is_partition_key=True)
        schema.add_field("ends", kinds.DOUBLE)
        schema.add_field("text", kinds.VARCHAR, max_length=_LONGEST)
        schema.add_field("tokens", kinds.VARCHAR, max_length=_LONGEST)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=self._binding.dim)
        return schema

    async def _sweep(self) -> None:
        """Take out the dead, and past the bound about as many of the first to die."""
        dead = f"ends <= {self._clock.now()!r}"
        gone = await self._count(dead)
        await self._ask("delete", filter=dead)
        self._tally.gone("expired", gone)
        held = await self._count('id != ""')
        over = held - self._binding.max_entries
        if over > 0:
            some = await self._ask(
                "query", filter='id != ""', limit=_SAMPLE, output_fields=["ends"]
            )
            ends = sorted(one["ends"] for one in some)
            last = ends[max(0, len(ends) * over // held - 1)]
            early = f"ends <= {last!r}"
            held -= self._tally.gone("capacity", await self._count(early))
            await self._ask("delete", filter=early)
        self._tally.held(held)

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        import grpc

        if self._closed:
            raise VectorIndexError("the index is closed")
        try:
            yield
        except (self._driver.MilvusException, grpc.RpcError, OSError, ValueError) as error:
            raise VectorIndexError(f"{type(error).__name__}: {error}") from error


def _heard(task: asyncio.Task[None]) -> None:
    """Take a failure that nobody may have waited for."""
    if not task.cancelled():
        task.exception()


def _packed(text: str) -> str:
    """A text as a VARCHAR, its first letter the form; raises VectorIndexError."""
    try:
        whole = f"t{text}"
        raw = whole.encode()
        if len(raw) <= _LONGEST:
            return whole
        if len(raw) > _LONGEST_TEXT:
            raise VectorIndexError(f"a text of {len(text)} characters is too long for Milvus")
        small = "z" + base64.b85encode(zlib.compress(text.encode())).decode()
    except UnicodeEncodeError as error:
        raise VectorIndexError("Milvus keeps no lone surrogates") from error
    if len(small) > _LONGEST:
        raise VectorIndexError(f"a text of {len(text)} characters is too long for Milvus")
    return small


def _unpacked(text: str) -> str:
    form, rest = text[:1], text[1:]
    if form == "t":
        return rest
    inflating = zlib.decompressobj()
    whole = inflating.decompress(base64.b85decode(rest), _LONGEST_TEXT)
    if not inflating.eof:
        raise ValueError("longer than any question")
    return whole.decode()


def _row(fields: dict[str, Any], partition: str) -> Row | None:
    if fields["part"] != partition:
        return None
    try:
        text, tokens = _unpacked(fields["text"]), base64.b64decode(fields["tokens"])
        key = bytes.fromhex(fields["id"])
    except (ValueError, zlib.error):
        return None
    item = IndexedText(key, text, UnixTime(fields["ends"]), tokens)
    return Row(item, np.asarray(fields["vector"], np.float32).tobytes())
