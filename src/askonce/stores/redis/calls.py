"""Commands and scripts over the nodes, each answer checked to be the caller's own."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING, Any

from askonce.errors import StoreError
from askonce.stores.redis.keys import Names
from askonce.stores.redis.nodes import MOVES, Cluster, Nodes, OneNode
from askonce.stores.redis.wire import Refused, need_parser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.stores.redis.address import Target
    from askonce.stores.redis.scripts import Script
    from askonce.stores.redis.wire import Connection

_REASONS = {
    "OOM": "the server is full and evicts nothing",
    "READONLY": "the server is a replica",
    "NOREPLICAS": "the server has too few replicas to take writes",
    "LOADING": "the server is still loading",
    "NOPERM": "the user may not do this",
    "CROSSSLOT": "the server is a cluster: write redis+cluster://",
}


def _ignore(*_: object) -> None:
    """For those to whom it does not matter."""


class Calls:
    """The way to the server; create it inside a running event loop."""

    def __init__(
        self,
        target: Target,
        *,
        told: Callable[[list[Any]], None] = _ignore,
        moved: Callable[[], None] = _ignore,
        follow: bool = True,
    ) -> None:
        """Begin to connect; raises MissingExtra.

        told: takes what servers say unasked. moved: links came or went. follow: have the servers
        tell of changed keys.
        """
        need_parser()
        cluster = target.kind == "cluster"
        self.names = names = Names(target.namespace, Cluster.partitions if cluster else 1)
        self.nodes: Nodes = (Cluster if cluster else OneNode)(
            target, names.followed if follow else (), pushed=told, moved=moved
        )
        self._numbers = itertools.count()
        self.closed = False

    async def connection(self, partition: int) -> Connection:
        """An open connection to the partition's node; raises StoreError."""
        if self.closed:
            raise StoreError("the store is closed")
        return self.nodes.ready(partition) or await self.nodes.connection(partition)

    async def ask(self, partition: int, command: bytes) -> object:
        """The reply to one command; raises StoreError."""
        connection = await self.connection(partition)
        try:
            return await connection.call(command)
        except Refused as refused:
            return await self._elsewhere(refused, partition, command)

    async def run(
        self, script: Script, partition: int, keys: Sequence[bytes], args: Sequence[bytes]
    ) -> list[Any]:
        """What a script says beyond its caller's number; raises StoreError.

        keys: beyond those that every script has.
        """
        number = b"%d" % next(self._numbers)
        names = [*self.names.book(partition), *keys]
        given = [number, secrets.token_bytes(8), *args]
        connection = await self.connection(partition)
        try:
            reply = await connection.call(script.short(names, given))
        except Refused as refused:
            if refused.code not in {"NOSCRIPT", *MOVES}:
                await self._elsewhere(refused, partition, b"")
            # The node that it moved to may not know the script.
            reply = await self.ask(partition, script.whole(names, given))
        if not isinstance(reply, list) or not reply or reply[0] != number:
            connection.fail("the server speaks garbage: another's reply")
            raise StoreError("the server speaks garbage: another's reply")
        return reply[1:]

    async def everywhere(
        self, script: Script, keys: Callable[[int], list[bytes]], *args: bytes
    ) -> list[list[Any]]:
        """What a script says in each partition, in their order; raises StoreError."""
        runs = [
            self.run(script, partition, keys(partition), args)
            for partition in range(self.nodes.partitions)
        ]
        return [await runs[0]] if len(runs) == 1 else list(await asyncio.gather(*runs))

    async def close(self) -> None:
        """Release everything; idempotent."""
        self.closed = True
        await self.nodes.close()

    async def _elsewhere(self, refused: Refused, partition: int, command: bytes) -> object:
        """Follow a move; else the refusal in words that help."""
        try:
            return await self.nodes.redirected(refused, partition, command)
        except Refused as last:
            raise StoreError(_REASONS.get(last.code, str(last))) from None
