"""Several engines behind one gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askonce.testing.answers import Reply, refusal
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    Stage = Callable[..., AbstractAsyncContextManager[Any]]

pytestmark = pytest.mark.anyio


async def test_models_choose_their_engine(stage: Stage) -> None:
    """With several engines the body's model decides; what names none goes to the first."""
    first, second = FakeEngine(), FakeEngine()
    json_type = "content-type: application/json"
    async with stage(first, second, models=("gpt-*", "llama*")) as here:
        await here.ask("POST", "/v1/embeddings", b'{"model":"llama-3","input":"x"}', json_type)
        await here.ask("POST", "/v1/other", b'{"model":"gpt-9"}', json_type)
        await here.ask("POST", "/v1/other", b"not json", json_type)
        await here.ask("POST", "/v1/other", b'{"model":5}', json_type)
        await here.ask("GET", "/v1/models/llama%2F7b")
        unknown = await here.ask("POST", "/v1/other", b'{"model":"claude"}', json_type)
        huge = b'{"model":"llama","x":"' + b"x" * 2_000_000 + b'"}'
        await here.ask("POST", "/v1/huge", huge, json_type)
        chunked = b"12\r\n" + b'{"model": "llama"}' + b"\r\n0\r\n\r\n"
        caller = await here.caller()
        head = (
            f"POST /v1/c HTTP/1.1\r\nhost: g\r\n{json_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        await caller.send(head.encode() + chunked)
        await caller.answer()
    assert [asked.path for asked in second.asked] == [
        "/v1/embeddings",
        "/v1/models/llama%2F7b",
        "/v1/c",
    ]
    assert [asked.path for asked in first.asked] == ["/v1/other"] * 3 + ["/v1/huge"]
    assert first.asked[-1].body == huge
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "model_not_found")


async def test_model_lists_are_merged(stage: Stage) -> None:
    """One list of all engines' models without doubles; engines that fail are left out."""
    listed = b'{"object":"list","data":[{"id":"fake"},{"id":"b","extra":[1]}]}'
    engines = (FakeEngine(), FakeEngine(Reply(pieces=(listed,))), FakeEngine(refusal(500)))
    async with stage(*engines, models=("a", "b", "c")) as here:
        answer = await here.ask("GET", "/v1/models")
    assert [model["id"] for model in answer.json["data"]] == ["fake", "b"]
    assert answer.json["data"][1]["extra"] == [1]


async def test_model_lists_that_all_fail_are_an_error(stage: Stage) -> None:
    """When no engine gives a list, the first answer is passed on, or 502 if there is none."""
    engines = (FakeEngine(Reply(fault="refuse")), FakeEngine(refusal(401)))
    async with stage(*engines, models=("a", "b")) as here:
        refused = await here.ask("GET", "/v1/models")
        engines[0].script(Reply(fault="refuse"))
        engines[1].script(Reply(pieces=(b"no list",)))
        unreadable = await here.ask("GET", "/v1/models")
    assert refused.status == 401
    assert unreadable.status == 502


async def test_one_engine_lists_its_models_itself(stage: Stage) -> None:
    """With one engine `/v1/models` passes through."""
    async with stage(FakeEngine()) as here:
        answer = await here.ask("GET", "/v1/models?x=1")
        assert here.engine.asked[0].path == "/v1/models?x=1"
    assert answer.json["data"][0]["owned_by"] == "askonce"
