"""The gateway writes calls into the request log when that is asked for, and only then."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest
from tests.gateway.house import AUTH, CHAT, House, body_of, open_house

from askonce.testing.answers import Reply
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

ON = {"path": "calls.jsonl"}


async def recorded(house: House) -> list[dict[str, Any]]:
    """What the log holds once all is written."""
    recorder = house.service._recorder
    assert recorder is not None
    await recorder.settled()
    lines = await anyio.Path(recorder._path).read_bytes()
    return [msgspec.json.decode(line) for line in lines.splitlines()]


async def test_calls_are_recorded_as_they_were_served(tmp_path: Path) -> None:
    """Engine, exact hit, stream: request and answer whole, the caller by a digest alone."""
    async with open_house(tmp_path, record=ON) as house:
        for body in (body_of(), body_of(), body_of("Another?", stream=True)):
            await house.ask(body, "x-askonce-namespace: shop")
        lines = await recorded(house)
        assert [line["served"] for line in lines] == ["engine", "exact", "engine"]
        assert lines[0]["request"] == body_of()
        answers = [line["answer"]["choices"][0]["message"]["content"] for line in lines]
        assert answers[0] == answers[1] != answers[2]
        assert {line["namespace"] for line in lines} == {"shop"}
        assert lines[0]["headers"] == {"x-askonce-namespace": "shop"}
        assert len({line["tenant"] for line in lines}) == 1
        assert "sk-one" not in str(lines)
        assert await house.metric('askonce_recorded_calls_total{outcome="written"}') == 3


async def test_a_caller_who_wants_nothing_kept_is_not_recorded(tmp_path: Path) -> None:
    """Even where the operator does not let callers say so."""
    async with open_house(tmp_path, record=ON, controls={"allow": ()}) as house:
        await house.ask(body_of(), "cache-control: max-age=5, No-Store")
        assert await recorded(house) == []
        assert await house.metric('askonce_recorded_calls_total{outcome="no_store"}') == 1


async def test_failures_and_endpoints_without_a_cache_are_recorded(tmp_path: Path) -> None:
    """With their status; other paths are not, nor is a body that nobody here can read."""
    engine = FakeEngine(Reply(status=500, pieces=(b"{}",)), otherwise=Reply(pieces=(b"{}",)))
    async with open_house(tmp_path, engine, record=ON) as house:
        await house.ask(body_of())
        asked = msgspec.json.encode({"model": "m", "input": "x"})
        kind = "content-type: application/json"
        await house.send("POST", "/v1/responses?x=1&key=s3cret", asked, AUTH, kind)
        await house.send("POST", "/v1/embeddings", asked, AUTH, kind)
        await house.get("/v1/models")
        packed = gzip.compress(asked)
        await house.send("POST", CHAT, packed, AUTH, "content-encoding: gzip")
        await house.send("POST", CHAT, asked, AUTH, "x-askonce-ttl: soon")
        lines = await recorded(house)
        told = [(line["endpoint"], line["status"]) for line in lines]
        assert told[:2] == [(CHAT, 500), ("/v1/responses?x=1&key=***", 200)]
        assert len(told) == 2
        assert lines[0]["answer"] is None
        assert await house.metric('askonce_recorded_calls_total{outcome="unreadable"}') == 1


async def test_nothing_is_recorded_unless_it_is_asked_for(tmp_path: Path) -> None:
    """The default."""
    async with open_house(tmp_path) as house:
        await house.ask(body_of())
        assert house.service._recorder is None
    assert not list(tmp_path.glob("calls*"))


async def test_a_long_call_passes_and_is_not_recorded(tmp_path: Path) -> None:
    """No more of it is held than the bound."""
    async with open_house(tmp_path, record={**ON, "max_call_bytes": 200}) as house:
        answer = await house.ask(body_of("x" * 10_000))
        assert answer.status == 200
        assert await recorded(house) == []
        assert await house.metric('askonce_recorded_calls_total{outcome="too_long"}') == 1
