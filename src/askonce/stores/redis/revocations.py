"""The log of what was taken back, in the server that holds the answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from askonce.errors import EntryUnreadable, StoreError
from askonce.ports import Revocation, RevocationPage
from askonce.stores.redis.address import read_url
from askonce.stores.redis.calls import Calls
from askonce.stores.redis.frame import build, open_frame
from askonce.stores.redis.scripts import Script, script

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.ports import Clock, Sink
    from askonce.stores.redis.address import Target

MOST = 100_000
"""Rules that are kept; when the oldest leave, what is as old is taken back with them."""
_BOUND = b"a rule"

_KNOWN = """
local log, rules = KEYS[4], KEYS[5]
local function known()
  local birth = tonumber(redis.call('HGET', log, 'birth'))
  local last = tonumber(redis.call('HGET', log, 'last'))
  local count = tonumber(redis.call('HGET', log, 'count'))
  if birth and last and redis.call('XLEN', rules) == count then return birth, last, count end
  birth = math.max(micros, (last or 0) + 1)
  redis.call('DEL', rules)
  redis.call('HSET', log, 'birth', whole(birth), 'last', whole(birth), 'count', 0)
  return birth, birth, 0
end
local birth, last, count = known()
"""
APPEND = script(
    _KNOWN
    + """
last = math.max(last + 1, micros)
redis.call('XADD', rules, whole(last) .. '-0', 'r', ARGV[3])
count = count + 1
local over = count - tonumber(ARGV[4])
if over > 0 then
  local gone = redis.call('XRANGE', rules, '-', '+', 'COUNT', over)
  birth, count = tonumber(string.match(gone[over][1], '^%d+')), count - over
  redis.call('XTRIM', rules, 'MAXLEN', ARGV[4])
end
redis.call('HSET', log, 'birth', whole(birth), 'last', whole(last), 'count', count)
return {ARGV[1], whole(last)}
"""
)
READ = script(
    _KNOWN
    + """
local found = {}
if tonumber(ARGV[4]) > 0 then
  for i, one in ipairs(redis.call('XRANGE', rules, ARGV[3] .. '-1', '+', 'COUNT', ARGV[4])) do
    found[i] = {string.match(one[1], '^%d+'), one[2][2]}
  end
end
return {ARGV[1], whole(birth), whole(last), found}
"""
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Revocation).decode


class RedisRevocations:
    """A `RevocationLog` that all replicas share; create it inside a running event loop.

    Where the server has lost a part of it, all of it is given up, and with it every older entry.
    Numbers grow with the server's clock, so that none is given twice after a replica that lacked
    the newest rules has become the primary.
    """

    def __init__(self, target: Target, *, most: int = MOST) -> None:
        """Begin to connect."""
        self._calls = Calls(target, follow=False)
        names = self._calls.names
        self._keys = [names.log, names.rules]
        self._most = most

    async def append(self, rule: Revocation) -> int:
        """See `RevocationLog`."""
        frame = build(_BOUND, _encode(rule), math.inf, [])
        (seq,) = await self._run(APPEND, frame, b"%d" % self._most)
        return int(seq)

    async def read(self, after: int, limit: int) -> RevocationPage:
        """See `RevocationLog`."""
        birth, last, found = await self._run(READ, b"%d" % max(after, 0), b"%d" % limit)
        return RevocationPage(int(birth), int(last), tuple(_rule(*each) for each in found))

    async def close(self) -> None:
        """See `RevocationLog`."""
        await self._calls.close()

    async def _run(self, script: Script, *args: bytes) -> list[Any]:
        return await self._calls.run(script, 0, self._keys, args)


def _rule(seq: bytes, frame: bytes) -> Revocation:
    try:
        rule = _decode(open_frame(_BOUND, frame, 0.0) or b"")
    except (EntryUnreadable, msgspec.MsgspecError):
        raise StoreError("a rule of the revocation log cannot be read") from None
    return msgspec.structs.replace(rule, seq=int(seq))


def open_redis_revocations(
    url: str,
    *,
    clock: Clock,  # noqa: ARG001 - the server's counts
    sink: Sink,  # noqa: ARG001
    data_dir: Path,  # noqa: ARG001
) -> RedisRevocations:
    """A log beside the store's entries."""
    return RedisRevocations(read_url(url))
