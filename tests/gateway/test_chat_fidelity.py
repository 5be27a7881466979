"""A hit is what the original was, as the official client reads it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from openai import OpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from tests.gateway.house import body_of, open_house

from askonce.testing.answers import EVENTS, Asked, Chat, Reply
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

USAGE = {
    "prompt_tokens": 31,
    "completion_tokens": 12,
    "total_tokens": 43,
    "prompt_tokens_details": {"cached_tokens": 16, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 5,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 2,
        "rejected_prediction_tokens": 1,
    },
}
CALLS: list[Any] = [
    {
        "id": "call_Zx9",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Zürich","days":3}'},
    },
    {"id": "call_Ab1", "type": "function", "function": {"name": "now", "arguments": "{}"}},
]
LOGPROBS = {
    "content": [
        {
            "token": "Par",
            "logprob": -0.125,
            "bytes": [80, 97, 114],
            "top_logprobs": [{"token": "Par", "logprob": -0.125, "bytes": [80, 97, 114]}],
        },
        {"token": "is", "logprob": -0.5, "bytes": None, "top_logprobs": []},
    ],
    "refusal": None,
}


def choice(index: int = 0, *, finish: str = "stop", logprobs: Any = None, **message: Any) -> Any:
    whole = {"role": "assistant", "content": None, **message}
    return {"index": index, "message": whole, "logprobs": logprobs, "finish_reason": finish}


CASES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "text": ({}, [choice(content="Paris, é 😀\n  of course.")]),
    "tool_calls": (
        {"tools": [{"type": "function", "function": {"name": "weather", "parameters": {}}}]},
        [choice(finish="tool_calls", tool_calls=CALLS)],
    ),
    "text_and_calls": ({}, [choice(finish="tool_calls", content="Let me look.", tool_calls=CALLS)]),
    "several": (
        {"n": 3},
        [choice(i, content=f"Answer {i}") for i in range(3)],
    ),
    "logprobs": (
        {"logprobs": True, "top_logprobs": 1},
        [choice(content="Paris", logprobs=LOGPROBS)],
    ),
    "reasoning": ({}, [choice(content="42", reasoning_content="Six times seven, as ever.")]),
    "refusal": ({}, [choice(refusal="I cannot help with that.")]),
    "json": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}},
        [choice(content='{"capital": "Paris"}')],
    ),
    "vendor": (
        {"extra_body": {"min_p": 0.1, "chat_template_kwargs": {"thinking": False}}},
        [{**choice(content="Paris"), "stop_reason": 128_009, "token_ids": [1, 2]}],
    ),
}


class Crafted:
    """An engine's answer from its choices, in either delivery."""

    def __init__(self, choices: list[Any]) -> None:
        self.choices = choices
        self._made = 0

    def __call__(self, asked: Asked) -> Reply:
        self._made += 1
        request = asked.json
        frame = {
            "id": f"chatcmpl-engine{self._made}",
            "created": 1_700_000_000 + self._made,
            "model": "m-2024",
            "system_fingerprint": "fp_1",
            "service_tier": "default",
        }
        if not request.get("stream"):
            whole = {**frame, "object": "chat.completion", "choices": self.choices, "usage": USAGE}
            return Reply(pieces=(msgspec.json.encode(whole),))
        frame["object"] = "chat.completion.chunk"
        events = [{**frame, "choices": [piece]} for each in self.choices for piece in _cut(each)]
        if (request.get("stream_options") or {}).get("include_usage"):
            events = [{**event, "usage": None} for event in events]
            events.append({**frame, "choices": [], "usage": USAGE})
        lines = [b"data: %b\n\n" % msgspec.json.encode(event) for event in events]
        return Reply(headers=(EVENTS,), pieces=(*lines, b"data: [DONE]\n\n"), framing="chunked")


def _cut(each: dict[str, Any]) -> list[dict[str, Any]]:
    message, closing = dict(each["message"]), dict(each)
    del closing["message"]
    logprobs = closing.pop("logprobs")
    deltas: list[dict[str, Any]] = [{"role": message.pop("role"), "content": ""}]
    for at, call in enumerate(message.pop("tool_calls", [])):
        function = call["function"]
        opened = {**call, "index": at, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        for letter in function["arguments"]:
            part = {"index": at, "function": {"arguments": letter}}
            deltas.append({"tool_calls": [part]})
    for name, text in message.items():
        deltas += [{name: letter} for letter in text or ""]
    pieces: list[dict[str, Any]] = [
        {"index": each["index"], "delta": delta, "finish_reason": None} for delta in deltas
    ]
    pieces[-1]["logprobs"] = logprobs
    return [*pieces, {**closing, "delta": {}}]


def view(whole: Any) -> Any:
    """What must be equal, without members that say nothing."""
    told = whole.model_dump()
    for name in ("id", "created", "object"):
        del told[name]
    for each in told["choices"]:
        for call in each["message"].get("tool_calls") or []:
            call.pop("index", None)
            (call["function"]).pop("parsed_arguments", None)
        each["message"].pop("parsed", None)
        each["message"]["content"] = each["message"]["content"] or None
    return _without_nothing(told)


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nothing(v) for k, v in value.items() if v is not None}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value


async def whole(client: Any, request: dict[str, Any]) -> tuple[Any, Any]:
    """Headers and completion."""
    raw = await client.chat.completions.with_raw_response.create(**request)
    return raw.headers, raw.parse()


async def streamed(client: Any, request: dict[str, Any], *, usage: bool) -> Any:
    """Headers, and the completion that the client puts together."""
    options = {"stream_options": {"include_usage": True}} if usage else {}
    raw = await client.chat.completions.with_raw_response.create(**request, **options, stream=True)
    state = ChatCompletionStreamState()
    seen = []
    extras: list[tuple[int, str, Any]] = []  # members of a choice that the client leaves in chunks
    async for chunk in raw.parse():
        extras += [
            (c.index, *each) for c in chunk.choices for each in (c.model_extra or {}).items()
        ]
        seen.append(chunk)
        state.handle_chunk(chunk)
    assert [bool(chunk.usage) for chunk in seen] == [False] * (len(seen) - usage) + [True] * usage
    assert len({chunk.id for chunk in seen}) == 1
    final = state.get_final_completion()
    for index, name, value in extras:
        setattr(final.choices[index], name, value)
    return raw.headers, final


def check_marks(headers: Any, cache: str, age: str | None) -> None:
    assert headers["x-cache"] == cache
    assert headers.get("age") == age
    assert headers["x-request-id"]
    status = headers["cache-status"].split("; ")
    expected = {"HIT": ["AskOnce", "hit"], "MISS": ["AskOnce", "fwd=miss", "fwd-status=200"]}
    assert status[: len(expected[cache])] == expected[cache]
    if cache == "HIT":
        assert status[2:] in (["ttl=3600", "detail=exact"], ["ttl=3599", "detail=exact"])


@pytest.mark.parametrize("first", ["whole", "streamed", "streamed_with_usage"])
@pytest.mark.parametrize("case", CASES)
async def test_every_delivery_of_a_hit_equals_the_original(
    tmp_path: Path, case: str, first: str
) -> None:
    """Whatever the engine said, however it was delivered, each replay says the same anew."""
    fields, choices = CASES[case]
    request = body_of(**fields)
    async with open_house(tmp_path, FakeEngine(otherwise=Crafted(choices))) as house:
        client = await house.sdk()
        if first == "whole":
            headers, original = await whole(client, request)
            assert headers["cache-status"].endswith("; stored")
        else:
            usage = first == "streamed_with_usage"
            headers, original = await streamed(client, request, usage=usage)
        check_marks(headers, "MISS", None)
        await house.settled()
        replays = [
            await whole(client, request),
            await streamed(client, request, usage=False),
            await streamed(client, request, usage=True),
        ]
        assert len(house.asked) == 1
    assert original.created == 1_700_000_001
    expected = view(original)
    for (headers, replay), with_usage in zip(replays, (True, False, True), strict=True):
        check_marks(headers, "HIT", headers["age"])
        assert headers["age"] in {"0", "1"}
        told = view(replay)
        assert told.pop("usage", None) == (_without_nothing(USAGE) if with_usage else None)
        assert told == {k: v for k, v in expected.items() if k != "usage"}
        assert abs(replay.created - time.time()) < 5
        assert replay.id.startswith("chatcmpl-")
        assert replay.id != original.id
    assert len({replay.id for _, replay in replays}) == 3
    assert len({headers["x-request-id"] for headers, _ in replays}) == 3


async def test_a_second_turn_with_the_replayed_call_id_hits(tmp_path: Path) -> None:
    """An agent that sends back a replayed tool call finds the answer of its second turn too."""
    engine = FakeEngine(otherwise=Chat(text="It is sunny."))
    engine.script(Chat(calls=(("weather", '{"city":"Bern"}'),), finish="tool_calls"))
    async with open_house(tmp_path, engine) as house:
        client = await house.sdk()
        runs = []
        for _ in range(2):
            turn = (await whole(client, body_of("Weather?")))[1].choices[0].message
            call = turn.tool_calls[0]
            messages = [
                {"role": "user", "content": "Weather?"},
                turn.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call.id, "content": "sun"},
            ]
            second = await client.chat.completions.with_raw_response.create(
                model="m", messages=messages
            )
            await house.settled()
            runs.append((call.id, second.headers["x-cache"], second.parse().choices[0].message))
        assert len(house.asked) == 2
    assert [hit for _, hit, _ in runs] == ["MISS", "HIT"]
    assert runs[0][0] == runs[1][0]
    assert runs[0][2] == runs[1][2]


async def test_the_synchronous_client_reads_hits(tmp_path: Path) -> None:
    """The blocking client gets the same answer twice, whole and streamed."""

    def talk(port: int) -> list[str]:
        url = f"http://127.0.0.1:{port}/v1"
        with OpenAI(base_url=url, api_key="sk", max_retries=0) as client:
            texts = [
                client.chat.completions.create(**body_of()).choices[0].message.content or ""
                for _ in range(2)
            ]
            stream = client.chat.completions.create(**body_of(), stream=True)
            texts.append("".join(c.choices[0].delta.content or "" for c in stream if c.choices))
        return texts

    async with open_house(tmp_path) as house:
        texts = await asyncio.to_thread(talk, house.port)
        assert len(house.asked) == 1
    assert texts[0]
    assert len(set(texts)) == 1


async def test_the_parsing_face_of_the_client_reads_hits(tmp_path: Path) -> None:
    """`chat.completions.stream`, with its own checks, accepts a replayed stream."""
    engine = FakeEngine(otherwise=Crafted(CASES["tool_calls"][1]))
    async with open_house(tmp_path, engine) as house:
        client = await house.sdk()
        kinds = []
        for _ in range(2):
            async with client.chat.completions.stream(**body_of()) as stream:
                kinds.append([event.type async for event in stream])
                final = await stream.get_final_completion()
            await house.settled()
        assert len(house.asked) == 1
    calls = final.choices[0].message.tool_calls
    assert calls is not None
    assert [call.function.arguments for call in calls] == [
        call["function"]["arguments"] for call in CALLS
    ]
    assert {"tool_calls.function.arguments.done", "chunk"} <= set(kinds[1])


@pytest.mark.parametrize("asks", [True, False])
async def test_usage_is_asked_for_and_hidden(tmp_path: Path, *, asks: bool) -> None:
    """The engine is asked for usage once; who did not ask sees none, the hit has it."""
    async with open_house(tmp_path) as house:
        client = await house.sdk()
        _, answer = await streamed(client, body_of(), usage=asks)
        await house.settled()
        _, again = await streamed(client, body_of(), usage=not asks)
        _, complete = await whole(client, body_of())
        asked = house.asked[0]
    assert asked.body.count(b"include_usage") == 1
    assert asked.json == {**body_of(), "stream": True, "stream_options": {"include_usage": True}}
    assert (answer.usage is not None, again.usage is not None) == (asks, not asks)
    assert complete.usage.completion_tokens > 0


async def test_usage_is_not_asked_for_when_told_not_to(tmp_path: Path) -> None:
    """With `ask_usage = false` the engine gets the caller's own bytes."""
    async with open_house(tmp_path, upstream=({"ask_usage": False},)) as house:
        body = b'{ "stream":true,"model":"m", "messages":[{"role":"user","content":"caf\\u00e9"}]}'
        await house.send("POST", "/v1/chat/completions?x=%20", body)
        asked = house.asked[0]
    assert asked.body == body
    assert asked.path == "/v1/chat/completions?x=%20"


async def test_other_options_of_a_stream_stay(tmp_path: Path) -> None:
    """Asking for usage keeps the caller's other stream options and all else as it was."""
    body = body_of(stream=True, stream_options={"continuous_usage_stats": True}, seed=2**60)
    async with open_house(tmp_path) as house:
        await house.ask(body)
        asked = house.asked[0].json
    options = {"continuous_usage_stats": True, "include_usage": True}
    assert asked == {**body, "stream_options": options}
