"""The log of what was taken back, in the Memcached servers of the store itself.

Each server has the whole log, so that one that goes costs no more than its share of the answers.
One that lost its log gets it from the others; when all have, a new one begins, and with it
everything that was stored before is as good as taken back.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import StoreError
from askonce.ports import Revocation, RevocationPage
from askonce.stores.memcached.items import ROOM, Names
from askonce.stores.memcached.ring import MemcachedUrl, parse_url
from askonce.stores.memcached.server import MemcachedServer
from askonce.stores.memcached.wire import Command, Reply

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.ports import Clock, Sink

ATTEMPTS = 20
"""Times that a write starts anew because another came between."""
MOST_RULES = 5000
"""When the oldest leave, what is as old is taken back with them."""


class _Log(msgspec.Struct, frozen=True):
    birth: int
    rules: tuple[Revocation, ...] = ()

    @property
    def last(self) -> int:
        return self.rules[-1].seq if self.rules else self.birth

    def with_all(self, rules: tuple[Revocation, ...]) -> _Log:
        """Its rules and those others that are not older than it, each number once."""
        by_number = {rule.seq: rule for rule in (*rules, *self.rules) if rule.seq > self.birth}
        return _Log(self.birth, tuple(by_number[seq] for seq in sorted(by_number)))

    def without_oldest(self, count: int) -> _Log:
        return _Log(self.rules[count - 1].seq, self.rules[count:]) if count > 0 else self


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Log).decode


class MemcachedRevocations:
    """A `RevocationLog`; create it inside a running event loop.

    Numbers grow with the clock: two writers that reach different servers must not give the same.
    `append` raises StoreError when a server does not take the rule, after all others did.
    """

    def __init__(self, url: MemcachedUrl, *, clock: Clock) -> None:
        """Connect to nothing yet."""
        names = Names(url.namespace)
        self._name = names.revocations
        self._clock = clock
        self._room = url.item_bytes - ROOM
        self._servers = [
            MemcachedServer(address, names, patience=url.patience) for address in url.servers
        ]

    async def append(self, rule: Revocation) -> int:
        """See `RevocationLog`; the first server gives the number."""
        known = await self._known()
        faults: list[StoreError] = []
        seq = 0
        for server in self._servers:
            try:
                seq = await self._append(server, rule, known, seq)
            except StoreError as error:
                faults.append(error)
        if faults:
            raise faults[0]
        return seq

    async def read(self, after: int, limit: int) -> RevocationPage:
        """See `RevocationLog`; what any server that is up knows."""
        log = await self._known()
        rules = tuple(rule for rule in log.rules if rule.seq > after)[:limit]
        return RevocationPage(log.birth, log.last, rules)

    async def close(self) -> None:
        """See `RevocationLog`."""
        for server in self._servers:
            await server.close()

    async def _known(self) -> _Log:
        """The log of all servers together; those that lack some of it get it."""
        for _ in range(ATTEMPTS):
            log = await self._together()
            if log is not None:
                return log
        raise StoreError("no server has, or takes, a revocation log")

    async def _together(self) -> _Log | None:
        """None when no server had one, and none took the new one: another came before."""
        asked = await asyncio.gather(*map(self._held, self._servers), return_exceptions=True)
        up = {
            server: held
            for server, held in zip(self._servers, asked, strict=True)
            if not isinstance(held, BaseException)
        }
        faults = [each for each in asked if isinstance(each, BaseException)]
        if not up or not all(isinstance(each, StoreError) for each in faults):
            raise faults[0]
        logs = [log for log, _ in up.values() if log is not None]
        newest = max(logs, key=lambda log: log.birth, default=_Log(int(self._clock.now() * 1e6)))
        log = newest.with_all(tuple(rule for each in logs for rule in each.rules))
        behind = [server for server, (held, _) in up.items() if held != log]
        mended = [await self._mend(server, log, up[server][1]) for server in behind]
        return log if logs or any(mended) else None

    async def _mend(self, server: MemcachedServer, log: _Log, condition: bytes) -> bool:
        try:
            return await self._store(server, log, condition)
        except StoreError:
            return False

    async def _held(self, server: MemcachedServer) -> tuple[_Log | None, bytes]:
        """A server's log, if it has a sound one, and under which condition to replace it."""
        (reply,) = await server.ask(Command(b"mg %b v c" % self._name))
        if reply.kind != b"VA":
            return None, b"ME"
        return _read(reply), b"C" + reply.flags.strip()[1:]

    async def _store(self, server: MemcachedServer, log: _Log, condition: bytes) -> bool:
        """Whether the server took it; it does not when another came between."""
        log = log.without_oldest(len(log.rules) - MOST_RULES)
        while len(value := _sealed(log)) > self._room:
            log = log.without_oldest(len(log.rules) // 4 + 1)
        line = b"ms %b %d %b" % (self._name, len(value), condition)
        (reply,) = await server.ask(Command(line, value))
        if reply.kind == b"SE":
            raise StoreError(f"{server.address}: it does not take the revocation log")
        return reply.kind == b"HD"

    async def _append(
        self, server: MemcachedServer, rule: Revocation, known: _Log, seq: int
    ) -> int:
        for _ in range(ATTEMPTS):
            held, condition = await self._held(server)
            log = known if held is None or held.birth < known.birth else held
            seq = seq or max(log.last + 1, int(self._clock.now() * 1e6))
            numbered = msgspec.structs.replace(rule, seq=seq)
            if await self._store(server, log.with_all((numbered,)), condition):
                return seq
            if server is self._servers[0]:
                seq = 0
        raise StoreError(f"{server.address}: others write the revocation log all the time")


def _sealed(log: _Log) -> bytes:
    body = _encode(log)
    return zlib.crc32(body).to_bytes(4, "big") + body


def _read(reply: Reply) -> _Log | None:
    body = reply.value[4:]
    if zlib.crc32(body).to_bytes(4, "big") != reply.value[:4]:
        return None
    try:
        return _decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None


def open_memcached_revocations(
    url: str,
    *,
    clock: Clock,
    sink: Sink,  # noqa: ARG001 - every opener has the same face
    data_dir: Path,  # noqa: ARG001
) -> MemcachedRevocations:
    """A log beside the answers."""
    return MemcachedRevocations(parse_url(url), clock=clock)
