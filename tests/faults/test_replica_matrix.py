"""A primary that fails over, a slot that moves, and clocks that disagree, under requests."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import hiredis
import pytest
from tests.faults.scene import answer_to, at_last, open_scene, says, text_of
from tests.gateway.house import body_of, marks, open_house
from tests.servers.redis import Redis, cluster, redis, tell, watched

from askonce.clock import SystemClock
from askonce.ports import Revocation, Selector
from askonce.stores.redis.nodes import slot_of
from askonce.stores.redis.wire import pack
from askonce.testing.engine import FakeEngine
from askonce.units import UnixTime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from tests.faults.scene import Scene
    from tests.gateway.house import House

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

HOUR = 3600.0
SECRET = {"secret": "the same for all replicas"}


def over(store: str) -> dict[str, Any]:
    """Sections for a store whose every hit is its own."""
    exact = {"store": store, "memory_bytes": 0, "deadline": 0.02}
    return {"exact": exact, "breaker": {"cooldown": 0.5}}


@asynccontextmanager
async def under_requests(scene: Scene) -> AsyncIterator[list[float]]:
    """Requests one after the other, known ones and new ones; how long each took."""
    known = [(await scene.until_it_hits())[1] for _ in range(4)]
    took: list[float] = []
    enough = asyncio.Event()

    async def ask() -> None:
        while not enough.is_set():
            question = known[len(took) % 4] if len(took) % 2 else scene.fresh()
            took.append((await scene.ask(question, stream=len(took) % 3 == 0))[0])
            await asyncio.sleep(0.002)

    task = asyncio.create_task(ask())
    try:
        yield took
    finally:
        enough.set()
        await task


async def test_a_failover_in_mid_request(tmp_path: Path) -> None:
    """While Sentinels replace the primary nobody fails; afterwards the new one is used."""
    with watched("redis7", tmp_path) as servers:
        async with open_scene(tmp_path, **over(servers.url)) as scene:
            async with under_requests(scene) as took:
                servers.primary.server.kill()
                await at_last(lambda: _leads(servers.replica), 20)
                await asyncio.sleep(0.2)
            assert len(took) > 100
            assert sorted(took)[len(took) // 2] < 0.05
            await scene.until_it_hits()


def _leads(node: Redis) -> bool:
    return tell(node.port, "ROLE").startswith("*3\r\n$6\r\nmaster")


async def test_slots_that_move_in_mid_request(tmp_path: Path) -> None:
    """While slots go from node to node nobody fails, and then all are used where they are."""
    with cluster("redis7", tmp_path) as nodes:
        store = f"redis+cluster://127.0.0.1:{nodes[0].port}"
        async with open_scene(tmp_path, **over(store)) as scene:
            async with under_requests(scene) as took:
                for partition in range(0, 64, 4):
                    await _move(nodes, slot_of(b"%d" % partition))
            assert len(took) > 10
            await scene.until_it_hits()


async def _move(nodes: Sequence[Redis], slot: int) -> None:
    place = slot * 3 // 16384
    source, target = nodes[place], nodes[(place + 1) % 3]
    ids = [_told(node, "CLUSTER", "MYID") for node in (source, target)]
    _told(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    _told(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    await asyncio.sleep(0.01)
    while names := _told(source, "CLUSTER", "GETKEYSINSLOT", slot, 100):
        for name in names:
            _told(source, "MIGRATE", "127.0.0.1", target.port, name, 0, 1000)
            await asyncio.sleep(0)
    for node in (target, source):
        _told(node, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    await asyncio.sleep(0.01)


def _told(node: Redis, *command: bytes | str | int) -> Any:
    reader = hiredis.Reader()
    with socket.create_connection(("127.0.0.1", node.port), timeout=5) as wire:
        wire.sendall(pack(*command))
        while (reply := reader.gets()) is False:
            reader.feed(wire.recv(65536))
    assert not isinstance(reply, hiredis.ReplyError), reply
    return reply


class Skewed(SystemClock):
    """A clock that is off."""

    def __init__(self, by: float) -> None:
        self._by = by

    def now(self) -> UnixTime:
        """See `Clock`."""
        return UnixTime(super().now() + self._by)


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
async def test_clocks_that_disagree(tmp_path: Path, skew: float) -> None:
    """An hour off either way: no request fails, no life is longer, what is taken back stays so."""
    with redis("redis7", tmp_path) as server:
        sections: dict[str, Any] = over(server.url) | {"tenants": SECRET}
        sections["exact"] |= {"deadline": 0.5}
        async with (
            FakeEngine(otherwise=says) as engine,
            open_house(tmp_path / "a", engine, started=True, **sections) as right,
            open_house(
                tmp_path / "b", engine, started=True, clock=Skewed(skew), **sections
            ) as wrong,
        ):
            houses = (right, wrong)
            for number in range(20):
                for house in (*houses, *reversed(houses)):
                    answer = await _asked(house, number)
                    assert int(answer.headers.get("age", 0)) <= HOUR + 2
            assert len(engine.asked) <= 60
            for teller, listener in (houses, reversed(houses)):
                await _taken_back_everywhere(teller, listener)
            await _short_lives(right, wrong)


async def _asked(house: House, number: int, *headers: str) -> Any:
    question = f"What is {number} worth?"
    answer = await house.ask(body_of(question), *headers)
    assert answer.status == 200
    assert text_of(answer) == answer_to(question)
    return answer


async def _taken_back_everywhere(teller: House, listener: House) -> None:
    """A rule of one holds at the other, whosever clock is ahead."""
    told, watch = teller.built.watch, listener.built.watch
    assert told is not None
    assert watch is not None
    before = watch.stamp
    await _asked(listener, 500)
    await _asked(teller, 500)
    await told.revoke(Revocation(what=Selector(model="m"), at=UnixTime(0)))
    assert "hit" not in marks(await _asked(teller, 500))
    await at_last(lambda: watch.stamp > before, 2.0)
    await _asked(teller, 501)
    await told.revoke(Revocation(what=Selector(model="m"), at=UnixTime(0)))
    await asyncio.sleep(1.0)
    assert "hit" not in marks(await _asked(listener, 501))


async def _short_lives(one: House, other: House) -> None:
    """A life of a second ends after a second for both."""
    await _asked(one, 600, "x-askonce-ttl: 1")
    await _asked(other, 601, "x-askonce-ttl: 1")
    await asyncio.sleep(1.3)
    for house, number in ((one, 601), (other, 600)):
        assert "hit" not in marks(await _asked(house, number))
