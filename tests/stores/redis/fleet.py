"""Replicas that share a server and an engine, in one process."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from tests.cache.stage import LIVES, PATH, Got, read

from askonce.cache.ask import Ask, Limits
from askonce.cache.driver import Cache
from askonce.cache.fleet import Fleet
from askonce.cache.parts import Parts
from askonce.cache.steps import Steps
from askonce.cache.write_back import WriteBack
from askonce.canonical.key import Scope, exact_key
from askonce.canonical.request import parse_chat
from askonce.clock import SystemClock
from askonce.config import BreakerConfig
from askonce.errors import UpstreamUnreachable
from askonce.flow import plan
from askonce.policy.controls import Controls
from askonce.ports import UpstreamRequest
from askonce.stores.hot import HotEntries
from askonce.stores.redis.address import read_url
from askonce.stores.redis.store import RedisStore
from askonce.testing import RecordingSink
from askonce.testing.answers import Asked, Chat, Reply
from askonce.tiers.exact import ExactTier
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.canonical.entry import Entry
    from askonce.ports import Headers

WORDS = "one two three four five six seven eight nine ten eleven twelve"


class Engine:
    """Answers word by word, and counts how often it is asked."""

    name, revision, ask_usage = "engine", "", True

    def __init__(self, *, pause: float = 0.01, first: float = 0.02) -> None:
        self.calls = 0
        self.pause, self.first = pause, first
        self.text = WORDS
        self.varies = False
        self.refuses = 0

    async def send(self, request: UpstreamRequest) -> Answering:
        """One call; each has ids of its own."""
        self.calls += 1
        assert isinstance(request.body, bytes)
        await asyncio.sleep(self.first)
        if self.refuses:
            self.refuses -= 1
            raise UpstreamUnreachable("as told")
        text = f"{self.calls}: {self.text}" if self.varies else self.text
        asked = Asked(request.method, request.path, request.headers, request.body)
        reply = Chat(text=text)(asked)
        mark = b"call-%d" % self.calls
        return Answering(self, [piece.replace(b"chatcmpl-", mark) for piece in reply.pieces], reply)


class Answering:
    """One answer as it comes."""

    def __init__(self, engine: Engine, pieces: list[bytes], reply: Reply) -> None:
        self.status: int = reply.status
        self.headers: Headers = reply.headers
        self._engine, self._pieces = engine, pieces

    async def chunks(self) -> AsyncIterator[bytes]:
        """Piece by piece."""
        for piece in self._pieces:
            await asyncio.sleep(self._engine.pause)
            yield piece

    async def read(self) -> bytes:
        """All."""
        return b"".join([piece async for piece in self.chunks()])

    async def close(self) -> None:
        """Nothing to release."""


class Replica:
    """A whole cache over the shared server."""

    def __init__(self, url: str, engine: Engine) -> None:
        clock, sink = SystemClock(), RecordingSink()
        self.engine = engine
        self.sink = sink
        self.store = RedisStore(read_url(url), clock=clock, sink=sink)
        hot: HotEntries[Entry] = HotEntries(1_000_000)
        self.exact = ExactTier(self.store, hot, clock=clock, sink=sink)
        self.store.watch(self.exact.changed)
        steps = Steps(BreakerConfig(), clock=clock, sink=sink)
        second = Seconds(1.0)
        self.cache = Cache(
            Parts(
                exact=self.exact,
                semantic=None,
                steps=steps,
                limits=Limits(Seconds(0.5), second, second, 1_000_000),
                clock=clock,
                sink=sink,
                writer=WriteBack(self.exact, steps, second),
                fleet=Fleet(self.store, steps, Seconds(0.5)),
            )
        )
        self.crashed = False

    def ask(self, text: str, *, stream: bool) -> Ask:
        """A request."""
        messages = [{"role": "user", "content": text}]
        body = msgspec.json.encode({"model": "fake", "messages": messages, "stream": stream})
        call = parse_chat(body)
        scope = Scope(PATH, "engine", "", bytes(32), "")
        request = UpstreamRequest("POST", PATH, [], body)
        return Ask(
            call=call,
            question=None,
            scope=scope,
            key=exact_key(scope, call),
            plan=plan(Controls(), LIVES, has_question=False),
            send=lambda: self.engine.send(request),
        )

    async def get(self, text: str = "what", *, stream: bool = False) -> Got:
        """Ask and read to the end."""
        async with self.cache.answering(self.ask(text, stream=stream)) as reply:
            return await read(reply)

    @property
    def leads(self) -> bool:
        """Whether it leads a flight."""
        return bool(self.store._flights._leads)

    async def crash(self, *callers: asyncio.Task[Got]) -> None:
        """End without a word to anybody, as a killed process does; callers: its own."""
        for caller in callers:
            caller.cancel()
        self.crashed = True
        tasks = [lead.task for each in self.store._flights._leads.values() for lead in each]
        for task in [*tasks, *self.cache._leads.values()]:
            task.cancel()
        link = self.store._calls.nodes._link  # type: ignore[attr-defined]
        link.distrust("crashed")
        link._task.cancel()
        await asyncio.wait([*tasks, link._task])

    async def close(self) -> None:
        """Let flights land, then release everything."""
        await self.cache.close(2.0)
        await self.store.close()


@asynccontextmanager
async def fleet(url: str, engine: Engine, count: int = 4) -> AsyncIterator[list[Replica]]:
    """Replicas whose links stand; leaves no task behind."""
    others = asyncio.all_tasks()
    found = [Replica(url, engine) for _ in range(count)]
    try:
        for each in found:
            await each.store.stats()
        yield found
    finally:
        for each in found:
            await each.close()
        assert asyncio.all_tasks() <= others


async def timed(replica: Replica, *, stream: bool) -> tuple[float, Got]:
    """An answer and how long it took."""
    began = time.monotonic()
    got = await replica.get(stream=stream)
    return time.monotonic() - began, got
