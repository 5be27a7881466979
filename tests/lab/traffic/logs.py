"""Logs made here, and what replays them."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from askonce.config import Config
from askonce.lab.traffic.ingest import Traffic, ingest
from askonce.lab.traffic.readings import KeptReadings
from askonce.testing.embedders import TokenEmbedder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

START = 1_764_400_000.0
THINGS = ("password", "router", "invoice", "parcel")
WAYS = (
    "How do I reset my {}?",
    "How do I reset my {} please?",
    "how do i reset my {}",
    "Tell me: how do I reset my {}?",
)


def call(text: str, reply: str | None = "Open Settings.", at: float = 0.0, **more: Any) -> Any:
    """One line of the log, as an object."""
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    told = {"time": START + at, "request": body, **more}
    return told if reply is None else {"response": reply, **told}


def faq(count: int, *, every: float = 30.0, namespace: str = "") -> list[Any]:
    """Questions in many words about few things; each thing has one answer."""
    chance = random.Random(1)
    return [
        call(
            chance.choice(WAYS).format(thing),
            f"Open Settings, choose {thing} and press Reset.",
            at * every,
            namespace=namespace,
        )
        for at in range(count)
        for thing in [chance.choice(THINGS)]
    ]


def lookalikes(count: int, *, namespace: str = "", start: float = 0.0) -> list[Any]:
    """Questions that look alike, each with an answer of its own."""
    return [
        call(
            f"Which seat is next to the one called {chr(97 + at % 26)}{chr(97 + at // 26 % 26)}?",
            f"It is seat {7 * at}.",
            start + at * 30.0,
            namespace=namespace,
        )
        for at in range(count)
    ]


def write(path: Path, lines: Iterable[Any]) -> Path:
    """Write a log."""
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


def silent(_line: str) -> None:
    """Progress that nobody reads."""


def traffic_of(path: Path, lines: Iterable[Any], config: Config | None = None) -> Traffic:
    """The calls of a log made of these lines."""
    log = write(path / "log.jsonl", lines)
    return ingest([log], config or Config(), limit=0, progress=silent)


@asynccontextmanager
async def readings() -> AsyncIterator[tuple[TokenEmbedder, KeptReadings]]:
    """A fake embedder, and what keeps its readings."""
    embedder = TokenEmbedder(dim=256, window=256)
    kept = KeptReadings(embedder, None)
    yield embedder, kept
    kept.close()
    await embedder.close()
