"""Processes that use one store file at once; run as `python sqlite_child.py ROLE ...`.

write PATH SEED COUNT BOUND   puts COUNT values and ends
nursery PATH BOUND            for each line on stdin forks a child that writes until it is killed,
                              prints its id, and waits for its end
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sys
import time
from pathlib import Path

from askonce.errors import StoreError
from askonce.stores.sqlite.store import SqliteStore
from askonce.testing import RecordingSink
from askonce.units import Seconds, UnixTime

KEYS = 400
HOUR = Seconds(3600.0)


class WallClock:
    """The real clock."""

    def now(self) -> UnixTime:
        """The wall clock."""
        return UnixTime(time.time())

    def monotonic(self) -> Seconds:
        """Never goes back."""
        return Seconds(time.monotonic())


def key_of(number: int) -> bytes:
    """One of a few keys, so that writers meet."""
    return hashlib.sha256(b"%d" % (number % KEYS)).digest()


def value_of(key: bytes, number: int) -> bytes:
    """A value that says which key it belongs to and whether it is whole; 0.1 to 40 kB."""
    body = hashlib.shake_256(key + b"%d" % number).digest(100 + (number * 7919) % 40_000)
    return hashlib.sha256(key + body).digest() + body


def is_right(key: bytes, value: bytes) -> bool:
    """Whether a value is one that was put under this key, whole."""
    return hashlib.sha256(key + value[32:]).digest() == value[:32]


def open_at(path: Path, bound: int) -> SqliteStore:
    """The store under test."""
    return SqliteStore(path, clock=WallClock(), sink=RecordingSink(), max_bytes=bound)


async def put_many(store: SqliteStore, seed: int, count: int) -> int:
    """Put values, delete and clear now and then; returns how many calls failed."""
    chance = random.Random(seed)
    failed = 0
    for _ in range(count):
        number = chance.randrange(10**9)
        key = key_of(number)
        try:
            await asyncio.gather(
                store.put(key, value_of(key, number), ttl=HOUR, tags=(f"t{number % 5}",)),
                store.delete(key_of(number // 7)) if number % 10 == 0 else store.get(key),
                store.delete_tag("t1") if number % 97 == 0 else store.epoch(),
            )
        except StoreError:
            failed += 1
    return failed


async def write(path: Path, seed: int, count: int, bound: int) -> None:
    """Put values, check what is read, and print how many calls failed."""
    store = open_at(path, bound)
    failed = await put_many(store, seed, count)
    for number in range(KEYS):
        value = await store.get(key_of(number))
        assert value is None or is_right(key_of(number), value)
    await store.close()
    say(failed)


def nursery(path: Path, bound: int) -> None:
    """Fork one writer for each line read."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(put_many_at(path, bound, int(line)))
        say(child)
        os.waitpid(child, 0)
        say("ended")


async def put_many_at(path: Path, bound: int, seed: int) -> None:
    """Write until killed."""
    await put_many(open_at(path, bound), seed, 10**9)


def say(word: object) -> None:
    """Answer whoever started this process."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        asyncio.run(write(Path(sys.argv[2]), *map(int, sys.argv[3:6])))
    else:
        nursery(Path(sys.argv[2]), int(sys.argv[3]))
