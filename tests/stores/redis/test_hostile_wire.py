"""Whatever the server says, nobody gets what is not theirs, and nobody is stuck."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.stores.redis.hostile import Hostile, array, bulk, hostile

from askonce.clock import SystemClock
from askonce.errors import CacheFault, EntryUnreadable, StoreError
from askonce.stores.redis import wire
from askonce.stores.redis.address import read_url
from askonce.stores.redis.frame import build
from askonce.stores.redis.store import RedisStore
from askonce.testing import RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

GENERATION = b"g" * 8


@asynccontextmanager
async def meeting() -> AsyncIterator[tuple[Hostile, RedisStore]]:
    """A hostile server and a store that trusts it."""
    async with hostile() as server:
        url = f"redis://127.0.0.1:{server.port}"
        store = RedisStore(read_url(url), clock=SystemClock(), sink=RecordingSink())
        try:
            yield server, store
        finally:
            await store.close()


def held(key: bytes, value: bytes, *, life: float = 60.0) -> bytes:
    """An entry on the wire, as an honest server would give it."""
    frame = build(key, value, SystemClock().now() + life, [])
    return array(bulk(GENERATION), bulk(GENERATION + bytes(16) + frame))


def honest(command: list[bytes]) -> bytes:
    """Every key's value is of the key."""
    key = command[2].rpartition(b":")[2]
    return held(key, b"of " + key)


async def recovers(store: RedisStore, server: Hostile) -> bool:
    """Whether the store works again, in a moment, over a new connection."""
    server.says = honest
    for _ in range(100):
        try:
            return await store.get(b"again") == b"of again"
        except CacheFault:
            await asyncio.sleep(0.02)
    return False


GARBAGE: dict[str, bytes] = {
    "not the protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "zeroes": bytes(64),
    "a wrong kind": b":17\r\n",
    "a text": b"+OK\r\n",
    "too few": array(bulk(GENERATION)),
    "too many": array(*[bulk(b"x")] * 3),
    "a number where a value stands": array(bulk(GENERATION), b":1\r\n"),
    "a negative length": b"$-7\r\nabc\r\n",
    "a length past all bounds": b"$99999999999999999999\r\n",
    "an array past all bounds": b"*99999999999999999999\r\n",
    "arrays in arrays": b"*1\r\n" * 40,
    "another key's value": held(b"other", b"secret"),
    "two replies at once": array(b"_\r\n", b"_\r\n") * 2,
}


@pytest.mark.parametrize("name", list(GARBAGE))
async def test_garbage_is_never_an_answer(name: str) -> None:
    """It raises or finds nothing, closes the connection, and the next one works."""
    async with meeting() as (server, store):
        server.says = lambda _: GARBAGE[name]
        with suppress(StoreError):
            assert await store.get(b"k") is None
        assert await recovers(store, server)
        assert server.entered == 2


async def test_a_damaged_value_does_not_cost_the_connection() -> None:
    """A value that rots in the server is unreadable, and that is all."""
    async with meeting() as (server, store):
        whole = held(b"k", b"value")
        server.says = lambda _: whole.replace(b"value", b"vague")
        with pytest.raises(EntryUnreadable):
            await store.get(b"k")
        server.says = lambda _: array(bulk(GENERATION), bulk(GENERATION + bytes(20)))
        with pytest.raises(EntryUnreadable):
            await store.get(b"k")
        assert await recovers(store, server)
        assert server.entered == 1


async def test_an_old_generation_and_an_ended_life_are_misses() -> None:
    """What was cleared is gone, and so is what is past its end by our own clock."""
    async with meeting() as (server, store):
        server.says = lambda _: held(b"k", b"v").replace(GENERATION, b"h" * 8, 1)
        assert await store.get(b"k") is None
        server.says = lambda _: held(b"k", b"v", life=-1)
        assert await store.get(b"k") is None


async def test_swapped_replies_are_nobodys() -> None:
    """With all replies in the wrong order not one caller gets another's value."""
    async with meeting() as (server, store):
        pending: list[bytes] = []

        def swap(command: list[bytes]) -> bytes:
            pending.append(honest(command))
            if len(pending) < 8:
                return b""
            said = [pending[-1], *pending[:-1]]
            pending.clear()
            return b"".join(said)

        server.says = swap
        keys = [b"k%d" % number for number in range(8)]
        got = await asyncio.gather(*map(store.get, keys), return_exceptions=True)
        assert all(isinstance(each, StoreError) for each in got)
        assert await recovers(store, server)


async def test_an_answer_for_another_script_is_refused() -> None:
    """Numbers carry no key, so scripts give back their caller's own."""
    async with meeting() as (server, store):
        server.says = lambda _: array(b"$1\r\n7\r\n", b":1\r\n")
        with pytest.raises(StoreError, match="another's reply"):
            await store.delete(b"k")
        assert await recovers(store, server)


async def test_a_shift_is_noticed_by_the_sign_of_life() -> None:
    """A server that says one thing too much is left, even when nobody asks it anything."""
    async with meeting() as (server, store):
        server.says = honest
        assert await store.get(b"k") == b"of k"
        server.shout(b"+OK\r\n")
        await asyncio.sleep(0.05)
        assert await recovers(store, server)
        assert server.entered == 2


async def test_given_up_calls_do_not_shift_the_others() -> None:
    """Callers leave at random; each that stays gets its own."""
    draw = random.Random(7)
    async with meeting() as (server, store):

        async def slow(command: list[bytes]) -> bytes:
            if draw.random() < 0.2:
                await asyncio.sleep(0.002)
            return honest(command)

        server.says = slow

        async def one(number: int) -> bool:
            key = b"k%d" % number
            try:
                async with asyncio.timeout(draw.choice([0, 0.001, 0.01, 5])):
                    return await store.get(key) == b"of " + key
            except TimeoutError:
                return True

        assert all(await asyncio.gather(*map(one, range(600))))
        assert server.entered == 1


async def test_what_the_server_says_unasked_is_no_reply() -> None:
    """Pushes between, before and after replies, known or not, shift nothing."""
    push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$14\r\naskonce:e{0}:x\r\n"
    strange = b">3\r\n+message\r\n+a\r\n+b\r\n"
    async with meeting() as (server, store):
        told: list[object] = []
        server.says = lambda command: push + honest(command) + strange
        await store.get(b"k")
        store.watch(told.append)
        for number in range(20):
            assert await store.get(b"%d" % number) == b"of %d" % number
        assert told.count([b"x"]) == 20
        assert server.entered == 1


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
async def test_half_a_reply_fails_those_who_wait(cut: int) -> None:
    """The server hangs up in the middle of a reply."""
    async with meeting() as (server, store):

        async def half(command: list[bytes]) -> None:
            server.shout(honest(command)[:cut])

        server.says = half
        waits = [asyncio.create_task(store.get(b"%d" % number)) for number in range(4)]
        done = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(each, StoreError) for each in done)
        assert await recovers(store, server)


async def test_replies_in_any_pieces_are_whole() -> None:
    """Bytes may come one at a time."""
    async with meeting() as (server, store):

        async def drip(command: list[bytes]) -> bytes:
            for byte in honest(command):
                server.shout(bytes([byte]))
                await asyncio.sleep(0)
            return b""

        server.says = drip
        assert await store.get(b"k") == b"of k"


async def test_a_reply_without_end_is_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past what any value can take, the connection is closed."""
    monkeypatch.setattr(wire, "LARGEST_REPLY", 100_000)
    async with meeting() as (server, store):
        server.says = lambda _: b"$50000000\r\n" + bytes(200_000)
        with pytest.raises(StoreError, match="without end"):
            await store.get(b"k")
        assert await recovers(store, server)


async def test_too_many_calls_are_shed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than may wait fails at once, and the others are served."""
    monkeypatch.setattr(wire, "WAITING", 10)
    async with meeting() as (server, store):
        server.says = honest
        await store.get(b"k")
        got = await asyncio.gather(*[store.get(b"k") for _ in range(12)], return_exceptions=True)
        assert sum(isinstance(each, StoreError) for each in got) >= 2
        assert got.count(b"of k") >= 9


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"-OOM command not allowed\r\n", "full"),
        (b"-LOADING Redis is loading\r\n", "loading"),
        (b"-NOREPLICAS Not enough good replicas\r\n", "too few replicas"),
        (b"-NOPERM this user has no permissions\r\n", "may not"),
        (b"-ERR whatever\r\n", "whatever"),
        (b"-MOVED 1 127.0.0.1:1\r\n", "MOVED"),
    ],
)
async def test_refusals_are_told_and_keep_the_connection(said: bytes, told: str) -> None:
    """What the server cannot do just now is a StoreError in plain words."""
    async with meeting() as (server, store):
        server.says = lambda _: said
        calls: list[Callable[[], object]] = [
            lambda: store.get(b"k"),
            lambda: store.put(b"k", b"v", ttl=Seconds(1.0)),
            lambda: store.delete(b"k"),
            store.epoch,
        ]
        for call in calls:
            with pytest.raises(StoreError, match=told):
                await call()  # type: ignore[misc]
        assert await recovers(store, server)
        assert server.entered == 1


async def test_a_replica_is_left() -> None:
    """READONLY means that the primary is elsewhere by now: connect anew."""
    async with meeting() as (server, store):
        server.says = lambda _: b"-READONLY You can't write against a read only replica.\r\n"
        with pytest.raises(StoreError, match="replica"):
            await store.put(b"k", b"v", ttl=Seconds(1.0))
        assert await recovers(store, server)
        assert server.entered == 2


async def test_an_old_server_is_named() -> None:
    """One that does not know HELLO is told apart from one that is away."""
    async with hostile() as server:
        server.hello = b"-ERR unknown command 'HELLO'\r\n"
        url = f"redis://127.0.0.1:{server.port}"
        store = RedisStore(read_url(url), clock=SystemClock(), sink=RecordingSink())
        with pytest.raises(StoreError, match="unknown command"):
            await store.get(b"k")
        await store.close()


async def test_without_a_server_calls_fail_at_once() -> None:
    """After the first attempt nobody waits for a server that is not there."""
    async with hostile() as server:
        port = server.port
    store = RedisStore(
        read_url(f"redis://127.0.0.1:{port}"), clock=SystemClock(), sink=RecordingSink()
    )
    with pytest.raises(StoreError, match="cannot be entered"):
        await store.get(b"k")
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(1000):
        with pytest.raises(StoreError):
            await store.get(b"k")
    assert loop.time() - began < 0.5
    await store.close()
