"""What runs inside the server, so that it happens whole or not at all.

Keys of a partition p, all in one hash slot; NS is the namespace:

    NS:e{p}:KEY      an entry: generation, bucket, fence (8 bytes each), frame; lives as long as it
    NS:g{p}          the generation, 8 random bytes: entries of another one are gone
    NS:s{p}          hash of state: `gen` again, `removals`, and `t` + tag = end of the last entry
                     with that tag, in ms, and `!` when the tag's set was evicted before
    NS:h{p}          hash of what is held: `n` and `b` + bucket = entries and bytes that end there
    NS:t{p}:TAG      sorted set of the keys with a tag, by their ends
    NS:d{p}:TAG      such a set while its entries are being deleted
    NS:l{p}:FLIGHT   who leads a flight: fence, `|` and o (open) or c (closed to new followers)
    NS:f{p}:FLIGHT:w, NS:f{p}:FLIGHT:x:FENCE   a follower's wish, and what the leader relays
    NS:r{0}, NS:q{0}  hash of the revocation log's ends, and its rules

A server that evicts may take any of them: without generation or state all entries are gone,
without a tag's set the tag's deletion takes all entries, without the rest the counts are too low.
Every reply begins with what the caller sent as its first argument.
"""

from __future__ import annotations

import hashlib

import msgspec

from askonce.stores.redis.wire import pack

BUCKETS = 256
"""An entry is counted for at most this part of its life after its end."""

_PRELUDE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]
local GEN, STATE, HELD = KEYS[1], KEYS[2], KEYS[3]
local function whole(number) return string.format('%.0f', number) end
local function grow(field)
  local grown = math.max((tonumber(redis.call('HGET', STATE, field)) or 0) + 1, micros)
  redis.call('HSET', STATE, field, whole(grown))
  return grown
end
local function mint()
  local removals = grow('removals')
  local fence = redis.call('HGET', STATE, 'fence') or '0'
  redis.call('DEL', STATE, HELD)
  redis.call('SET', GEN, ARGV[2])
  redis.call('HSET', STATE, 'gen', ARGV[2], 'removals', whole(removals), 'fence', fence)
  return ARGV[2]
end
local function generation()
  local gen = redis.call('GET', GEN)
  if gen and redis.call('HGET', STATE, 'gen') == gen then return gen end
  return mint()
end
local function look(entry, gen)
  local head = redis.call('GETRANGE', entry, 0, 39)
  if #head == 40 and string.sub(head, 1, 8) == gen then return head end
end
local function uncount(head)
  local bucket, size = whole(struct.unpack('>d', head, 9)), struct.unpack('>I4', head, 29)
  if redis.call('HEXISTS', HELD, 'n' .. bucket) == 1 then
    redis.call('HINCRBY', HELD, 'n' .. bucket, -1)
    redis.call('HINCRBY', HELD, 'b' .. bucket, -size)
  end
end
local function held()
  local all, entries, bytes = redis.call('HGETALL', HELD), 0, 0
  for i = 1, #all, 2 do
    local kind, bucket = string.sub(all[i], 1, 1), tonumber(string.sub(all[i], 2))
    local count = tonumber(all[i + 1])
    if bucket <= now or count == 0 and kind == 'n' then
      redis.call('HDEL', HELD, 'n' .. whole(bucket), 'b' .. whole(bucket))
    elseif kind == 'n' then entries = entries + count
    else bytes = bytes + count end
  end
  return entries, bytes
end
"""

_PUT = """
local function tagged(set, tag, key, ends)
  local known = redis.call('HGET', STATE, 't' .. tag)
  local till = known and tonumber(string.match(known, '^%d+')) or 0
  local mark = ''
  if till > now and (string.sub(known, -1) == '!' or redis.call('EXISTS', set) == 0) then
    mark = '!'
  end
  local old = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, 64)
  if #old > 0 then redis.call('ZREM', set, unpack(old)) end
  redis.call('ZADD', set, ends, key)
  till = math.max(till, ends)
  redis.call('PEXPIREAT', set, whole(till + 1000))
  redis.call('HSET', STATE, 't' .. tag, whole(till) .. mark)
  for _, field in ipairs(redis.call('HRANDFIELD', STATE, 3)) do
    if string.sub(field, 1, 1) == 't' then
      local last = tonumber(string.match(redis.call('HGET', STATE, field), '^%d+'))
      if last <= now then redis.call('HDEL', STATE, field) end
    end
  end
end
local function outdone(lease, fence, head)
  if fence == 0 then return false end
  local holder = redis.call('GET', lease)
  local leads = holder and tonumber(string.match(holder, '^%d+')) or 0
  return leads > fence or head and struct.unpack('>d', head, 17) > fence
end
local gen, arg, key, stored = generation(), 4, 4, 0
for _ = 1, tonumber(ARGV[3]) do
  local entry, lease = KEYS[key], KEYS[key + 1]
  local name, ttl, size = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local fence, tags, frame = tonumber(ARGV[arg + 3]), tonumber(ARGV[arg + 4]), ARGV[arg + 5]
  local head = look(entry, gen)
  if not outdone(lease, fence, head) then
    stored = stored + 1
    if head then uncount(head) end
    local ends = now + ttl
    local step = math.max(1, math.floor(ttl / BUCKETS))
    step = 2 ^ math.floor(math.log(step) / math.log(2) + 1e-9)
    local bucket = math.ceil(ends / step) * step
    local front = gen .. struct.pack('>dd', bucket, fence)
    redis.call('SET', entry, front .. frame, 'PX', ttl)
    redis.call('HINCRBY', HELD, 'n' .. whole(bucket), 1)
    redis.call('HINCRBY', HELD, 'b' .. whole(bucket), size)
    for i = 1, tags do tagged(KEYS[key + 1 + i], ARGV[arg + 5 + i], name, ends) end
  end
  key, arg = key + 2 + tags, arg + 6 + tags
end
return {ARGV[1], stored}
""".replace("BUCKETS", str(BUCKETS))

_DELETE = """
local head = look(KEYS[4], generation())
if head then uncount(head) end
redis.call('DEL', KEYS[4])
grow('removals')
return {ARGV[1], head and 1 or 0}
"""

_DELETE_TAG = """
local set, doomed = KEYS[4], KEYS[5]
local tag, prefix, first = ARGV[3], ARGV[4], ARGV[5] == '1'
local gen = generation()
local function all() local entries = held() mint() return {ARGV[1], entries, 0} end
local function marked(field)
  local known = redis.call('HGET', STATE, field .. tag)
  if not known then return 0 end
  return tonumber(string.match(known, '^%d+')), string.sub(known, -1) == '!', known
end
if first then
  grow('removals')
  local till, broken, known = marked('t')
  if till > now and (broken or redis.call('EXISTS', set) == 0) then return all() end
  local before = marked('d')
  if before > now and redis.call('EXISTS', doomed) == 0 then return all() end
  redis.call('HDEL', STATE, 't' .. tag)
  if redis.call('EXISTS', set) == 1 then
    if redis.call('EXISTS', doomed) == 1 then
      redis.call('ZUNIONSTORE', doomed, 2, set, doomed)
      redis.call('DEL', set)
    else
      redis.call('RENAME', set, doomed)
      redis.call('PERSIST', doomed)
    end
    redis.call('HSET', STATE, 'd' .. tag, whole(math.max(till, before)))
  end
elseif redis.call('EXISTS', doomed) == 0 then
  if marked('d') > now then return all() end  -- evicted; else another caller came to the end
  return {ARGV[1], 0, 0}
end
local function carries(entry, head)
  local from, tags = 40 + string.byte(head, 27), string.byte(head, 28)
  local carried = redis.call('GETRANGE', entry, from, from + 16 * tags - 1)
  for i = 1, #carried, 16 do
    if string.sub(carried, i, i + 15) == tag then return true end
  end
end
local gone = 0
local keys = redis.call('ZRANGE', doomed, 0, 499)
for _, key in ipairs(keys) do
  local head = look(prefix .. key, gen)
  if head and string.byte(head, 28) > 0 and carries(prefix .. key, head) then
    uncount(head)
    redis.call('DEL', prefix .. key)
    gone = gone + 1
  end
end
if #keys > 0 then redis.call('ZREMRANGEBYRANK', doomed, 0, #keys - 1) end
local left = redis.call('ZCARD', doomed)
if left == 0 then redis.call('HDEL', STATE, 'd' .. tag) end
return {ARGV[1], gone, left}
"""

_CLEAR = """
generation()
local entries = held()
mint()
return {ARGV[1], entries}
"""

_STATS = """
generation()
local entries, bytes = held()
return {ARGV[1], entries, bytes}
"""

_LEASE = """
local function holder(lease)
  local fence, state = string.match(redis.call('GET', lease) or '', '^(%d+)|(%a)$')
  return tonumber(fence), state
end
"""

_BOARD = (
    _LEASE
    + """
local entry, lease, wish = KEYS[4], KEYS[5], KEYS[6]
local look, life = ARGV[3] == '1', ARGV[4]
local gen = generation()
local value = look and redis.call('GET', entry)
if value and string.sub(value, 1, 8) == gen then return {ARGV[1], 'entry', gen, value} end
local fence, state = holder(lease)
if not fence then
  fence = grow('fence')
  redis.call('SET', lease, whole(fence) .. '|o', 'PX', life)
  return {ARGV[1], 'lead', whole(fence)}
end
if state ~= 'o' then return {ARGV[1], 'alone'} end
redis.call('SET', wish, whole(fence), 'PX', 10000)
return {ARGV[1], 'follow', whole(fence)}
"""
)

_BEAT = (
    _LEASE
    + """
local lease, wish, fence = KEYS[4], KEYS[5], tonumber(ARGV[3])
local leads = holder(lease)
if leads and leads ~= fence then return {ARGV[1], 0, 0} end
local wished = redis.call('GET', wish) == whole(fence)
if ARGV[5] ~= '0' then
  redis.call('SET', lease, whole(fence) .. '|' .. ARGV[4], 'PX', ARGV[5])
elseif not wished or ARGV[6] == '1' then
  redis.call('DEL', lease)
end
return {ARGV[1], 1, wished and 1 or 0}
"""
)

_RELAY = """
local stream, number, kept = KEYS[4], tonumber(ARGV[3]), ARGV[4]
local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
if #last == 0 or tonumber(string.match(last[1][1], '^%d+')) < number then
  redis.call('XADD', stream, whole(number) .. '-0', 'b', ARGV[5])
end
if kept ~= '0' then redis.call('XTRIM', stream, 'MINID', kept) end
redis.call('PEXPIRE', stream, 10000)
return {ARGV[1], 1}
"""

_FOLLOW = (
    _LEASE
    + """
local lease, stream, fence = KEYS[4], KEYS[5], tonumber(ARGV[3])
local found = redis.call('XRANGE', stream, '(' .. ARGV[4] .. '-0', '+', 'COUNT', 16)
local batches = {}
for i, one in ipairs(found) do
  batches[i] = {string.match(one[1], '^%d+'), one[2][2]}
end
return {ARGV[1], holder(lease) == fence and 1 or 0, batches}
"""
)


class Script(msgspec.Struct, frozen=True):
    """A script and its name in the server."""

    source: str
    digest: str

    def short(self, keys: list[bytes], args: list[bytes]) -> bytes:
        """The command that runs it where the server knows it."""
        return pack("EVALSHA", self.digest, len(keys), *keys, *args)

    def whole(self, keys: list[bytes], args: list[bytes]) -> bytes:
        """The command that runs it anywhere."""
        return pack("EVAL", self.source, len(keys), *keys, *args)


def script(body: str) -> Script:
    """A script over the common opening."""
    source = _PRELUDE + body
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


PUT = script(_PUT)
DELETE = script(_DELETE)
DELETE_TAG = script(_DELETE_TAG)
CLEAR = script(_CLEAR)
STATS = script(_STATS)
BOARD = script(_BOARD)
BEAT = script(_BEAT)
RELAY = script(_RELAY)
FOLLOW = script(_FOLLOW)
