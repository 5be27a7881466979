"""Embeddings of an API: its promises, its batches, its faults."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from askonce.embedders import http
from askonce.embedders.http import CALLS, Api, HttpEmbedder
from askonce.errors import ConfigError, EmbedderBusy, EmbedderError, TextTooLong
from askonce.events import Embedded
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.answers import Asked, Reply, refusal
from askonce.testing.embedders import HashingEmbedder, check_embedder
from askonce.testing.engine import FakeEngine
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

DIM = 64
WINDOW = 512
LONG = "word " * 200
"""Of more bytes than the window has tokens, but of fewer tokens."""


def vector(text: str) -> list[float]:
    """What the fake model makes of a text."""
    values: list[float] = HashingEmbedder(dim=DIM)._vector(f"\x02{text.lower()}\x03").tolist()
    return [3.0 * value for value in values]


def answer(asked: Asked) -> Reply:
    """What a sound API answers; like most it cuts long texts without a word."""
    texts = asked.json["input"]
    cut = [" ".join(text.split(" ")[:WINDOW]) for text in texts]
    told = [{"object": "embedding", "index": n, "embedding": vector(t)} for n, t in enumerate(cut)]
    tokens = sum(min(len(text.split(" ")) + 1, WINDOW) for text in texts)
    return reply({"object": "list", "data": told[::-1], "usage": {"prompt_tokens": tokens}})


def reply(body: Any) -> Reply:
    """A JSON body."""
    return Reply(pieces=(msgspec.json.encode(body),))


def one(*values: float, index: int = 0) -> Reply:
    """An answer with one vector."""
    return reply({"data": [{"index": index, "embedding": values}]})


def sent(engine: FakeEngine) -> list[list[str]]:
    """Texts of each call so far."""
    return [asked.json["input"] for asked in engine.asked]


@asynccontextmanager
async def opened(
    *scripts: Any, clock: FakeClock | None = None, sink: RecordingSink | None = None, **more: Any
) -> AsyncIterator[tuple[HttpEmbedder, FakeEngine]]:
    """An embedder and the API that it asks."""
    async with FakeEngine(*scripts, otherwise=answer) as engine:
        api = Api(**{"url": engine.url, "model": "m", "dim": DIM, **more})
        embedder = await HttpEmbedder.open(
            api, clock=clock or FakeClock(), sink=sink or RecordingSink()
        )
        try:
            yield embedder, engine
        finally:
            await embedder.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAUSES", (0.001, 0.001))


async def test_it_keeps_the_promises() -> None:
    """It is an Embedder."""
    async with FakeEngine(otherwise=answer) as engine:
        api = Api(url=engine.url, model="m", window=WINDOW)

        async def make() -> HttpEmbedder:
            return await HttpEmbedder.open(api, clock=FakeClock(), sink=RecordingSink())

        await check_embedder(make, window=WINDOW)


async def test_it_asks_as_the_api_wants() -> None:
    """One POST with model, texts, the plain form of numbers and the key."""
    sink = RecordingSink()
    async with opened(key="sk-secret", sink=sink) as (embedder, engine):
        await embedder.embed("a text")
        asked = engine.asked[0]
        assert (asked.method, asked.path) == ("POST", "/v1/embeddings")
        assert asked.header(b"authorization") == b"Bearer sk-secret"
        assert asked.json == {"model": "m", "input": ["a text"], "encoding_format": "float"}
        assert "sk-secret" not in embedder.id
    assert sink.events == [Embedded(took=Seconds(0.0))]


async def test_the_id_tells_models_apart() -> None:
    """Another URL, model or dimension is another space of vectors; another key is not."""
    ids = set()
    others: tuple[dict[str, Any], ...] = (
        {},
        {"model": "n"},
        {"dim": 32},
        {"url": "http://127.0.0.1:9/v1"},
        {"key": "k"},
    )
    for more in others:
        api = Api(**{"url": "http://127.0.0.1:8/v1", "model": "m", "dim": DIM, **more})
        ids.add((await HttpEmbedder.open(api, clock=FakeClock(), sink=RecordingSink())).id)
    assert len(ids) == 4


async def test_texts_that_come_together_share_calls() -> None:
    """Those that find all calls under way go with the next one, each with its own vector."""
    async with opened(queue=100) as (embedder, engine):
        texts = [f"text number {number}" for number in range(40)]
        found = await asyncio.gather(*map(embedder.embed, texts))
        for text, got in zip(texts, found, strict=True):
            assert float(got @ np.array(vector(text), dtype=np.float32)) > 2.99
        assert [len(call) for call in sent(engine)] == [1] * CALLS + [32, 4]


async def test_a_long_text_goes_alone() -> None:
    """Only then can the count of tokens prove that it was not cut."""
    async with opened(queue=100) as (embedder, engine):
        texts = ["a", "b", "c", "d", "e", LONG, "f", LONG + "x", "g"]
        await asyncio.gather(*map(embedder.embed, texts))
        assert sent(engine)[CALLS:] == [["e"], [LONG], ["f"], [LONG + "x"], ["g"]]


@pytest.mark.parametrize(
    "told",
    [
        refusal(413),
        refusal(400),
        one(*vector(LONG)),
        reply({"data": [{"embedding": vector(LONG)}], "usage": {"prompt_tokens": WINDOW}}),
    ],
)
async def test_a_text_that_may_have_been_cut_is_too_long(told: Reply) -> None:
    """Refused by the API, or of so many tokens, or of an unknown number: it has no vector."""
    async with opened(told) as (embedder, _):
        with pytest.raises(TextTooLong):
            await embedder.embed(LONG)


async def test_a_huge_text_is_not_even_sent() -> None:
    """No model's window holds it."""
    async with opened() as (embedder, engine):
        with pytest.raises(TextTooLong):
            await embedder.embed("x" * 16 * WINDOW + "x")
        assert engine.asked == []


@pytest.mark.parametrize(
    "told",
    [
        Reply(pieces=(b"not json",)),
        reply({"data": []}),
        reply({"data": "x"}),
        one(*[0.0] * DIM),
        one(*[1.0] * (DIM - 1)),
        one(*[1e308] * DIM),
        one(*[1.0] * DIM, index=1),
        Reply(pieces=(b'{"data":[{"index":0,"embedding":[NaN]}]}',)),
        Reply(pieces=(b'{"data":[{"index":0,"embedding":[1e999]}]}',)),
        Reply(pieces=(b" " * 200_000,)),
        refusal(401),
        refusal(404),
        Reply(status=302, headers=((b"location", b"http://127.0.0.1:1/"),)),
    ],
)
async def test_what_is_no_vector_is_an_error(told: Reply) -> None:
    """It is not asked again, and the next text is served."""
    async with opened(told) as (embedder, engine):
        with pytest.raises(EmbedderError):
            await embedder.embed("text")
        assert len(engine.asked) == 1
        assert math.isclose(float(np.linalg.norm(await embedder.embed("text"))), 1.0, abs_tol=1e-4)


@pytest.mark.parametrize(
    "told",
    [refusal(503), refusal(429), refusal(500), Reply(fault="break_before"), Reply(fault="refuse")],
)
async def test_what_may_pass_is_asked_again(told: Reply) -> None:
    """Twice; a fault that stays is an error."""
    async with opened(told, told) as (embedder, engine):
        await embedder.embed("text")
        engine.script(*[told] * 3)
        with pytest.raises(EmbedderError):
            await embedder.embed("text")


async def test_silence_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API that never answers is given up, and so are its later turns."""
    monkeypatch.setattr(http, "PATIENCE", 0.05)
    async with opened(Reply(fault="hang_before")) as (embedder, _):
        began = time.monotonic()
        with pytest.raises(EmbedderError, match="in time"):
            await embedder.embed("text")
        assert time.monotonic() - began < 2
        await embedder.embed("text")


async def test_past_the_queue_texts_are_shed() -> None:
    """One text more than may wait is refused at once; one that was given up makes room unsent."""
    async with opened(*[Reply(fault="hang_before")] * CALLS, queue=2) as (embedder, engine):
        held = [asyncio.ensure_future(embedder.embed(f"held {n}")) for n in range(CALLS)]
        waiting = [asyncio.ensure_future(embedder.embed(f"waits {n}")) for n in range(2)]
        async with asyncio.timeout(10):
            while len(engine.asked) < CALLS:
                await asyncio.sleep(0.001)
        with pytest.raises(EmbedderBusy):
            await embedder.embed("one more")
        waiting[0].cancel()
        await embedder.close()
        done = await asyncio.gather(*held, *waiting, return_exceptions=True)
        assert {type(each) for each in done} == {EmbedderError, asyncio.CancelledError}
        assert len(engine.asked) == CALLS


async def test_the_expected_time_is_that_of_late() -> None:
    """It follows what calls took, grows with those in line, and is forgotten when it is old."""
    clock = FakeClock()

    def slow(asked: Asked) -> Reply:
        clock.advance(0.5)
        return answer(asked)

    async with opened(slow, clock=clock) as (embedder, _):
        assert embedder.expected_time("x") == 0.0
        await embedder.embed("x")
        assert embedder.expected_time("x") == 0.5
        clock.advance(6.0)
        assert embedder.expected_time("x") == 0.0


async def test_an_api_that_is_not_there_is_told_at_the_start() -> None:
    """Without a dimension it must be asked; with one it may come later."""
    api = Api(url="http://127.0.0.1:9/v1", model="m")
    with pytest.raises(EmbedderError):
        await HttpEmbedder.open(api, clock=FakeClock(), sink=RecordingSink())
    late = msgspec.structs.replace(api, dim=DIM)
    await (await HttpEmbedder.open(late, clock=FakeClock(), sink=RecordingSink())).close()


@pytest.mark.parametrize(
    "api",
    [
        Api(url="ftp://x/v1", model="m", dim=1),
        Api(url="http://x/v1", model="", dim=1),
        Api(url="http://x/v1", model="m", dim=1, key="a\nb"),
    ],
)
async def test_a_wrong_setting_is_refused(api: Api) -> None:
    """In words."""
    with pytest.raises(ConfigError):
        await HttpEmbedder.open(api, clock=FakeClock(), sink=RecordingSink())
