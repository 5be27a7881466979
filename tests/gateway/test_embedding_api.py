"""Answers by meaning with an embedding API, which gives no token vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.gateway.house import AUTH, body_of, marks, open_house

from askonce.testing.answers import Asked, Chat, Reply, refusal
from askonce.testing.embedders import HashingEmbedder
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

FIRST = "What is the capital of France?"
AGAIN = "what is the capital of France?"
PARIS, ROME = Chat(text="The capital is Paris."), Chat(text="The capital is Rome.")


def embeddings(asked: Asked) -> Reply:
    """An embedding API that knows letters only."""
    model = HashingEmbedder(dim=256)
    data = [
        {"index": at, "embedding": model._vector(f"\x02{text.lower()}\x03").tolist()}
        for at, text in enumerate(asked.json["input"])
    ]
    return Reply(pieces=(msgspec.json.encode({"data": data, "usage": {"prompt_tokens": 9}}),))


def by_api(api: FakeEngine, **more: Any) -> dict[str, Any]:
    """Settings of the semantic tier."""
    return {"enabled": True, "embedder": api.url, "model": "letters", **more}


@pytest.mark.parametrize("trust", [False, True])
async def test_a_paraphrase_is_answered(tmp_path: Path, trust: bool) -> None:  # noqa: FBT001 - of pytest
    """With the floor alone, and with evidence, which then begins and stays with the floor."""
    engine = FakeEngine(PARIS, ROME)
    async with FakeEngine(otherwise=embeddings) as api:
        semantic = by_api(api)
        async with open_house(
            tmp_path, engine, semantic=semantic, trust={"enabled": trust}
        ) as house:
            await house.ask(body_of(FIRST))
            await house.settled()
            answer = await house.ask(body_of(AGAIN))
            assert marks(answer)[3] == "detail=semantic"
            other = await house.ask(body_of("What is the capital of Italy?"))
            assert "Rome" in other.body.decode()
            if trust:
                word = {"request_id": answer.headers["x-request-id"], "verdict": "wrong"}
                told = await house.send(
                    "POST", "/askonce/feedback", msgspec.json.encode(word), AUTH
                )
                assert told.status == 202
        texts = [asked.json["input"] for asked in api.asked[1:]]
        assert texts == [[FIRST], [AGAIN], ["What is the capital of Italy?"]]


async def test_a_failing_api_is_a_miss(tmp_path: Path) -> None:
    """The engine answers, and nothing else is noticed."""
    async with (
        FakeEngine(embeddings, otherwise=refusal(401)) as api,
        open_house(tmp_path, FakeEngine(PARIS, PARIS), semantic=by_api(api)) as house,
    ):
        for text in (FIRST, AGAIN):
            answer = await house.ask(body_of(text))
            assert answer.status == 200
            assert "Paris" in answer.body.decode()
