"""A thousand losses of the wire leave no task and no connection behind."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.faults.proxy import proxy
from tests.faults.scene import held, open_scene
from tests.gateway.house import near
from tests.servers.memcached import memcached
from tests.servers.postgres import postgres
from tests.servers.redis import redis

from askonce.stores.memcached import server as memcached_server
from askonce.stores.redis import link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.proxy import Proxy, Target
    from tests.faults.scene import Scene
    from tests.servers.redis import Kind

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

log = logging.getLogger(__name__)

CYCLES = 1000
POOL = 16
"""Connections that a driver may keep for later, each with its two wires' ends."""
PLACES = ("redis", "memcached", "redis index", "postgresql index")


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[str, Target]]:
    """What kind of part, and where its server is."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askonce-")))
        target: Target
        if request.param.startswith("redis"):
            kind: Kind = "redis8" if request.param.endswith("index") else "redis7"
            target = "127.0.0.1", stack.enter_context(redis(kind, folder)).port
        elif request.param == "memcached":
            target = "127.0.0.1", stack.enter_context(memcached(folder)).port
        else:
            target = str(stack.enter_context(postgres()).folder / ".s.PGSQL.5432")
        yield request.param, target


def sections(kind: str, port: int) -> dict[str, Any]:
    """A house over this part behind the wire."""
    breaker = {"cooldown": 0.02}
    if not kind.endswith("index"):
        exact = {"store": f"{kind}://127.0.0.1:{port}", "memory_bytes": 0, "deadline": 0.05}
        return {"exact": exact, "breaker": breaker}
    url = f"redis://127.0.0.1:{port}"
    if kind.startswith("postgresql"):
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
    semantic = {"enabled": True, "index": url, "deadline": 0.05, "floor": 0.9}
    more = {"exact": {"store": "memory"}, "semantic": semantic, "breaker": breaker}
    return {**more, "embedder": near()}


async def test_nothing_is_left_behind(
    place: tuple[str, Target], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each loss comes in the middle of requests, which all are answered."""
    kind, target = place
    for module, name in ((link, "FIRST_PAUSE"), (link, "LAST_PAUSE")):
        monkeypatch.setattr(module, name, 0.001)
    monkeypatch.setattr(memcached_server, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(memcached_server, "LONGEST_PAUSE", 0.001)
    reworded = kind.endswith("index")
    async with (
        proxy(target) as wire,
        open_scene(tmp_path, **sections(kind, wire.port)) as scene,
    ):
        await lose(scene, wire, 50)
        await scene.until_it_hits(reworded=reworded)
        tasks, files = held()
        await lose(scene, wire, CYCLES - 50)
        await scene.until_it_hits(reworded=reworded)
        tasks_now, files_now = held()
    log.info("%d, %d tasks, %d, %d files", tasks, tasks_now, files, files_now)
    log.info("%d connections in %d cycles", wire.made, CYCLES)
    # A connection is two tasks for each of its ways and the wire's own, and two ends.
    assert tasks_now <= tasks + 5 * POOL
    assert files_now <= files + 2 * POOL
    assert wire.made > CYCLES / 10


async def lose(scene: Scene, wire: Proxy, times: int) -> None:
    """Cut and ask; every fifth time nothing can be reached at all."""
    for number in range(times):
        wire.refuses = number % 5 == 4
        wire.cut()
        await scene.ask(scene.fresh())
    wire.heal()
