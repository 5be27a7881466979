"""Four gateways as one: engine calls for equal requests, and what the death of a leader costs."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import aiohttp
from tests.servers.redis import redis

from bench import servers
from bench.report import tell
from bench.samples import HEADERS, PATH
from bench.stats import Bar, Report, Sample
from bench.words import TEXT

if TYPE_CHECKING:
    from pathlib import Path

    from bench.options import Options
    from bench.servers import Server

GATEWAYS = 4
TOGETHER = 400
KILLS = 20
"""For each round."""


class Gateways:
    """Gateways that can be killed and brought back."""

    def __init__(self, folder: Path, url: str, engine: int) -> None:
        self._folder, self._url, self._engine = folder, url, engine
        self._stacks = [ExitStack() for _ in range(GATEWAYS)]
        self.running: list[Server] = []

    def start(self, place: int) -> None:
        """Begin one, or one anew."""
        more = f'[exact]\nstore = "{self._url}"\ndeadline = 1.0\n[tenants]\nsecret = "bench"\n'
        folder = self._folder / f"g{place}"
        gateway = servers.gateway(folder, self._engine, None, more=more)
        self.running[place : place + 1] = [self._stacks[place].enter_context(gateway)]

    def kill(self, place: int) -> None:
        """At once, workers and all."""
        for pid in reversed(servers.family(self.running[place].pid)):
            os.kill(pid, signal.SIGKILL)
        self._stacks[place].close()

    def close(self) -> None:
        """End all."""
        for stack in self._stacks:
            stack.close()


def run(folder: Path, options: Options) -> Report:
    """Once together, then the deaths."""
    report = Report("fleet", f"{GATEWAYS} gateways over one Redis, an engine of 0.8 s an answer")
    (folder / "r").mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(redis("redis7", folder / "r"))
        port = servers.free_port()
        argv = [sys.executable, "-m", "bench.words", str(port)]
        stack.enter_context(servers.running(argv, port, None))
        gateways = Gateways(folder, server.unix_url, port)
        stack.callback(gateways.close)
        for place in range(GATEWAYS):
            gateways.start(place)
        asyncio.run(_measure(gateways, port, options, report))
    return report


async def _measure(gateways: Gateways, engine: int, options: Options, report: Report) -> None:
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as client:
        caller = Caller(client, engine)
        calls = [await caller.together(gateways) for _ in range(options.rounds)]
        what = f"engine calls for {TOGETHER} equal requests, half of them streamed"
        report.add(what, Sample(tuple(calls)), "", Bar("<=", 1))
        more, errors, slowest = [], [], []
        for turn in range(options.rounds):
            found = [await caller.death(gateways, turn * KILLS + kill) for kill in range(KILLS)]
            more.append(max(each[0] for each in found))
            errors.append(float(sum(each[1] for each in found)))
            slowest.append(max(each[2] for each in found))
            tell(f"fleet {turn + 1}/{options.rounds}: most {more[-1]} calls, {errors[-1]} errors")
        deaths = f"leader killed at a random moment, {KILLS} times a round: "
        report.add(deaths + "most engine calls", Sample(tuple(more)), "", Bar("<=", 2))
        report.add(deaths + "errors at others' callers", Sample(tuple(errors)), "", Bar("<=", 0))
        report.add(deaths + "longest answer", Sample(tuple(slowest)), "s")


class Caller:
    """Asks gateways and reads their answers to the end."""

    def __init__(self, client: aiohttp.ClientSession, engine: int) -> None:
        self._client = client
        self._engine = engine

    async def together(self, gateways: Gateways) -> float:
        """Engine calls for equal requests at once."""
        before = await self.calls()
        question = f"together {time.time()}"
        texts = await asyncio.gather(
            *(
                self.ask(gateways.running[n % GATEWAYS].port, question, stream=n % 8 < 4)
                for n in range(TOGETHER)
            )
        )
        if set(texts) != {TEXT}:
            raise SystemExit("an answer is not the engine's")
        return await self.calls() - before

    async def death(self, gateways: Gateways, seed: int) -> tuple[float, int, float]:
        """Engine calls, errors of others' callers, and the longest answer."""
        draw = random.Random(seed)
        place, before = draw.randrange(GATEWAYS), await self.calls()
        question, began = f"death {seed} {time.time()}", time.monotonic()
        stream = draw.random() < 0.5
        first = asyncio.create_task(self.ask(gateways.running[place].port, question, stream=stream))
        while await self.calls() == before:
            await asyncio.sleep(0.005)
        others = [each.port for n, each in enumerate(gateways.running) if n != place]
        asks = [
            asyncio.create_task(self.ask(others[n % 3], question, stream=draw.random() < 0.5))
            for n in range(12)
        ]
        await asyncio.sleep(draw.random() * 0.8)
        await asyncio.to_thread(gateways.kill, place)
        got = await asyncio.gather(*asks, return_exceptions=True)
        took = time.monotonic() - began
        await asyncio.gather(first, return_exceptions=True)
        errors = [each for each in got if each != TEXT]
        for error in errors[:1]:
            tell(f"fleet: {error!r}")
        calls = await self.calls() - before
        await asyncio.to_thread(gateways.start, place)
        return calls, len(errors), took

    async def ask(self, port: int, question: str, *, stream: bool) -> str:
        """The text of an answer."""
        messages = [{"role": "user", "content": question}]
        body = {"model": "words", "messages": messages, "stream": stream}
        url = f"http://127.0.0.1:{port}{PATH}"
        async with self._client.post(url, json=body, headers=HEADERS) as response:
            text = await response.text()
            if response.status != 200:
                return f"{response.status}: {text}"
        if not stream:
            return str(json.loads(text)["choices"][0]["message"]["content"])
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        if events[-1:] != ["[DONE]"]:
            return f"broken off after {len(events)} events"
        deltas = [json.loads(event)["choices"][0]["delta"] for event in events[:-1]]
        return "".join(delta.get("content") or "" for delta in deltas)

    async def calls(self) -> float:
        """How often the engine was asked."""
        async with self._client.get(f"http://127.0.0.1:{self._engine}/calls") as response:
            return float(await response.text())
