"""Which engine is asked, and what becomes of an engine that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import openai
import pytest
from tests.gateway.house import body_of, marks, open_house

from askonce.testing.answers import (
    EVENTS,
    JSON,
    Chat,
    Fault,
    Reply,
    garbage_events,
    refusal,
    wrong_length,
)
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

IMPATIENT = {"connect_timeout": 0.5, "first_byte_timeout": 0.3, "idle_timeout": 0.3}


async def test_the_model_chooses_the_engine(tmp_path: Path) -> None:
    """The first upstream whose pattern matches is asked; a model of none is 404."""
    upstream = ({"models": ("small-*", "tiny")}, {"models": ("big-?",)})
    async with open_house(tmp_path, FakeEngine(), FakeEngine(), upstream=upstream) as house:
        models = ("small-1", "big-1", "tiny", "big-10")
        statuses = [(await house.ask(body_of(model=model))).status for model in models]
        unknown = await house.ask(body_of(model="big-10"))
        first, second = ([a.json["model"] for a in e.asked] for e in house.engines)
    assert statuses == [200, 200, 200, 404]
    assert (first, second) == (["small-1", "tiny"], ["big-1"])
    assert unknown.json["error"]["code"] == "model_not_found"
    assert unknown.json["error"]["param"] == "model"


async def test_a_configured_key_replaces_the_callers(tmp_path: Path) -> None:
    """The engine sees the configured credential alone, yet callers stay apart."""
    async with open_house(tmp_path, upstream=({"api_key": "sk-up"},)) as house:
        await house.ask(body_of(), "x-api-key: mine")
        await house.ask(body_of(), auth="authorization: Bearer sk-other")
        asked = house.asked
    assert len(asked) == 2
    for each in asked:
        assert each.header(b"authorization") == b"Bearer sk-up"
        assert each.header(b"x-api-key") is None


async def test_a_revision_makes_other_keys(tmp_path: Path) -> None:
    """After the operator names a new revision nothing of the old one is served."""
    async with FakeEngine() as engine:
        seen = []
        for revision in ("1", "1", "2"):
            upstream = ({"revision": revision},)
            async with open_house(tmp_path, engine, started=True, upstream=upstream) as house:
                seen.append((await house.ask(body_of())).headers["x-cache"])
    assert seen == ["MISS", "HIT", "MISS"]


async def test_engines_at_one_host_are_told_apart(tmp_path: Path) -> None:
    """Without a name, another port or path is another engine: it has not answered yet."""
    async with FakeEngine(Chat(text="one")) as one, FakeEngine(Chat(text="two")) as two:
        answers = []
        for engine in (one, two):
            async with open_house(
                tmp_path, engine, started=True, upstream=({"name": ""},)
            ) as house:
                answers.append(await house.ask(body_of()))
    texts = [answer.json["choices"][0]["message"]["content"] for answer in answers]
    assert texts == ["one", "two"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503, 529])
async def test_errors_pass_unchanged_and_are_not_kept(
    tmp_path: Path,
    status: int,
    *,
    stream: bool,
) -> None:
    """An error's status, body, rate-limit headers and retry-after are the engine's own."""
    engine = FakeEngine(refusal(429) if status == 529 else refusal(status))
    expected = 429 if status == 529 else status
    async with open_house(tmp_path, engine) as house:
        answer = await house.ask(body_of(stream=stream))
        after = await house.ask(body_of(stream=stream))
    assert answer.status == expected
    assert answer.json["error"]["message"] == f"engine says {expected}"
    assert marks(answer) == ["AskOnce", "fwd=miss", f"fwd-status={expected}"]
    if expected == 429:
        assert answer.headers["retry-after"] == "7"
        assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert (after.status, after.headers["x-cache"]) == (200, "MISS")


async def test_the_official_client_sees_the_engines_error(tmp_path: Path) -> None:
    """The client raises what it would raise before the engine itself."""
    async with open_house(tmp_path, FakeEngine(refusal(429))) as house:
        client = await house.sdk()
        with pytest.raises(openai.RateLimitError, match="engine says 429") as caught:
            await client.chat.completions.create(**body_of())
    assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("refuse", 502, "upstream_unreachable"),
        ("break_before", 502, "upstream_unreachable"),
        ("hang_before", 504, "upstream_timeout"),
    ],
)
async def test_an_engine_that_does_not_answer(
    tmp_path: Path, fault: Fault, status: int, code: str
) -> None:
    """Down is 502 and slow is 504, in OpenAI's shape; the next request is served."""
    engine = FakeEngine(Reply(fault=fault))
    async with open_house(tmp_path, engine, upstream=(IMPATIENT,)) as house:
        answer = await house.ask(body_of())
        after = await house.ask(body_of())
        failed = await house.metric('askonce_requests_total{outcome="upstream_error",tier="none"}')
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert answer.json["error"]["type"] == "upstream_error"
    assert (after.status, after.headers["x-cache"]) == (200, "MISS")
    assert failed == 1


async def test_an_engine_that_is_gone(tmp_path: Path) -> None:
    """With nobody at the port it is 502, and cached answers go on being served."""
    engine = FakeEngine()
    async with open_house(tmp_path, engine, upstream=(IMPATIENT,)) as house:
        await house.ask(body_of())
        await engine.stop()
        hit, miss = await house.ask(body_of()), await house.ask(body_of("new"))
    assert (hit.status, hit.headers["x-cache"]) == (200, "HIT")
    assert (miss.status, miss.json["error"]["code"]) == (502, "upstream_unreachable")


@pytest.mark.parametrize("fault", ["break_inside", "hang_inside"])
async def test_a_stream_that_breaks_off_says_so(tmp_path: Path, fault: Fault) -> None:
    """What came is passed on, then an error event and no `[DONE]`; nothing is kept."""
    engine = FakeEngine(Chat(text="one two three", fault=fault, at=3))
    async with open_house(tmp_path, engine, upstream=(IMPATIENT,)) as house:
        broken = await house.ask(body_of(stream=True))
        after = await house.ask(body_of(stream=True))
        assert len(house.asked) == 2
    *events, last = [event for event in broken.body.split(b"\n\n") if event]
    assert len(events) == 3
    assert msgspec.json.decode(last.removeprefix(b"data: "))["error"]["code"] == "upstream_broken"
    assert b"[DONE]" not in broken.body
    assert after.body.endswith(b"data: [DONE]\n\n")


async def test_the_official_client_raises_when_a_stream_breaks(tmp_path: Path) -> None:
    """A half answer is an error for the client, not a short answer."""
    engine = FakeEngine(Chat(text="one two three", fault="break_inside", at=3))
    async with open_house(tmp_path, engine) as house:
        client = await house.sdk()
        stream = await client.chat.completions.create(**body_of(), stream=True)
        with pytest.raises(openai.APIError, match="broke off"):
            _ = [chunk async for chunk in stream]


async def test_a_whole_answer_that_breaks_off(tmp_path: Path) -> None:
    """A body that ends too early is 502, never half a body."""
    async with open_house(tmp_path, FakeEngine(wrong_length(5))) as house:
        answer = await house.ask(body_of())
        after = await house.ask(body_of())
    assert (answer.status, answer.json["error"]["code"]) == (502, "upstream_broken")
    assert after.headers["x-cache"] == "MISS"


HALF = Chat(text="half", done=False)
DIED = Chat(text="half", error_inside=True)
CUT = Chat(text="cut", finish="length")
LIES = Chat(text="lies", headers=((b"content-type", b"text/html"),))
ZIPPED = Chat(text="zipped", gzipped=True)
BAD_TOOL = Chat(calls=(("f", "{not json"),), finish="tool_calls")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        garbage_events(),
        Reply(pieces=(b"no json at all",)),
        Reply(pieces=(b"[1, 2]",)),
        Reply(pieces=()),
        Reply(status=204),
        Reply(headers=(EVENTS,), pieces=(b"data: [DONE]\n\n",), framing="chunked"),
        Reply(headers=(JSON,), pieces=(b'{"error":{"message":"no"}}',)),
        Reply(headers=(), pieces=(b"{}",)),
        HALF,
        DIED,
        CUT,
        LIES,
        ZIPPED,
        BAD_TOOL,
    ],
)
async def test_what_cannot_be_trusted_passes_and_is_not_kept(
    tmp_path: Path,
    reply: Reply | Chat,
    *,
    stream: bool,
) -> None:
    """An engine's odd answer reaches the caller as it is, and the next request asks again."""
    engine = FakeEngine(reply)
    async with open_house(tmp_path, engine) as house:
        answer = await house.ask(body_of(stream=stream))
        asked = house.asked[0]
        after = await house.ask(body_of(stream=stream))
    expected = reply if isinstance(reply, Reply) else reply(asked)
    whole_answer = isinstance(reply, Chat) and not stream and reply in {HALF, DIED}
    if not (stream and isinstance(reply, Chat)):  # our usage event is hidden from the caller
        assert answer.body == (b"" if expected.status == 204 else expected.body)
    assert answer.status == expected.status
    assert after.status == 200
    assert after.headers["x-cache"] == ("HIT" if whole_answer else "MISS")
    assert b'"content"' in after.body


async def test_an_upstream_may_have_a_life_of_its_own(tmp_path: Path) -> None:
    """Its answers live so long, those of others as long as all do."""
    upstreams = ({"models": ("short-*",), "ttl": 60.0}, {"models": ("*",)})
    async with open_house(tmp_path, FakeEngine(), FakeEngine(), upstream=upstreams) as house:
        lives = []
        for model in ("short-1", "long-1"):
            await house.ask(body_of(model=model))
            hit = marks(await house.ask(body_of(model=model)))
            lives.append(next(int(mark[4:]) for mark in hit if mark.startswith("ttl=")))
        assert [59 <= lives[0] <= 60, 3590 <= lives[1] <= 3600] == [True, True]
