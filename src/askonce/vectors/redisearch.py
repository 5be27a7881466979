"""RediSearch (Redis Stack, Redis 8, Valkey with the module): one hash an item, one index over all.

The partition is a TAG that filters before the nearest are looked for. A hash ends by itself, and
the index follows; one dropped or flushed is made anew, and the server fills it from the hashes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from askonce.vectors.binding import check_vector
from askonce.vectors.ranking import ROUGHLY, SPARE, above
from askonce.vectors.redis_index import (
    FIELDS,
    KEYS_AT_ONCE,
    RedisIndex,
    fields_of,
    life_ms,
    row_of,
)
from askonce.vectors.redis_wire import RedisError, Script
from askonce.vectors.redisearch_policy import EXPANSION, Policy, tuning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Clock, IndexedText, Neighbour, Sink, Vector
    from askonce.units import Cosine, UnixTime
    from askonce.vectors.binding import Binding
    from askonce.vectors.ranking import Row
    from askonce.vectors.redis_wire import Word

_TRIM_EVERY = 64
_SCAN_POLLS = 250
_POLL = 0.02
_ABSENT = ("no such index", "unknown index name", "index_not_found")
_NOTHING = "@p:{none}"
_ALL = "*"

_DELETE = Script("""
local base, removed = KEYS[1], 0
for place = 2, #ARGV do
  local ends = redis.call('HGET', base .. 'i:' .. ARGV[place], 'x')
  if ends and (tonumber(ends) or 0) > tonumber(ARGV[1]) then removed = removed + 1 end
  redis.call('DEL', base .. 'i:' .. ARGV[place])
end
return removed
""")


class RediSearchIndex(RedisIndex):
    """`redisearch://host:port`, `redisearchs://…` with TLS or `redisearch+unix:///path`.

    `?algorithm=flat` compares all vectors of a partition instead of following a graph.
    """

    scheme = "redisearch"
    option = "algorithm"
    kinds: ClassVar = {"hnsw": SPARE, "flat": SPARE}

    def __init__(self, url: str, *, binding: Binding, clock: Clock, sink: Sink) -> None:
        """See `RedisIndex`."""
        super().__init__(url, binding=binding, clock=clock, sink=sink)
        self._index = self._base + b"index"
        self._policy = Policy(clock)
        self._adds = 0

    async def search_all(self, vector: Vector, *, floor: Cosine, limit: int) -> list[Neighbour]:
        """See `SupportsSearchAll`; as complete as the server's range search."""
        check_vector(vector, self._binding.dim)
        radius, now = 1.0 - floor + ROUGHLY, self._clock.now()
        widened = "$EPSILON: 0.5; " if self._kind == "hnsw" else ""
        found = await self._find(
            f"@v:[VECTOR_RANGE $radius $question]=>{{{widened}$YIELD_DISTANCE_AS: far}}",
            *("PARAMS", 4, "radius", radius, "question", vector.tobytes()),
            *("SORTBY", "far", "ASC"),
            *("RETURN", len(FIELDS), *FIELDS, "LIMIT", 0, limit + SPARE),
        )
        pairs = zip(found[1::2], found[2::2], strict=True)
        rows = [self._row(name, fields, (fields or [b"", b""])[1]) for name, fields in pairs]
        live = [row for row in rows if row is not None and row.item.expires_at > now]
        return above(live, vector, floor, limit)

    async def drop_partition(self, partition: bytes) -> int:
        """Remove a partition's items; returns how many live ones there were."""
        return await self._delete_found(f"@p:{{{_tag(partition).decode()}}}")

    async def clear(self) -> int:
        """Remove everything of this embedder; returns how many live items there were."""
        return await self._delete_found(_ALL)

    async def count(self) -> int:
        """How many live items there are, over all partitions."""
        found = await self._find(f"@x:[({self._clock.now()!r} +inf]", "LIMIT", 0, 0)
        entries: int = found[0]
        return entries

    async def _put(self, partition: bytes, item: IndexedText, vector: bytes, now: UnixTime) -> None:
        await self._find(_NOTHING, "LIMIT", 0, 0)
        key = self._base + b"i:" + _tag(item.key)
        fields = fields_of(item, vector, _tag(partition))
        await self._wire.batch([("HSET", key, *fields), ("PEXPIRE", key, life_ms(item, now))])
        if self._adds % _TRIM_EVERY == 0:
            await self._trim()
        self._adds += 1

    async def _nearest(self, partition: bytes, question: bytes, count: int) -> list[Row | None]:
        tag = _tag(partition)
        how = tuning(await self._share(tag), count) if self._kind == "hnsw" else ""
        found = await self._find(
            f"(@p:{{{tag.decode()}}})=>[KNN $count @v $question{how}]",
            *("PARAMS", 4, "count", count, "question", question),
            *("RETURN", len(FIELDS), *FIELDS, "LIMIT", 0, count),
        )
        pairs = zip(found[1::2], found[2::2], strict=True)
        return [self._row(name, fields, tag) for name, fields in pairs]

    async def _delete(self, keys: Sequence[bytes]) -> int:
        return await self._over([_tag(key) for key in keys], _DELETE)

    async def _find(self, query: str, *words: Word) -> list[Any]:
        """FT.SEARCH; makes the index anew where it has gone."""
        command = ("FT.SEARCH", self._index, query, *words, "DIALECT", 2)
        try:
            found: list[Any] = await self._wire.call(*command)
        except RedisError as error:
            if not any(words in str(error).lower() for words in _ABSENT):
                raise
            await self._create()
            found = await self._wire.call(*command)
        return found

    async def _share(self, tag: bytes) -> float:
        share = self._policy.share(tag)
        if share is None:
            held = await self._find(f"@p:{{{tag.decode()}}}", "LIMIT", 0, 0)
            total = await self._find(_ALL, "LIMIT", 0, 0)
            share = self._policy.learn(tag, held[0], total[0])
        return share

    async def _create(self) -> None:
        vectors: list[Word] = ["TYPE", "FLOAT32", "DIM", self._binding.dim, "DISTANCE_METRIC", "IP"]
        if self._kind == "hnsw":
            vectors += ["M", 16, "EF_CONSTRUCTION", EXPANSION]
        kind = ("VECTOR", self._kind.upper(), len(vectors), *vectors)
        schema = ("p", "TAG", "x", "NUMERIC", "v", *kind)
        prefix = self._base + b"i:"
        try:
            await self._wire.call(
                *("FT.CREATE", self._index, "ON", "HASH", "PREFIX", 1, prefix),
                *("SCHEMA", *schema),
            )
        except RedisError as error:
            if "already exists" not in str(error):
                raise

    def _row(self, name: bytes, fields: list[bytes] | None, tag: bytes) -> Row | None:
        named = dict(zip((fields or [])[::2], (fields or [])[1::2], strict=True))
        values = [named.get(field.encode()) for field in FIELDS]
        key = self._key(name)
        return None if key is None else row_of(key, values, tag)

    def _key(self, name: bytes) -> bytes | None:
        """The item's; None where somebody else has put a hash under our prefix."""
        try:
            return bytes.fromhex(name[len(self._base) + 2 :].decode())
        except ValueError:
            return None

    async def _delete_found(self, query: str) -> int:
        """Remove all that a query finds, once the index knows all there is."""
        await self._filled()
        removed = 0
        while names := await self._names(query, KEYS_AT_ONCE):
            removed += await self._delete(names)
        return self._tally.gone("cleared", removed)

    async def _names(self, query: str, most: int, *order: Word) -> list[bytes]:
        found = await self._find(query, "NOCONTENT", *order, "LIMIT", 0, most)
        keys = map(self._key, found[1:])
        return [key for key in keys if key is not None]

    async def _filled(self) -> None:
        """Wait while the server fills a new index from the hashes, for some seconds at most."""
        await self._find(_NOTHING, "LIMIT", 0, 0)
        for _ in range(_SCAN_POLLS):
            info = await self._wire.call("FT.INFO", self._index)
            told = dict(zip(info[::2], info[1::2], strict=True))
            if float(told.get(b"indexing", 0)) == 0:
                return
            await asyncio.sleep(_POLL)

    async def _trim(self) -> None:
        held = (await self._find(_ALL, "LIMIT", 0, 0))[0]
        over = held - self._binding.max_entries
        if over > 0:
            first = await self._names(_ALL, over, "SORTBY", "x", "ASC")
            held -= self._tally.gone("capacity", await self._delete(first))
        self._tally.held(held)


def _tag(name: bytes) -> bytes:
    """A key or partition in hex: the module cuts names at a zero byte."""
    return name.hex().encode()
