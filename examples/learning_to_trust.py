"""Watch a cache learn how far it may go: in shadow mode, then on, audited, and through a drift.

It starts everything itself: a help desk that answers from a handbook instead of a model, so that
right and wrong are known, and AskOnce before it with its own embedder. `make story` runs it.
"""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from askonce.config import (
    Config,
    ExactConfig,
    SemanticConfig,
    ServerConfig,
    TrustConfig,
    UpstreamConfig,
)
from askonce.gateway.service import Service
from askonce.testing.answers import Asked, Chat
from askonce.testing.engine import FakeEngine
from askonce.testing.server import serving

TOPICS = (
    ("reset the password", "the password", "log in again after losing the password"),
    ("cancel an order", "order cancellation", "stop an order that was placed"),
    ("return a pair of shoes", "returning shoes", "send shoes back"),
    ("change the delivery address", "a new delivery address", "have it sent somewhere else"),
    ("use a gift voucher", "gift vouchers", "pay with a gift voucher"),
    ("get an invoice", "invoices", "receive a bill for the tax office"),
    ("reach the support line", "the support line", "talk to somebody by phone"),
    ("track a parcel", "parcel tracking", "find out where the parcel is"),
)
OPENERS = (
    "How do I {0}?",
    "Tell me about {1}.",
    "I would like to {0}.",
    "Where do I {0}?",
    "What about {1}?",
    "Please explain how to {2}.",
    "I want to {2}.",
    "Help me with {1}.",
    "Is there a way to {2}?",
    "My friend asks how to {0}.",
    "What must I do to {0}?",
)
CLOSERS = (
    "",
    " Thanks.",
    " It is urgent.",
    " I am new here.",
    " Please be brief.",
    " Sorry to ask.",
    " I looked everywhere.",
    " Kind regards.",
    " Today, if you can.",
)
SHADOW, ON, DRIFT, STEP = 200, 150, 200, 20
"""Questions in each chapter, the last one at most, and in one line of it."""


class Told(NamedTuple):
    """One answer."""

    how: str
    """`engine`, `shadow` (the cache would have answered) or `cache`."""
    right: bool


class Figures(NamedTuple):
    """What the gateway says of itself."""

    threshold: float
    bound: float
    audits: dict[str, int]
    shadow: dict[str, int]


class Desk:
    """A help desk that gives the page of its handbook."""

    def __init__(self) -> None:
        self.edition = 2024

    def said(self, question: str) -> str:
        """The right answer."""
        page = next(
            at for at, topic in enumerate(TOPICS) if any(word in question for word in topic)
        )
        return f"See page {14 + page} of the handbook of {self.edition}."

    def __call__(self, asked: Asked) -> Any:
        """Answer as a chat engine would."""
        return Chat(text=self.said(asked.json["messages"][-1]["content"]))(asked)


class Client:
    """Somebody who asks and knows what is right."""

    def __init__(self, http: aiohttp.ClientSession, url: str, desk: Desk) -> None:
        self._http = http
        self._url = url
        self._desk = desk

    async def ask(self, question: str) -> Told:
        """Ask, and see who answered."""
        body = {"model": "desk", "messages": [{"role": "user", "content": question}]}
        async with self._http.post(f"{self._url}/v1/chat/completions", json=body) as answer:
            text = (await answer.json())["choices"][0]["message"]["content"]
            status = answer.headers["cache-status"]
        how = "shadow" if "shadow_hit" in status else "cache" if "; hit" in status else "engine"
        return Told(how, text == self._desk.said(question))

    async def figures(self) -> Figures:
        """Read `/metrics`."""
        async with self._http.get(f"{self._url}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("askonce"))

        def by_verdict(name: str) -> dict[str, int]:
            said = {
                each: values.get(f'{name}{{verdict="{each}"}}', 0) for each in ("same", "different")
            }
            return {each: int(float(count)) for each, count in said.items()}

        def gauge(name: str, otherwise: float) -> float:
            found = [float(value) for key, value in values.items() if key.startswith(name)]
            return found[0] if found else otherwise

        return Figures(
            gauge("askonce_trust_threshold{", 2.0),
            gauge("askonce_wrong_rate_bound{", 1.0),
            by_verdict("askonce_audits_total"),
            by_verdict("askonce_shadow_total"),
        )


@asynccontextmanager
async def gateway(home: str, engine: FakeEngine, desk: Desk, mode: Any) -> AsyncIterator[Client]:
    """AskOnce before the desk; all starts over one folder share what was learned."""
    config = Config(
        server=ServerConfig(data_dir=home),
        upstream=(UpstreamConfig(url=engine.url),),
        exact=ExactConfig(deadline=1.0),
        semantic=SemanticConfig(deadline=2.0),
        trust=TrustConfig(enabled=True, mode=mode, preset="search", audits_per_hour=1e6),
    )
    async with (
        serving(Service(config).gateway()) as port,
        aiohttp.ClientSession(headers={"authorization": "Bearer any"}) as http,
    ):
        yield Client(http, f"http://127.0.0.1:{port}", desk)


def questions(seed: int = 1) -> list[str]:
    """Every topic in many words, in some order; no text twice."""
    every = [
        opener.format(*topic) + closer
        for opener in OPENERS
        for topic in TOPICS
        for closer in CLOSERS
    ]
    drawn = random.Random(seed)  # noqa: S311 - an order, not a secret
    drawn.shuffle(every)
    return list(dict.fromkeys(every))


class Story:
    """One telling of it."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self.show = show
        self.desk = Desk()
        self.asks = iter(questions())

    async def ask(self, client: Client, count: int) -> list[Told]:
        """So many new questions."""
        return [await client.ask(next(self.asks)) for _ in range(count)]

    async def shadow(self, client: Client) -> tuple[list[Told], Figures]:
        """The engine answers all, while the cache says what it would have done."""
        self.show("1. In shadow mode the engine answers everything; the cache only learns.")
        told = await self.ask(client, SHADOW)
        known = await client.figures()
        self.show(
            f"   {SHADOW} questions, all answered by the engine. The cache would have answered"
            f" {sum(known.shadow.values())}: {known.shadow['same']} the same,"
            f" {known.shadow['different']} otherwise.\n"
        )
        return told, known

    async def on(self, client: Client) -> tuple[list[Told], Figures]:
        """The same folder, so what was learned counts from the first question."""
        self.show("2. Now it is on, with what it has learned, and audits what it answers.")
        told = await self.ask(client, ON)
        known = await client.figures()
        self.show(f"   {summary(told)}")
        self.show(
            f"   {sum(known.audits.values())} of those were audited: the engine said the same in"
            f" {known.audits['same']}, otherwise in {known.audits['different']}."
        )
        self.show(f"   Served from a chance of {known.threshold:.2f} to be right on.\n")
        return told, known

    async def drift(self, client: Client, before: Figures) -> tuple[list[Told], Figures, int]:
        """Every right answer changes at once, and nobody tells the cache."""
        self.show("3. A new edition of the handbook: every answer changes, and nobody says so.")
        self.desk.edition = 2025
        told: list[Told] = []
        noticed = 0
        answers = True
        while answers and len(told) < DRIFT:
            told += await self.ask(client, STEP)
            known = await client.figures()
            self.show(f"   {summary(told[-STEP:])}; threshold {shown(known.threshold)}")
            answers = "cache" in {one.how for one in told[-STEP:]}
            if not noticed and known.threshold > before.threshold:
                noticed = len(told)
        self.show(f"   The threshold went up within {noticed} questions.")
        self.show("   It opens again as the new answers prove themselves.")
        return told, known, noticed


def shown(threshold: float) -> str:
    """In words where there is none."""
    return "none, nothing is served" if threshold > 1 else f"{threshold:.2f}"


def summary(told: list[Told]) -> str:
    """So many by the cache, right and wrong."""
    counts = Counter((one.how, one.right) for one in told)
    wrong, right = counts["cache", False], counts["cache", True]
    return f"{len(told)} questions, {right + wrong} answered by the cache, {wrong} of them wrongly"


async def story(show: Callable[[str], None] = print) -> dict[str, Any]:
    """Tell it, and return what came of it."""
    telling = Story(show)
    desk = telling.desk
    with tempfile.TemporaryDirectory() as home:
        async with FakeEngine(otherwise=desk) as engine:
            async with gateway(home, engine, desk, "shadow") as client:
                shadow = await telling.shadow(client)
            async with gateway(home, engine, desk, "on") as client:
                on = await telling.on(client)
                drift = await telling.drift(client, on[1])
    return {"shadow": shadow, "on": on, "drift": drift}


if __name__ == "__main__":
    asyncio.run(story())
