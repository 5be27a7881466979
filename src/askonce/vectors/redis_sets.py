"""Vector sets of Redis 8: one set a partition, and one hash an item.

Under `{name}:` lie `v:PARTITION`, the set whose elements are item keys; `i:KEY`, the hash with all
of an item; and `x`, a sorted set of KEY+PARTITION by end of life. What belongs together changes in
one script. A hash ends by itself; what it leaves behind is taken out by searches and later adds.
"""

from __future__ import annotations

import heapq
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from askonce.vectors.binding import KEY_BYTES, check_vector
from askonce.vectors.ranking import MOST, SPARE
from askonce.vectors.redis_index import KEYS_AT_ONCE, RedisIndex, fields_of, life_ms, row_of
from askonce.vectors.redis_wire import Script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import IndexedText, Neighbour, Vector
    from askonce.units import Cosine, UnixTime
    from askonce.vectors.ranking import Row

EXPANSION = 200
"""Of the graph, for adding and searching; the default for adding."""

_QUANT = {"none": "NOQUANT", "q8": "Q8"}

_TAKE = f"""
local base = KEYS[1]
local function take(member)
  local key, partition = member:sub(1, {KEY_BYTES}), member:sub({KEY_BYTES + 1})
  redis.call('VREM', base .. 'v:' .. partition, key)
  redis.call('ZREM', base .. 'x', member)
  if redis.call('HGET', base .. 'i:' .. key, 'p') == partition then
    redis.call('DEL', base .. 'i:' .. key)
  end
end
"""

_ADD = Script(
    _TAKE
    + """
local key, partition, quant, now, most, life = unpack(ARGV, 1, 6)
local item = base .. 'i:' .. key
local was = redis.call('HGET', item, 'p')
if was and was ~= partition then take(key .. was) end
local vector, ends = ARGV[16], ARGV[10]
redis.call('VADD', base .. 'v:' .. partition, 'FP32', vector, key, quant)
redis.call('HSET', item, unpack(ARGV, 7))
redis.call('PEXPIRE', item, life)
redis.call('ZADD', base .. 'x', ends, key .. partition)
local dead = redis.call('ZRANGEBYSCORE', base .. 'x', '-inf', now, 'LIMIT', 0, 32)
for _, member in ipairs(dead) do take(member) end
local over = math.min(redis.call('ZCARD', base .. 'x') - most, 32)
local oldest = over > 0 and redis.call('ZRANGE', base .. 'x', 0, over - 1) or {}
for _, member in ipairs(oldest) do take(member) end
return {#dead, #oldest, redis.call('ZCARD', base .. 'x')}
"""
)

_DELETE = Script(
    _TAKE
    + """
local removed = 0
for place = 3, #ARGV do
  local found = redis.call('HMGET', base .. 'i:' .. ARGV[place], 'p', 'x')
  if found[1] and (ARGV[2] == '' or ARGV[2] == found[1]) then
    if (tonumber(found[2]) or 0) > tonumber(ARGV[1]) then removed = removed + 1 end
    take(ARGV[place] .. found[1])
  end
end
return removed
"""
)

_SEARCH = Script(
    _TAKE
    + """
local partition, now, vector, count, expansion = unpack(ARGV)
local keys = redis.call(
  'VSIM', base .. 'v:' .. partition, 'FP32', vector, 'COUNT', count, 'EF', expansion)
local rows = {}
for place, key in ipairs(keys) do
  local row = redis.call('HMGET', base .. 'i:' .. key, 'p', 'x', 't', 'k', 'v')
  if row[1] ~= partition or (tonumber(row[2]) or 0) <= tonumber(now) then
    take(key .. partition)
  end
  rows[place] = row
end
return {keys, rows}
"""
)

_CLEAR_SOME = Script(
    _TAKE
    + f"""
local found = redis.call('ZRANGE', base .. 'x', 0, {KEYS_AT_ONCE - 1}, 'WITHSCORES')
local removed = 0
for place = 1, #found, 2 do
  redis.call('UNLINK', base .. 'v:' .. found[place]:sub({KEY_BYTES + 1}))
  take(found[place])
  if tonumber(found[place + 1]) > tonumber(ARGV[1]) then removed = removed + 1 end
end
return {{removed, #found / 2}}
"""
)


class RedisSetIndex(RedisIndex):
    """`redis://host:port/db`, `rediss://…` or `redis+unix:///path?db=0`.

    `?quant=none` keeps whole vectors in the graph as well, `?connections=` bounds the pool.
    """

    scheme = "redis"
    option = "quant"
    kinds: ClassVar = {"q8": 12, "none": SPARE}

    async def search_all(self, vector: Vector, *, floor: Cosine, limit: int) -> list[Neighbour]:
        """See `SupportsSearchAll`; asks one partition after the other for 512 items at most."""
        check_vector(vector, self._binding.dim)
        members = await self._wire.call("ZRANGE", self._base + b"x", 0, -1)
        best: list[Neighbour] = []
        for partition in sorted({member[KEY_BYTES:] for member in members}):
            found = await self.search(partition, vector, k=min(limit, MOST))
            best += [near for near in found if near.score >= floor]
        return heapq.nlargest(limit, best, key=attrgetter("score"))

    async def drop_partition(self, partition: bytes) -> int:
        """Unlink its set at once, then remove its items; returns how many live ones there were."""
        members = await self._wire.call("VRANDMEMBER", self._set(partition), 2**31 - 1)
        await self._wire.call("UNLINK", self._set(partition))
        return self._tally.gone("cleared", await self._delete(members, partition))

    async def clear(self) -> int:
        """Remove everything of this embedder; returns how many live items there were."""
        removed = 0
        while True:
            live, found = await self._wire.run(_CLEAR_SOME, self._base, self._clock.now())
            removed += live
            if not found:
                return self._tally.gone("cleared", removed)

    async def count(self) -> int:
        """How many live items there are, over all partitions."""
        now = self._clock.now()
        entries: int = await self._wire.call("ZCOUNT", self._base + b"x", f"({now!r}", "+inf")
        return entries

    async def _put(self, partition: bytes, item: IndexedText, vector: bytes, now: UnixTime) -> None:
        """In one script."""
        expired, evicted, entries = await self._wire.run(
            _ADD,
            self._base,
            *(item.key, partition, _QUANT[self._kind], now),
            *(self._binding.max_entries, life_ms(item, now)),
            *fields_of(item, vector, partition),
        )
        self._tally.gone("expired", expired)
        self._tally.gone("capacity", evicted)
        self._tally.held(entries)

    async def _nearest(self, partition: bytes, question: bytes, count: int) -> list[Row | None]:
        """And take out dead ones."""
        words = (partition, self._clock.now(), question, count, max(count, EXPANSION))
        keys, rows = await self._wire.run(_SEARCH, self._base, *words)
        return [row_of(key, row, partition) for key, row in zip(keys, rows, strict=True)]

    async def _delete(self, keys: Sequence[bytes], partition: bytes = b"") -> int:
        return await self._over(keys, _DELETE, partition)

    def _set(self, partition: bytes) -> bytes:
        return self._base + b"v:" + partition
