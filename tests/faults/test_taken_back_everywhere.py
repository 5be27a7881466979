"""What one gateway process takes back is gone from all of them, under constant load."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import pytest
from tests.servers.memcached import memcached
from tests.servers.process import ROOT, Server, free_port
from tests.servers.redis import redis

from askonce.testing.answers import Asked, Chat, Reply
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(120)]

GATEWAYS = 4
QUESTIONS = 8
VISIBLE = 1.0
"""Seconds until no replica says what was taken back."""
ROUNDS = 2
ADMIN = "an-admin-token-of-this-test-alone"

_CONFIG = """
[server]
port = {port}
data_dir = "{folder}"
[[upstream]]
url = "{engine}"
name = "engine"
[exact]
store = "{store}"
deadline = 0.5
[semantic]
enabled = false
[tenants]
secret = "the same for all replicas"
[admin]
port = {admin}
[admin.tokens]
operator = "{token}"
"""


@contextmanager
def store(kind: str, folder: Path) -> Iterator[str]:
    """A server and its URL."""
    if kind == "memcached":
        with memcached(folder) as server:
            yield server.url
    else:
        with redis("valkey" if kind == "valkey" else "redis7", folder) as server:
            yield server.url


class Gateway(NamedTuple):
    """A process of its own."""

    server: Server
    port: int
    admin: int


def begun(folder: Path, engine: str, url: str) -> Gateway:
    """A gateway that starts."""
    folder.mkdir()
    port, admin = free_port(), free_port()
    file = folder / "askonce.toml"
    file.write_text(
        _CONFIG.format(port=port, folder=folder, engine=engine, store=url, admin=admin, token=ADMIN)
    )
    environment = [f"PYTHONPATH={ROOT / 'src'}", f"ASKONCE_CONFIG={file}"]
    command = ["env", *environment, sys.executable, "-m", "askonce", "serve"]
    server = Server(command, folder, lambda: _listens(port))
    server.begin()
    return Gateway(server, port, admin)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class Callers:
    """Ask all gateways all the time; the engine says which edition of the world it knows."""

    def __init__(self, client: aiohttp.ClientSession, ports: list[int]) -> None:
        self.edition = 0
        self.last: dict[tuple[int, int], float] = {}
        """When each gateway was last asked and told of each edition."""
        self.answers = 0
        self._client = client
        self._ports = ports

    def says(self, asked: Asked) -> Reply:
        """The engine."""
        return Chat(text=f"edition {self.edition}")(asked)

    async def ask(self, place: int, question: int) -> int:
        """The edition that a gateway tells of."""
        messages = [{"role": "user", "content": f"What is {question}?"}]
        url = f"http://127.0.0.1:{self._ports[place]}/v1/chat/completions"
        headers = {"authorization": "Bearer sk-one"}
        body = {"model": "m", "messages": messages}
        async with self._client.post(url, json=body, headers=headers) as response:
            assert response.status == 200
            said: dict[str, Any] = await response.json()
        self.answers += 1
        return int(said["choices"][0]["message"]["content"].split()[1])

    async def load(self, place: int) -> None:
        """One gateway's constant load."""
        while True:
            for question in range(QUESTIONS):
                began = time.monotonic()
                edition = await self.ask(place, question)
                self.last[place, edition] = began


@pytest.mark.parametrize("kind", ["redis", "valkey", "memcached"])
async def test_nobody_says_what_was_taken_back(kind: str, tmp_path: Path) -> None:
    """At once on the replica that was told, and within a second on all others."""
    with ExitStack() as stack:
        (tmp_path / "store").mkdir()
        url = stack.enter_context(store(kind, tmp_path / "store"))
        async with FakeEngine() as engine, aiohttp.ClientSession() as client:
            places = []
            for number in range(GATEWAYS):
                places.append(begun(tmp_path / f"g{number}", engine.url, url))
                stack.callback(places[-1].server.kill)
            for place in places:
                place.server.await_ready()
            callers = Callers(client, [place.port for place in places])
            engine.otherwise = callers.says
            load = [asyncio.create_task(callers.load(number)) for number in range(GATEWAYS)]
            worst = 0.0
            for turn in range(ROUNDS):
                await asyncio.sleep(0.6)
                worst = max(worst, await _take_back(callers, client, places, turn % GATEWAYS))
            for task in load:
                task.cancel()
            await asyncio.wait(load)
            assert all(task.cancelled() for task in load), load
            assert worst < VISIBLE
            assert callers.answers > 100


async def _take_back(
    callers: Callers,
    client: aiohttp.ClientSession,
    places: list[Gateway],
    teller: int,
) -> float:
    """Seconds until the old edition was last asked for and told, by any gateway."""
    old, callers.edition = callers.edition, callers.edition + 1
    url = f"http://127.0.0.1:{places[teller].admin}/askonce/v1/invalidate"
    headers = {"authorization": f"Bearer {ADMIN}"}
    asked = {"what": {"model": "m"}, "why": "a new edition"}
    async with client.post(url, json=asked, headers=headers) as response:
        assert response.status == 200, await response.text()
    returned = time.monotonic()
    for question in range(QUESTIONS):
        assert await callers.ask(teller, question) > old
    await asyncio.sleep(VISIBLE + 0.3)
    stale = {place: callers.last.get((place, old), 0.0) - returned for place in range(GATEWAYS)}
    assert stale[teller] <= 0
    return max(stale.values())
