"""Memcached's meta commands: a block is an item, or several where it is larger than one may be.

The first item holds the header and the beginning of the payload, under the block's own name; it is
written last, so where it is, the others were. The block's checksum covers them all.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from askonce.kv.ports import FAULTS
from askonce.kv.transports.fleet import Fleet, Talk
from askonce.kv.transports.inbox import (
    Garbage,
    Inbox,
    Reading,
    read_end,
    read_into,
    read_line,
    read_number,
    read_past,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.ports import Arrived, Buffer, Outcome, Outcomes
    from askonce.kv.transports.fleet import Routes
    from askonce.units import Seconds

_RELATIVE = 30 * 24 * 3600
"""A longer life is told as a moment."""


_MOST_STATS = 4096
_LARGEST_ITEM = 1024 * 1024 * 1024


class _Item(NamedTuple):
    block: int
    name: bytes
    parts: tuple[memoryview, ...]


class MemcachedTransport:
    """A `BlockTransport` over one server, or over several that share the items."""

    def __init__(self, routes: Routes, *, lanes: int = 1, item_bytes: int = 1_000_000) -> None:
        """item_bytes: of the largest item, below the server's `-I` by 512 bytes at least."""
        self._fleet = Fleet(routes, lanes=lanes)
        self._item_bytes = item_bytes

    def exists(self, keys: Sequence[bytes], *, deadline: Seconds) -> Outcomes:
        """Whether the first items are there."""
        talk = Talk(lambda index: (b"mg %b\r\n" % keys[index],), _read_status)
        return self._fleet.call(keys, talk, deadline)

    def fetch(
        self,
        keys: Sequence[bytes],
        headers: Sequence[memoryview],
        payloads: Sequence[memoryview],
        *,
        deadline: Seconds,
        arrived: Arrived | None = None,
    ) -> Outcomes:
        """All items of all blocks at once."""
        items = self._items(keys, headers, payloads)
        missing = Counter(item.block for item in items)

        def read(inbox: Inbox, index: int) -> Reading[Outcome]:
            told = yield from _read_item(inbox, items[index].parts)
            if told == "done":
                block = items[index].block
                missing[block] -= 1
                if arrived is not None and not missing[block]:
                    arrived(block)
            return told

        talk = Talk(
            lambda index: (b"mg %b v\r\n" % items[index].name,),
            read,
            self._size(items),
            answers=True,
        )
        told = self._fleet.call([item.name for item in items], talk, deadline)
        outcomes = _whole(items, told, len(keys))
        for item, said in zip(items, told, strict=True):
            first = item.name == keys[item.block]
            if first and said == "done" and outcomes[item.block] == "missing":
                outcomes[item.block] = "size"  # it is cut short, and in the way of a whole one
        return outcomes

    def put(
        self,
        keys: Sequence[bytes],
        headers: Sequence[Buffer],
        payloads: Sequence[Buffer],
        *,
        ttl: Seconds | None,
        deadline: Seconds,
        replace: bool = False,
    ) -> Outcomes:
        """The further items of all blocks, then the first of those that are well until then."""
        items = self._items(keys, headers, payloads)
        firsts = [item for item in items if item.name == keys[item.block]]
        further = [item for item in items if item.name != keys[item.block]]
        outcomes: Outcomes = ["done"] * len(keys)
        if further and not replace:
            there = self.exists(keys, deadline=deadline)
            outcomes = [_SEEN.get(said, said) for said in there]
            further = [item for item in further if outcomes[item.block] == "done"]
        life = _life(ttl)
        if further:
            told = _whole(further, self._set(further, life + b" MS", deadline), len(keys))
            for item in further:
                outcomes[item.block] = told[item.block]
        firsts = [item for item in firsts if outcomes[item.block] == "done"]
        how = life + (b" MS" if replace else b" ME")
        for item, said in zip(firsts, self._set(firsts, how, deadline), strict=True):
            outcomes[item.block] = said
        return outcomes

    def delete(self, keys: Sequence[bytes], *, deadline: Seconds) -> Outcomes:
        """The first items; without them the others are never asked for, and age away."""
        talk = Talk(lambda index: (b"md %b\r\n" % keys[index],), _read_status)
        return self._fleet.call(keys, talk, deadline)

    def servers(self, *, deadline: Seconds) -> dict[str, dict[str, str] | None]:
        """`stats` of each."""
        told = self._fleet.ask_all(b"stats\r\n", _read_stats, deadline)
        return {place: None if text is None else _fields(text) for place, text in told.items()}

    def peek(self, key: bytes, size: int, *, deadline: Seconds) -> bytes | None:
        """The beginning of the first item."""
        told = self._fleet.ask_about(key, b"mg %b v\r\n" % key, _read_any_item, deadline)
        return None if told is None else told[:size]

    def close(self) -> None:
        """Hang up everywhere."""
        self._fleet.close()

    def _set(self, items: Sequence[_Item], how: bytes, deadline: Seconds) -> Outcomes:
        def out(index: int) -> Sequence[Buffer]:
            item = items[index]
            size = sum(part.nbytes for part in item.parts)
            return (b"ms %b %d %b\r\n" % (item.name, size, how), *item.parts, b"\r\n")

        talk = Talk(out, _read_status, self._size(items))
        return self._fleet.call([item.name for item in items], talk, deadline)

    def _items(
        self, keys: Sequence[bytes], headers: Sequence[Buffer], payloads: Sequence[Buffer]
    ) -> list[_Item]:
        items: list[_Item] = []
        for block, (key, header, payload) in enumerate(zip(keys, headers, payloads, strict=True)):
            head, rest = memoryview(header), memoryview(payload)
            first = self._item_bytes - head.nbytes
            items.append(_Item(block, key, (head, rest[:first])))
            starts = range(first, rest.nbytes, self._item_bytes)
            items += [
                _Item(block, b"%b~%d" % (key, number), (rest[at : at + self._item_bytes],))
                for number, at in enumerate(starts, start=1)
            ]
        return items

    def _size(self, items: Sequence[_Item]) -> int:
        return sum(part.nbytes for part in items[0].parts) if items else 0


_SEEN: dict[Outcome, Outcome] = {"done": "present", "missing": "done"}


def _whole(items: Sequence[_Item], told: Outcomes, count: int) -> Outcomes:
    """A block is done when all its items are; otherwise the worst of them counts."""
    outcomes: Outcomes = ["done"] * count
    for item, said in zip(items, told, strict=True):
        if said != "done" and outcomes[item.block] not in FAULTS:
            outcomes[item.block] = said
    return outcomes


def _life(ttl: Seconds | None) -> bytes:
    if ttl is None:
        return b"T0"
    seconds = max(math.ceil(ttl), 1)
    return b"T%d" % (seconds if seconds <= _RELATIVE else time.time() + seconds)


def _read_status(inbox: Inbox, _: int) -> Reading[Outcome]:
    line = yield from read_line(inbox)
    match line[:2], line[2:3]:
        case b"HD", b"" | b" ":
            return "done"
        case b"EN" | b"NF", b"":
            return "missing"
        case b"NS", b"" | b" ":
            return "present"
        case _:
            return _refusal(line)


def _read_item(inbox: Inbox, views: Sequence[memoryview]) -> Reading[Outcome]:
    line = yield from read_line(inbox)
    if line == b"EN":
        return "missing"
    if line[:3] != b"VA ":
        return _refusal(line)
    size = read_number(line[3:].split(b" ", 1)[0])
    if size != sum(view.nbytes for view in views):
        yield from read_past(inbox, size)
        return "size"
    yield from read_into(inbox, views)
    yield from read_end(inbox)
    return "done"


def _refusal(line: bytes) -> Outcome:
    """What an error means; after any but a server's own the connection cannot be understood."""
    if line.startswith((b"SERVER_ERROR out of memory", b"SERVER_ERROR object too large")):
        return "full"
    if line.startswith(b"SERVER_ERROR"):
        return "refused"
    raise Garbage("no answer")


def _read_stats(inbox: Inbox) -> Reading[bytes | None]:
    lines: list[bytes] = []
    while (line := (yield from read_line(inbox))) != b"END":
        if not line.startswith(b"STAT ") or len(lines) > _MOST_STATS:
            raise Garbage("no statistics")
        lines.append(line[5:])
    return b"\n".join(lines)


def _read_any_item(inbox: Inbox) -> Reading[bytes | None]:
    line = yield from read_line(inbox)
    if line[:3] != b"VA ":
        return None
    size = read_number(line[3:].split(b" ", 1)[0])
    if not 0 <= size <= _LARGEST_ITEM:
        raise Garbage("an item larger than any")
    value = bytearray(size)
    yield from read_into(inbox, [memoryview(value)])
    yield from read_end(inbox)
    return bytes(value)


def _fields(text: bytes) -> dict[str, str]:
    lines = (line.partition(" ") for line in text.decode(errors="replace").splitlines())
    return {name: value for name, blank, value in lines if blank}
