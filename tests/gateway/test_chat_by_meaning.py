"""Answers to the same question in other words, over the real path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.house import body_of, marks, near, open_house

from askonce.testing.answers import Chat
from askonce.testing.embedders import HashingEmbedder
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.gateway.house import House

pytestmark = pytest.mark.anyio

FIRST = "What is the capital of France?"
AGAIN = "what is the capital of France?"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]


def turns(*turns: tuple[str, Any], **fields: Any) -> dict[str, Any]:
    """A request with these roles and contents."""
    return body_of(messages=[{"role": role, "content": said} for role, said in turns], **fields)


def picture(text: str, url: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
    return turns(("user", parts))


async def second(house: House, first: dict[str, Any], then: dict[str, Any]) -> str:
    """How the second request is served after the first."""
    assert (await house.ask(first)).headers["x-cache"] == "MISS"
    return (await house.ask(then)).headers["cache-status"]


async def test_other_words_are_a_semantic_hit(tmp_path: Path) -> None:
    """The same question in other letters is served, streamed too, and says how."""
    async with open_house(tmp_path, embedder=near()) as house:
        first = await house.ask(body_of(FIRST))
        whole = await house.ask(body_of(AGAIN))
        streamed = await house.ask(body_of(AGAIN, stream=True))
        assert len(house.asked) == 1
        told = await house.metric('askonce_requests_total{outcome="ok",tier="semantic"}')
    for hit in (whole, streamed):
        assert marks(hit)[1] == "hit"
        assert marks(hit)[3] == "detail=semantic"
        assert marks(hit)[2] in {"ttl=86400", "ttl=86399"}
        assert hit.headers["age"] in {"0", "1"}
    assert whole.json["choices"] == first.json["choices"]
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert told == 2


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (
            "How far is it from Bern to Basel by train?",
            "How far is it from Basel to Bern by train?",
        ),
        ("What is 10 percent of 250 dollars?", "What is 10 percent of 260 dollars?"),
        ("Who was the father of Anna Miller?", "Who was the father of Hanna Miller?"),
        ("Is it safe to mix these two cleaners?", "Is it not safe to mix these two cleaners?"),
        ("Which one is the largest in the world?", "Which one is the smallest in the world?"),
        ("What does list.sort() return in Python?", "What does list.sorted() return in Python?"),
    ],
)
async def test_look_alikes_are_misses(tmp_path: Path, first: str, then: str) -> None:
    """Another order, number, name, a `not` or an opposite is another question."""
    async with open_house(tmp_path, embedder=near(), semantic={"floor": 0.5}) as house:
        status = await second(house, body_of(first), body_of(then))
        vetoes = (await house.get("/metrics")).body.count(b"askonce_guard_vetoes_total{")
    assert "fwd=miss" in status
    assert 'detail="veto_' in status
    assert vetoes >= 1


SYSTEM = ("system", "Be brief.")
CHANGED: Sequence[tuple[Any, ...]] = (
    ("system", turns(SYSTEM, ("user", FIRST)), turns(("system", "Be long."), ("user", AGAIN))),
    ("no system", turns(SYSTEM, ("user", FIRST)), body_of(AGAIN)),
    ("earlier", *(turns(("user", a), ("assistant", "Hi"), ("user", FIRST)) for a in ("Oh", "Ah"))),
    ("model", body_of(FIRST), body_of(AGAIN, model="n")),
    ("temperature", body_of(FIRST), body_of(AGAIN, temperature=0.5)),
    ("tools", body_of(FIRST), body_of(AGAIN, tools=TOOLS)),
    ("format", body_of(FIRST), body_of(AGAIN, response_format={"type": "json_object"})),
    ("unknown field", body_of(FIRST), body_of(AGAIN, guided_regex=".*")),
    ("image", picture(FIRST, "https://a/1.png"), picture(AGAIN, "https://a/2.png")),
    (
        "image data",
        picture(FIRST, "data:image/png;base64,AA"),
        picture(AGAIN, "data:image/png;base64,AQ"),
    ),
    ("parts", body_of(FIRST), turns(("user", [{"type": "text", "text": AGAIN}]))),
)


@pytest.mark.parametrize(
    ("first", "then"), [each[1:] for each in CHANGED], ids=[e[0] for e in CHANGED]
)
async def test_everything_around_the_question_must_be_equal(
    tmp_path: Path, first: dict[str, Any], then: dict[str, Any]
) -> None:
    """The same words behind anything else that differs are a plain miss."""
    async with open_house(tmp_path, embedder=near()) as house:
        status = await second(house, first, then)
        assert len(house.asked) == 2
    assert status.startswith("AskOnce; fwd=miss; fwd-status=200")


LONG = "word " * 60


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (turns(("user", "Hm"), ("tool", FIRST)), turns(("user", "Hm"), ("tool", AGAIN))),
        (turns(("user", FIRST), ("assistant", "A")), turns(("user", AGAIN), ("assistant", "A"))),
        (body_of(FIRST, n=2), body_of(AGAIN, n=2)),
        (body_of(FIRST, temperature=1.5), body_of(AGAIN, temperature=1.5)),
        (body_of(LONG + FIRST), body_of(LONG + AGAIN)),
    ],
    ids=["tool result", "assistant last", "several", "hot", "long"],
)
async def test_some_requests_are_never_answered_by_meaning(
    tmp_path: Path, first: dict[str, Any], then: dict[str, Any]
) -> None:
    """Tool results, wishes for variety and texts past the window: not even as a candidate."""
    async with open_house(tmp_path, embedder=near()) as house:
        status = await second(house, first, then)
        index = house.parts.index
        assert index is not None
        assert await index.count() == 0
    assert "hit" not in status


async def test_a_hit_by_meaning_is_not_written_back(tmp_path: Path) -> None:
    """The other words have no entry of their own afterwards."""
    async with open_house(tmp_path, embedder=near()) as house:
        await house.ask(body_of(FIRST))
        assert marks(await house.ask(body_of(AGAIN)))[3] == "detail=semantic"
        assert (await house.parts.store.stats()).entries == 1
        alone = await house.ask(body_of(AGAIN), "x-askonce-semantic: off")
    assert alone.headers["x-cache"] == "MISS"


async def test_an_entry_that_is_gone_is_no_answer(tmp_path: Path) -> None:
    """When the store has lost the answer its question serves nobody, and is forgotten."""
    async with open_house(tmp_path, embedder=near()) as house:
        await house.ask(body_of(FIRST))
        await house.parts.store.clear()
        house.cache._parts.exact.cool()
        again = await house.ask(body_of(AGAIN))
        assert again.headers["x-cache"] == "MISS"
        await house.settled()
        index = house.parts.index
        assert index is not None
        assert await index.count() == 1
        served = await house.ask(body_of(FIRST))
    assert marks(served)[3] == "detail=semantic"
    assert served.json["choices"] == again.json["choices"]


async def test_an_answer_that_calls_tools_serves_its_own_words_alone(tmp_path: Path) -> None:
    """A tool call is replayed for the same request only."""
    engine = FakeEngine(Chat(calls=(("f", "{}"),), finish="tool_calls"))
    async with open_house(tmp_path, engine, embedder=near()) as house:
        served = [await house.ask(body_of(text, tools=TOOLS)) for text in (FIRST, FIRST, AGAIN)]
    assert [answer.headers["x-cache"] for answer in served] == ["MISS", "HIT", "MISS"]


@pytest.mark.slow
async def test_the_real_model_tells_them_apart(tmp_path: Path) -> None:
    """With MiniLM a paraphrase is served and its look-alikes are not."""
    asks = (
        ("How do I reset my password?", "MISS"),
        ("how do I reset my password", "HIT"),
        ("How can I reset my password?", "HIT"),
        ("How do I reset my username?", "MISS"),
        ("Does aspirin thin the blood?", "MISS"),
        ("Does aspirin not thin the blood?", "MISS"),
        ("Convert 100 USD to EUR", "MISS"),
        ("Convert 100 EUR to USD", "MISS"),
        ("Convert 200 USD to EUR", "MISS"),
    )
    semantic = {"enabled": True, "floor": 0.9}
    async with open_house(tmp_path, semantic=semantic) as house:
        assert (await house.get("/readyz")).json == {"status": "ready", "semantic": "on"}
        served = [(await house.ask(body_of(text))).headers["x-cache"] for text, _ in asks]
        assert await house.metric("askonce_embedding_seconds_count") == len(asks)
    assert served == [expected for _, expected in asks]


async def test_a_window_is_the_embedders_own(tmp_path: Path) -> None:
    """A text past the window says so, and the exact tier still serves it."""
    async with open_house(tmp_path, embedder=HashingEmbedder(window=10)) as house:
        first, again = await house.ask(body_of(FIRST)), await house.ask(body_of(FIRST))
    assert 'detail="semantic_too_long"' in marks(first)
    assert again.headers["x-cache"] == "HIT"


RENT = (("user", "My landlord wants to raise the rent."), ("assistant", "Is it a fixed term?"))
CHATTY = (("user", "Hi! My landlord wants to raise the rent."), RENT[1])
PAY = (("user", "My employer wants to cut my pay."), RENT[1])
BY_MEANING = {"conversations": "meaning"}
LEGAL = "Is that legal, by the way?"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_with_more_chatter_is_a_hit(tmp_path: Path, *, stream: bool) -> None:
    """Where earlier turns are compared by meaning, a greeting more is no other conversation."""
    async with open_house(tmp_path, embedder=near(), semantic=BY_MEANING) as house:
        first = await house.ask(turns(SYSTEM, *RENT, ("user", LEGAL)))
        hit = await house.ask(turns(SYSTEM, *CHATTY, ("user", LEGAL), stream=stream))
        assert len(house.asked) == 1
    assert first.headers["x-cache"] == "MISS"
    assert marks(hit)[3] == "detail=semantic"
    said = first.json["choices"][0]["message"]["content"]
    assert said.split()[0] in hit.body.decode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "then",
    [
        turns(SYSTEM, *PAY, ("user", LEGAL)),
        turns(SYSTEM, *RENT, ("user", "In French please."), ("assistant", "Oui."), ("user", LEGAL)),
        turns(("system", "Be long."), *CHATTY, ("user", LEGAL)),
        turns(SYSTEM, *CHATTY, ("user", LEGAL), model="n"),
    ],
    ids=["history", "instruction", "system", "model"],
)
async def test_the_same_words_in_another_conversation_are_a_miss(
    tmp_path: Path, then: dict[str, Any], *, stream: bool
) -> None:
    """Another matter, an instruction more, and whatever else must be equal."""
    async with open_house(tmp_path, embedder=near(), semantic=BY_MEANING) as house:
        status = await second(
            house, turns(SYSTEM, *RENT, ("user", LEGAL)), {**then, "stream": stream}
        )
        assert len(house.asked) == 2
    assert "fwd=miss" in status


async def test_conversations_are_equal_unless_asked_otherwise(tmp_path: Path) -> None:
    """By default a greeting more makes another conversation."""
    async with open_house(tmp_path, embedder=near()) as house:
        then = turns(*CHATTY, ("user", LEGAL))
        assert "fwd=miss" in await second(house, turns(*RENT, ("user", LEGAL)), then)
