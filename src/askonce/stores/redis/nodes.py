"""Which node holds what: one server, the primary that Sentinels name, or a cluster's nodes."""

from __future__ import annotations

import asyncio
import binascii
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from askonce.errors import StoreError
from askonce.stores.redis.link import Entry, Link, dial, first_of
from askonce.stores.redis.wire import Refused, pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.stores.redis.address import Address, Target
    from askonce.stores.redis.wire import Connection

    Pushed = Callable[[list[Any]], None]

log = logging.getLogger(__name__)

PARTITIONS = 64
"""Into how many hash slots a namespace is spread in a cluster; each has its own bookkeeping."""
LOOK_EVERY = 5.0
"""Seconds between two looks at an unchanged cluster."""
LOOK_AGAIN = 0.2
"""Seconds between two looks while something is wrong."""
MOVES = {"MOVED", "ASK"}
"""Refusals that name the right node."""
_WRONG_NODE = {"READONLY", "MASTERDOWN", "CLUSTERDOWN"}


class Nodes(Protocol):
    """Where commands go."""

    partitions: int

    def ready(self, partition: int) -> Connection | None:
        """The partition's connection, if it stands already."""
        ...

    async def connection(self, partition: int) -> Connection:
        """The partition's connection; waits while it is being made; raises StoreError."""
        ...

    def watching(self) -> bool:
        """Whether every change by others is told now."""
        ...

    async def redirected(self, refused: Refused, partition: int, command: bytes) -> object:
        """What to do when a node refuses: ask the right one, or raise."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent."""
        ...


class OneNode:
    """One server, or the primary behind Sentinels."""

    partitions = 1

    def __init__(
        self, target: Target, follow: tuple[str, ...], *, pushed: Pushed, moved: Callable[[], None]
    ) -> None:
        """Begin to connect."""
        self._target = target
        tls = target.tls.context() if target.tls else None
        sentinel = target.kind == "sentinel"
        entry = Entry(target.login, tls, target.db, follow, primary=sentinel)
        self._sentinel = Entry(target.sentinel_login, tls)
        resolve = self._primary if sentinel else self._fixed
        self._link = Link(resolve, entry, pushed=pushed, moved=moved)

    def ready(self, partition: int) -> Connection | None:  # noqa: ARG002 - there is one
        """See `Nodes`."""
        return self._link.connection

    async def connection(self, partition: int) -> Connection:  # noqa: ARG002
        """See `Nodes`."""
        return await self._link.connected()

    def watching(self) -> bool:
        """See `Nodes`."""
        return self._link.told

    async def redirected(self, refused: Refused, partition: int, command: bytes) -> object:  # noqa: ARG002
        """See `Nodes`; a node that is no primary any more is left."""
        if refused.code in _WRONG_NODE:
            self._link.distrust(str(refused))
        raise refused

    async def close(self) -> None:
        """See `Nodes`."""
        await self._link.close()

    async def _fixed(self) -> Address:
        return self._target.addresses[0]

    async def _primary(self) -> Address:
        return await first_of(self._target.addresses, self._ask_sentinel)

    async def _ask_sentinel(self, sentinel: Address) -> Address:
        name = pack("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._target.service)
        found = await _ask_once(sentinel, self._sentinel, name)
        if not isinstance(found, list) or len(found) != 2:
            raise StoreError("Sentinel knows no primary of this service")
        return found[0].decode(), int(found[1])


class Cluster:
    """A cluster: partitions by hash slot, a link to each primary."""

    partitions = PARTITIONS

    def __init__(
        self, target: Target, follow: tuple[str, ...], *, pushed: Pushed, moved: Callable[[], None]
    ) -> None:
        """Begin to look for the nodes."""
        tls = target.tls.context() if target.tls else None
        self._target = target
        self._entry = Entry(target.login, tls, 0, follow)
        self._pushed = pushed
        self._moved = moved
        self._links: dict[Address, Link] = {}
        self._owners: tuple[Address, ...] = ()
        self._slots = [slot_of(b"%d" % number) for number in range(PARTITIONS)]
        self._doubt = asyncio.Event()
        self._retired: set[asyncio.Task[None]] = set()
        self._found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def ready(self, partition: int) -> Connection | None:
        """See `Nodes`."""
        return self._to(self._owners[partition]).connection if self._owners else None

    async def connection(self, partition: int) -> Connection:
        """See `Nodes`."""
        await asyncio.shield(self._found)
        if not self._owners:
            raise StoreError("the cluster's nodes are not known yet")
        return await self._to(self._owners[partition]).connected()

    def watching(self) -> bool:
        """See `Nodes`."""
        return bool(self._owners) and all(self._to(each).told for each in set(self._owners))

    async def redirected(self, refused: Refused, partition: int, command: bytes) -> object:
        """See `Nodes`; follows a move once and asks for the new map."""
        if refused.code in {*MOVES, "TRYAGAIN", *_WRONG_NODE}:
            self._doubt.set()
        if refused.code in _WRONG_NODE:
            self._to(self._owners[partition]).distrust(str(refused))
        if refused.code not in MOVES:
            raise refused
        host, _, port = refused.said.split(" ")[2].rpartition(":")
        address = host or self._owners[partition][0], int(port)
        connection = await self._to(address).connected()
        if refused.code == "ASK":
            connection.call(pack("ASKING")).add_done_callback(_told)
        return await connection.call(command)

    async def close(self) -> None:
        """See `Nodes`."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._found.done():
            self._found.set_result(None)
        for link in self._links.values():
            await link.close()
        if self._retired:
            await asyncio.wait(self._retired)

    def _to(self, address: Address) -> Link:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(
                partial(_same, address), self._entry, pushed=self._pushed, moved=self._link_moved
            )
        return link

    def _link_moved(self) -> None:
        self._doubt.set()
        self._moved()

    async def _follow(self) -> None:
        while True:
            self._doubt.clear()
            good = await self._look()
            if not self._found.done():
                self._found.set_result(None)
            try:
                async with asyncio.timeout(LOOK_EVERY if good else LOOK_AGAIN):
                    await self._doubt.wait()
                await asyncio.sleep(LOOK_AGAIN)
            except TimeoutError:
                pass

    async def _look(self) -> bool:
        seeds = dict.fromkeys((*self._owners, *self._target.addresses))
        try:
            owners = await first_of(list(seeds), self._ask_map)
        except StoreError as fault:
            log.debug("the cluster cannot be looked at: %s", fault)
            return False
        if owners != self._owners:
            self._owners = owners
            for gone in set(self._links) - set(owners):
                retired = asyncio.create_task(self._links.pop(gone).close())
                self._retired.add(retired)
                retired.add_done_callback(self._retired.discard)
            for address in set(owners):
                self._to(address)
            self._moved()
        return True

    async def _ask_map(self, address: Address) -> tuple[Address, ...]:
        ranges = await _ask_once(address, msgspec.structs.replace(self._entry, follow=()), _SLOTS)
        owners = [_owner(ranges, slot, address[0]) for slot in self._slots]
        return tuple(owners)


_SLOTS = pack("CLUSTER", "SLOTS")


def slot_of(tag: bytes) -> int:
    """The hash slot of a key with this hash tag."""
    return binascii.crc_hqx(tag, 0) % 16384


def _owner(ranges: object, slot: int, asked: str) -> Address:
    try:
        for first, last, primary, *_ in cast("list[Any]", ranges):
            if first <= slot <= last:
                return (primary[0] or b"").decode() or asked, int(primary[1])
    except (TypeError, ValueError, IndexError, AttributeError):
        raise StoreError("the cluster's map cannot be read") from None
    raise StoreError("the cluster does not cover all slots")


async def _ask_once(address: Address, entry: Entry, command: bytes) -> object:
    connection, _ = await dial(address, entry, _deaf)
    try:
        async with asyncio.timeout(1.0):
            return await connection.call(command)
    except TimeoutError:
        raise StoreError("the node is silent") from None
    finally:
        connection.fail("no longer needed")


async def _same(address: Address) -> Address:
    return address


def _deaf(_message: list[Any]) -> None:
    """For connections that ask one thing."""


def _told(asking: asyncio.Future[Any]) -> None:
    """An error is that of the call that follows as well."""
    if not asking.cancelled():
        asking.exception()
