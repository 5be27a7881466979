"""Callers with different credentials share nothing, and no secret or prompt gets out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.house import CHAT, body_of, near, open_house

from askonce.testing.answers import Chat
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

QUESTION = "Where does the quokka Gerald live these days?"
QUESTION_AGAIN = "where does the quokka Gerald live these days?"


async def served(house: Any, *asks: tuple[str, str]) -> list[str]:
    """How each was served: a text, and the header that says who asks."""
    answers = [await house.ask(body_of(text), auth=auth) for text, auth in asks]
    assert {answer.status for answer in answers} == {200}
    return [answer.headers["x-cache"] for answer in answers]


async def test_credentials_never_share(tmp_path: Path) -> None:
    """Neither the same nor a near question of another credential is answered from the cache."""
    async with open_house(tmp_path, embedder=near()) as house:
        marks = await served(
            house,
            (QUESTION, "authorization: Bearer sk-one"),
            (QUESTION, "authorization: Bearer sk-two"),
            (QUESTION, "x-api-key: Bearer sk-one"),
            (QUESTION, "api-key: sk-one"),
            (QUESTION, "x-nothing: sk-one"),
            (QUESTION_AGAIN, "authorization: Bearer sk-three"),
            (QUESTION_AGAIN, "authorization: Bearer sk-one"),
        )
    assert marks == ["MISS"] * 6 + ["HIT"]


async def test_one_flight_serves_one_credential(tmp_path: Path) -> None:
    """Equal requests in flight of two credentials are two calls."""
    async with open_house(tmp_path, FakeEngine(otherwise=Chat(text="x", delay=0.1))) as house:
        await asyncio.gather(
            *(house.ask(body_of(), auth=f"authorization: {i % 2}") for i in range(10))
        )
        assert len(house.asked) == 2


async def test_a_shared_scope_shares(tmp_path: Path) -> None:
    """With `scope = shared`, and no confirmation asked for, all get each other's answers."""
    tenants = {"scope": "shared", "confirm": "off"}
    async with open_house(tmp_path, embedder=near(), tenants=tenants) as house:
        marks = await served(
            house,
            (QUESTION, "authorization: Bearer sk-one"),
            (QUESTION, "authorization: Bearer sk-two"),
            (QUESTION_AGAIN, "x-api-key: three"),
        )
    assert marks == ["MISS", "HIT", "HIT"]


async def test_headers_that_change_an_answer_are_in_the_key(tmp_path: Path) -> None:
    """Another organization or query string is another request."""
    async with open_house(tmp_path) as house:
        answers = [
            await house.ask(body_of(), header)
            for header in (
                "traceparent: b",
                "openai-organization: o",
                "x-unknown: b",
                "traceparent: c",
            )
        ]
        path = f"{CHAT}?api-version=1"
        other = await house.send("POST", path, house.asked[0].body, "authorization: Bearer sk-one")
    marks = [answer.headers["x-cache"] for answer in answers]
    assert marks == ["MISS", "MISS", "MISS", "HIT"]
    assert other.headers["x-cache"] == "MISS"


async def test_secrets_and_prompts_stay_inside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No credential is in any file, and neither it nor a prompt is in logs or metrics."""
    caplog.set_level(logging.DEBUG)
    secret, prompt = "sk-very-secret-4711", "Gerald"
    engine = FakeEngine(Chat(text="fine"), Chat(text="fine", finish="length"))
    async with open_house(tmp_path, engine, embedder=near()) as house:
        auth = f"authorization: Bearer {secret}"
        for text in (QUESTION, QUESTION_AGAIN, QUESTION + " And his brother?"):
            await house.ask(body_of(text), auth=auth)
        await house.send("POST", CHAT, b'{"model":"m","messages":"Gerald"}', auth)
        await house.send("POST", CHAT, b'{"Gerald', auth)
        await engine.stop()
        failed = await house.send(
            "POST", CHAT, b'{"model":"Gerald","messages":[{"role":""}]}', auth
        )
        page = (await house.get("/metrics")).body.decode()
        files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert failed.status == 502
    assert any(path.name.startswith("vectors") for path in files)
    assert any(b"fine" in content for content in files.values())
    assert not [path for path, content in files.items() if secret.encode() in content]
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("askonce")]
    assert len(ours) > 5
    for text in (*ours, page):
        assert secret not in text
        assert prompt not in text
