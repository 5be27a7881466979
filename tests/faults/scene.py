"""A gateway over a part that fails, one without a cache beside it, and what the fault costs.

Every answer is compared with what the engine says to that very request, and requests are sent in
turn to both gateways, so that a busy machine slows both alike.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import statistics
import time
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from tests.gateway.house import AUTH, CHAT, body_of, marks, open_house

from askonce.testing.answers import Chat
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.gateway.house import House

    from askonce.ports import Embedder
    from askonce.testing.answers import Asked, Reply
    from askonce.testing.caller import Answer, Caller

log = logging.getLogger(__name__)

BACK = 5.0
"""Seconds from the store's return until it is used again."""


def says(asked: Asked) -> Reply:
    """The engine: an answer that fits one number alone, however it is asked for."""
    return Chat(text=answer_to(asked.json["messages"][-1]["content"]))(asked)


def answer_to(question: str) -> str:
    """What the engine says to a question; only its number counts."""
    number = re.findall(r"\d+", question)[0]
    return f"{number} is worth {sha256(number.encode()).hexdigest()}"


def text_of(answer: Answer) -> str:
    """What was said, streamed or not."""
    if answer.headers["content-type"].startswith("application/json"):
        return str(answer.json["choices"][0]["message"]["content"])
    events = [line[6:] for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
    assert events[-1] == b"[DONE]"
    told = [msgspec.json.decode(event)["choices"] for event in events[:-1]]
    return "".join(choice[0]["delta"].get("content") or "" for choice in told if choice)


class Cost(msgspec.Struct, frozen=True):
    """Seconds that a cache added, by interleaved pairs of requests."""

    added: list[float]
    """Each request over the median of those without a cache."""
    pairs: list[float]
    """Each over its neighbour without a cache."""

    @property
    def median(self) -> float:
        """Of the pairs: what slows the machine slows both of a pair."""
        return statistics.median(self.pairs)

    @property
    def p99(self) -> float:
        """Of what was added."""
        return sorted(self.added)[max(0, -(-len(self.added) * 99 // 100) - 1)]


HICCUP = 1.0
"""Seconds for which a busy machine may hold any one request up; the benchmark knows none."""


def keeps_to(cost: Cost, bound: float) -> bool:
    """Whether requests cost no more than this; two may have met a hiccup of the machine."""
    slowest = sorted(cost.added)
    return slowest[-3] <= bound and slowest[-1] <= bound + HICCUP


class Endured(msgspec.Struct, frozen=True):
    """What one fault cost."""

    noticing: Cost
    """From its first moment on."""
    opened: bool
    """Whether the breaker had opened by then."""
    later: Cost
    back: float
    """Seconds from the end of the fault until the cache answers again."""

    def __str__(self) -> str:
        """For a log."""
        return (
            f"p99 {self.noticing.p99 * 1000:.1f} ms while noticed, "
            f"{'open' if self.opened else 'closed'}, then median "
            f"{self.later.median * 1000:.3f} ms, back after {self.back:.2f} s"
        )


class Scene:
    """Two gateways before one engine."""

    def __init__(self, house: House, plain: House, callers: tuple[Caller, Caller]) -> None:
        self.house = house
        self.plain = plain
        self._caller, self._plain_caller = callers
        self._numbers = iter(range(1000, 10_000_000))
        self.asked = 0
        """Requests whose answers were right."""

    def fresh(self) -> str:
        """A question that nobody has asked."""
        return f"What is the price of item {next(self._numbers)}?"

    async def ask(self, question: str, *, stream: bool = False) -> tuple[float, Answer]:
        """Seconds and answer of the gateway with a cache."""
        return await self._ask(self._caller, question, stream=stream)

    async def _ask(self, caller: Caller, question: str, *, stream: bool) -> tuple[float, Answer]:
        body = msgspec.json.encode(body_of(question, **({"stream": True} if stream else {})))
        began = time.perf_counter()
        answer = await caller.ask("POST", CHAT, body, AUTH)
        took = time.perf_counter() - began
        assert answer.status == 200, answer.body
        assert answer.whole
        assert text_of(answer) == answer_to(question)
        self.asked += 1
        return took, answer

    async def cost(self, requests: int, question: Callable[[int], str] | None = None) -> Cost:
        """Ask so many times, every fourth as a stream."""
        with_cache, without = [], []
        for number in range(requests):
            asked = question(number) if question else self.fresh()
            stream = number % 4 == 3
            without.append((await self._ask(self._plain_caller, asked, stream=stream))[0])
            with_cache.append((await self.ask(asked, stream=stream))[0])
        usual = [statistics.median(without[n % 4 :: 4] or without) for n in range(4)]
        return Cost(
            [took - usual[n % 4] for n, took in enumerate(with_cache)],
            [took - bare for took, bare in zip(with_cache, without, strict=True)],
        )

    async def hits(self, question: str, again: str) -> bool:
        """Whether the second question is answered from the cache after the first was asked."""
        await self.ask(question)
        await self.house.settled()
        return "hit" in marks((await self.ask(again))[1])

    async def until_it_hits(self, *, reworded: bool = False) -> tuple[float, str]:
        """Seconds until the cache answers what was asked just now, and what; fails past BACK."""
        began = time.monotonic()
        while True:
            question = self.fresh()
            again = question.lower() if reworded else question
            if await self.hits(question, again):
                return time.monotonic() - began, question
            assert time.monotonic() - began < BACK, self.house.built.steps.states()
            await asyncio.sleep(0.05)

    async def endure(
        self,
        cause: AbstractAsyncContextManager[None],
        part: str,
        *,
        reworded: bool = False,
        requests: tuple[int, int] = (24, 60),
    ) -> Endured:
        """Live through a fault, with questions that are known and others; requests: as of when."""
        known = [await self.until_it_hits(reworded=reworded) for _ in range(8)]
        turns = count()

        def mixed(_: int) -> str:
            turn = next(turns)
            if turn % 3:
                return self.fresh()
            question = known[turn // 3 % len(known)][1]
            return f"{question.lower()}{'?' * (turn // 24)}" if reworded else question

        async with cause:
            noticing = await self.cost(requests[0], mixed)
            opened = self.open(part)
            later = await self.cost(requests[1], mixed)
        back, _ = await self.until_it_hits(reworded=reworded)
        endured = Endured(noticing, opened, later, back)
        log.info("%s", endured)
        return endured

    def open(self, part: str) -> bool:
        """Whether a part's breaker is open, or tries just now."""
        states: dict[Any, str] = dict(self.house.built.steps.states())
        return states.get(part, "closed") != "closed"


@asynccontextmanager
async def open_scene(
    folder: Path, *, embedder: Embedder | None = None, **sections: Any
) -> AsyncIterator[Scene]:
    """Both gateways and their callers, each on one connection."""
    plain: dict[str, Any] = {"exact": {"enabled": False, "store": "memory"}}
    async with (
        FakeEngine(otherwise=says) as engine,
        open_house(folder / "with", engine, started=True, embedder=embedder, **sections) as house,
        open_house(folder / "without", engine, started=True, **plain) as bare,
        house.caller() as caller,
        bare.caller() as plain_caller,
    ):
        yield Scene(house, bare, (caller, plain_caller))


def held() -> tuple[int, int]:
    """Tasks and file descriptors of this process."""
    gc.collect()
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))


async def at_last(true: Callable[[], bool], seconds: float = BACK) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)
