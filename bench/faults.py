"""What a store, an index or an embedder that fails costs each request, cause by cause.

Two gateways before one engine are asked in turn, one without a cache; every answer is compared with
what the engine says to that request. `added` is the time over the median without a cache.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import defaultdict
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.faults.causes import ANYWHERE, IN_REDIS, PASSWORD, USER, Place, in_redis
from tests.faults.proxy import proxy
from tests.faults.scene import BACK, open_scene
from tests.gateway.house import near
from tests.servers.memcached import memcached
from tests.servers.postgres import postgres
from tests.servers.redis import redis

from bench.report import tell
from bench.stats import Bar, Report, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tests.faults.proxy import Target
    from tests.faults.scene import Endured

    from bench.options import Options

EXACT, SEMANTIC = 0.005, 0.050
"""Seconds: the steps' deadlines as configured by default."""
FLIGHT = 0.050
"""Of joining another replica's call, until the store's breaker opens; Redis alone has that step."""
OPEN = Bar("<", 0.2)
REQUESTS = 100, 400
"""While a fault is noticed, and after that."""
SLACK = 1.1
"""Of the deadline: what giving a step up and going on may take as well."""
SERVES_ON = {"flapping", "out of memory", "read-only replica"}
"""Causes during which the part is used now and then: no bar for what it then costs."""


class Part(NamedTuple):
    """One part and how it is broken."""

    name: str
    deadline: float
    target: Target
    url: str
    """With a place for the wire's port."""
    causes: Mapping[str, Callable[[Place], AbstractAsyncContextManager[None]]]
    place: Callable[[Any], Place]
    """By the wire."""

    @property
    def semantic(self) -> bool:
        """Whether it is an index."""
        return self.deadline == SEMANTIC


def run(folder: Path, options: Options) -> Report:
    """All causes, `options.rounds` times; servers run while they are needed."""
    about = f"faults, {sum(REQUESTS)} requests each, every answer checked; p99 while noticed"
    report = Report("faults", about)
    logging.getLogger("askonce").setLevel(logging.CRITICAL)
    found: dict[tuple[str, str], list[Endured]] = defaultdict(list)
    with ExitStack() as stack:
        parts = _parts(folder, stack)
        gc.freeze()
        for turn in range(options.rounds):
            for part in parts:
                for cause in part.causes:
                    place = folder / f"{turn}-{len(found)}-{part.name}-{cause}".replace(" ", "-")
                    found[part.name, cause].append(asyncio.run(_endured(part, cause, place)))
                tell(f"faults {turn + 1}/{options.rounds}: {part.name}")
        for part in parts:
            for cause in part.causes:
                _tell(report, part, cause, found[part.name, cause])
    return report


def _parts(folder: Path, stack: ExitStack) -> list[Part]:
    for name in "rmi":
        (folder / name).mkdir()
    one = stack.enter_context(redis("redis7", folder / "r"))
    two = stack.enter_context(memcached(folder / "m"))
    three = stack.enter_context(redis("redis8", folder / "i"))
    four = stack.enter_context(postgres())
    login = f"redis://{USER}:{PASSWORD}@127.0.0.1:{{}}/0"
    plain = {name: each for name, each in IN_REDIS.items() if not name.startswith("endless")}
    return [
        Part(
            "Redis",
            EXACT,
            ("127.0.0.1", one.port),
            login,
            IN_REDIS,
            lambda wire: in_redis(one.server, wire, one.port),
        ),
        Part(
            "Memcached",
            EXACT,
            ("127.0.0.1", two.port),
            "memcached://127.0.0.1:{}",
            ANYWHERE,
            lambda wire: Place(two.server, wire),
        ),
        Part(
            "Redis vector sets",
            SEMANTIC,
            ("127.0.0.1", three.port),
            login,
            plain,
            lambda wire: in_redis(three.server, wire, three.port),
        ),
        Part(
            "PostgreSQL",
            SEMANTIC,
            str(four.folder / ".s.PGSQL.5432"),
            "postgresql://postgres@127.0.0.1:{}/postgres?sslmode=disable",
            ANYWHERE,
            lambda wire: Place(four.server, wire),
        ),
    ]


async def _endured(part: Part, cause: str, folder: Path) -> Endured:
    """With the default breaker."""
    async with AsyncExitStack() as stack:
        wire = await stack.enter_async_context(proxy(part.target))
        place = part.place(wire)
        url = part.url.format(wire.port)
        exact: dict[str, Any] = {"store": url, "memory_bytes": 0, "deadline": EXACT}
        sections: dict[str, Any] = {"exact": exact}
        if part.semantic:
            semantic = {"enabled": True, "index": url, "deadline": SEMANTIC, "floor": 0.9}
            sections = {"exact": {"store": "memory"}, "semantic": semantic, "embedder": near()}
        scene = await stack.enter_async_context(open_scene(folder, **sections))
        return await scene.endure(
            part.causes[cause](place),
            "semantic" if part.semantic else "store",
            reworded=part.semantic,
            requests=REQUESTS,
        )


def _tell(report: Report, part: Part, cause: str, rounds: list[Endured]) -> None:
    def sample(figures: list[float]) -> Sample:
        return Sample(tuple(figures))

    what = f"{part.name}, {cause}: "
    deadline = part.deadline + (FLIGHT if part.name == "Redis" else 0)
    limit = Bar("<=", deadline * 1000 * SLACK)
    report.add(what + "added p99", sample([e.noticing.p99 * 1000 for e in rounds]), "ms", limit)
    bar = OPEN if cause not in SERVES_ON else None
    report.add(what + "after that", sample([e.later.median * 1000 for e in rounds]), "ms", bar)
    report.add(what + "used again after", sample([e.back for e in rounds]), "s", Bar("<=", BACK))
