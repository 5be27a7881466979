"""Whole answers, and their delivery whole and streamed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tests.canonical.completions import (
    CALLS,
    DONE,
    LOGPROBS,
    USAGE,
    choice,
    completion,
    datas,
    read,
    reread,
    value,
)

from askonce.canonical.answer import (
    StreamReader,
    read_completion,
    render_completion,
    render_stream,
)
from askonce.canonical.sse import EventSplitter, data_of
from askonce.errors import AnswerUnusable

if TYPE_CHECKING:
    from askonce.canonical.value import Json

COMPLETIONS = [
    completion(),
    completion(choice("")),
    completion(
        choice("Hi!", refusal=None, annotations=[]), system_fingerprint="fp", service_tier="default"
    ),
    completion(choice(None, refusal="No.")),
    completion(choice(None, tool_calls=CALLS, finish_reason="tool_calls")),
    completion(choice("Let me see.", tool_calls=CALLS[:1], reasoning_content="Hm: é😀")),
    completion(choice("x", reasoning="Because.", reasoning_details=[{"type": "t", "text": "a"}])),
    completion(choice("Hi!", logprobs=LOGPROBS)),
    completion(choice(None, refusal="No", logprobs={"content": None, "refusal": []})),
    completion(choice("a", 0), choice("b", 1), choice("c", 2, finish_reason="length")),
    completion(choice("x", function_call={"name": "f", "arguments": "{}"})),
    completion(choice("x", audio={"id": "a", "data": "QQ==", "transcript": "x", "expires_at": 1})),
    completion(choice("x", stop_reason=128009, token_ids=[1, 2, 2])),
    completion(prompt_logprobs=None, prompt_token_ids=[1, 2], kv_transfer_params={"a": [1]}),
    completion(choice("x", unknown={"deep": [{"index": 0, "a": "b"}]}, other=1.5, flag=False)),
]


@pytest.mark.parametrize("whole", COMPLETIONS)
def test_a_whole_answer_is_delivered_as_it_was(whole: dict[str, Json]) -> None:
    """Everything but id and time of creation stays, in order."""
    body = render_completion(read(whole), answer_id="chatcmpl-new", created=7)
    delivered = json.loads(body)
    assert delivered == {**whole, "id": "chatcmpl-new", "created": 7}
    assert list(delivered)[2:] == [name for name in whole if name not in {"id", "created"}]
    ChatCompletion.model_validate_json(body)


@pytest.mark.parametrize("whole", COMPLETIONS)
def test_a_streamed_answer_says_the_same(whole: dict[str, Json]) -> None:
    """The chunks of a streamed delivery put together are the whole answer."""
    answer = read(whole)
    stream = datas(render_stream(answer, answer_id="chatcmpl-new", created=7, usage=True))
    again = reread(*stream)
    assert value(again) == value(answer)
    assert (again.prompt_tokens, again.completion_tokens) == (9, 12)
    assert stream[-1] == DONE
    for data in stream[:-1]:
        told = ChatCompletionChunk.model_validate_json(data)
        assert (told.id, told.created, told.model) == ("chatcmpl-new", 7, "m")
        assert told.object == "chat.completion.chunk"


@pytest.mark.parametrize("whole", COMPLETIONS[:10])
def test_the_sdk_puts_the_stream_together_to_the_same(whole: dict[str, Json]) -> None:
    """The OpenAI SDK's own accumulation gives content, calls, reasons and usage."""
    state = ChatCompletionStreamState()
    for data in datas(render_stream(read(whole), answer_id="c", created=7, usage=True))[:-1]:
        state.handle_chunk(ChatCompletionChunk.model_validate_json(data))
    snapshot = state.current_completion_snapshot.model_dump(mode="json")
    assert snapshot["usage"]["completion_tokens"] == 12
    for got, sent in zip(snapshot["choices"], whole["choices"], strict=True):
        assert got["finish_reason"] == sent["finish_reason"]
        assert got["message"]["content"] == sent["message"]["content"]
        assert got["message"].get("refusal") == sent["message"].get("refusal")
        if sent["logprobs"]:
            assert got["logprobs"]["content"] == sent["logprobs"]["content"]
        calls = sent["message"].get("tool_calls", [])
        for told, expected in zip(got["message"].get("tool_calls") or [], calls, strict=True):
            assert told["id"] == expected["id"]
            assert told["function"]["arguments"] == expected["function"]["arguments"]
            assert told["function"]["name"] == expected["function"]["name"]


def test_streamed_chunks_come_in_the_order_of_engines() -> None:
    """Role, reasoning, content, calls, finish, usage."""
    whole = completion(choice("Hi", reasoning_content="Hm", tool_calls=CALLS, logprobs=LOGPROBS))
    stream = datas(render_stream(read(whole), answer_id="c", created=7, usage=True))
    told = [json.loads(data) for data in stream[:-1]]
    assert [list(one["choices"][0]["delta"]) for one in told[:-1]] == [
        ["role"],
        ["reasoning_content"],
        ["content"],
        ["tool_calls"],
        [],
    ]
    assert told[2]["choices"][0]["logprobs"] == LOGPROBS
    assert [call["index"] for call in told[3]["choices"][0]["delta"]["tool_calls"]] == [0, 1]
    assert [one["choices"][0]["finish_reason"] for one in told[:-1]] == [None] * 4 + ["stop"]
    assert (told[-1]["choices"], told[-1]["usage"]) == ([], USAGE)
    assert all(one["usage"] is None for one in told[:-1])


def test_usage_is_streamed_only_when_asked_and_known() -> None:
    """No usage chunk, and no usage member, comes unasked; unknown usage is not made up."""
    unasked = render_stream(read(completion()), answer_id="c", created=7, usage=False)
    assert b"usage" not in unasked
    unknown = render_stream(read(completion(usage=None)), answer_id="c", created=7, usage=True)
    assert b'"choices":[]' not in unknown


def test_a_foreign_id_cannot_break_out_of_its_string() -> None:
    """An id is encoded, not pasted."""
    answer = read(completion())
    whole = json.loads(render_completion(answer, answer_id='"x', created=1))
    stream = datas(render_stream(answer, answer_id='"x', created=1, usage=False))
    assert whole["id"] == json.loads(stream[0])["id"] == '"x'


def test_numbers_keep_their_text_in_whole_delivery() -> None:
    """What an engine sent is not spelled anew."""
    body = b'{"id":"a","choices":[{"message":{},"finish_reason":"stop","x":1.50}],"y":2e0}'
    assert read_completion(body).rest == body[len(b'{"id":"a",') :]


@pytest.mark.parametrize(
    ("answer_id", "prefix"),
    [
        ("chatcmpl-1-2", "chatcmpl-"),
        ("gen-5", "gen-"),
        ("msg_5", "msg_"),
        ("0190e-5", "chatcmpl-"),
        ("", "chatcmpl-"),
        (None, "chatcmpl-"),
        (5, "chatcmpl-"),
    ],
)
def test_prefix_of_ids(answer_id: Json, prefix: str) -> None:
    """Fresh ids look like the engine's."""
    assert read(completion(id=answer_id)).id_prefix == prefix


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (USAGE, (9, 12)),
        (None, (0, 0)),
        ([], (0, 0)),
        ({"prompt_tokens": 1.5, "completion_tokens": True}, (0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": 2}, (0, 2)),
        ({"prompt_tokens": 2**70, "completion_tokens": 2}, (0, 2)),
    ],
)
def test_tokens_come_from_usage(usage: Json, tokens: tuple[int, int]) -> None:
    """Usage that cannot be read counts nothing."""
    answer = read(completion(usage=usage))
    assert (answer.prompt_tokens, answer.completion_tokens) == tokens


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "garbage"),
        (b"<html>", "garbage"),
        (b"[]", "garbage"),
        (b"\xff", "garbage"),
        (b"[" * 100_000, "garbage"),
        (b'{"choices":"\xff"}', "garbage"),
        (
            (
                b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"},'
                b'{"index":0,"message":{"content":"b"},"finish_reason":"stop"}]}'
            ),
            "contradiction",
        ),
        (b"{}", "no_choices"),
        (b'{"choices":[]}', "no_choices"),
        (b'{"choices":{}}', "no_choices"),
        (b'{"choices":[5]}', "garbage"),
        (b'{"choices":[{"message":"hi","finish_reason":"stop"}]}', "garbage"),
        (b'{"choices":[{"message":{},"finish_reason":null}]}', "incomplete"),
        (b'{"error":{"message":"x"},"choices":[]}', "error_in_answer"),
    ],
)
def test_what_is_no_whole_completion_is_unusable(body: bytes, reason: str) -> None:
    """The reason says why it cannot be cached."""
    with pytest.raises(AnswerUnusable) as caught:
        read_completion(body)
    assert caught.value.reason == reason


TEXTS = st.text(max_size=12)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
UNKNOWN = st.dictionaries(
    TEXTS.map("x_{}".format), SCALARS | st.lists(SCALARS, max_size=3), max_size=2
)
TOOL_CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": TEXTS,
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": TEXTS, "arguments": TEXTS}),
        }
    ),
    max_size=3,
)
MESSAGES = st.builds(
    lambda required, optional, unknown: {**required, **optional, **unknown},
    st.fixed_dictionaries({"role": st.just("assistant"), "content": st.none() | TEXTS}),
    st.fixed_dictionaries(
        {},
        optional={
            "reasoning_content": st.none() | TEXTS,
            "reasoning": st.none() | TEXTS,
            "refusal": st.none() | TEXTS,
            "tool_calls": TOOL_CALLS,
            "annotations": st.lists(st.dictionaries(TEXTS.map("y_{}".format), TEXTS, max_size=1)),
        },
    ),
    UNKNOWN,
)
LOGPROB_LISTS = st.none() | st.lists(
    st.fixed_dictionaries({"token": TEXTS, "logprob": st.floats(-50, 0)}), max_size=2
)
CHOICES = st.lists(
    st.builds(
        lambda message, outer, unknown: {"message": message, **outer, **unknown},
        MESSAGES,
        st.fixed_dictionaries(
            {"finish_reason": st.sampled_from(["stop", "length", "tool_calls"])},
            optional={
                "logprobs": st.none()
                | st.fixed_dictionaries({"content": LOGPROB_LISTS, "refusal": LOGPROB_LISTS}),
                "stop_reason": SCALARS,
            },
        ),
        UNKNOWN,
    ),
    min_size=1,
    max_size=3,
).map(lambda choices: [{"index": at, **each} for at, each in enumerate(choices)])


@pytest.mark.slow
@given(CHOICES, UNKNOWN, st.integers(1, 40))
def test_any_answer_survives_streaming(choices: Json, unknown: Json, size: int) -> None:
    """A streamed delivery, cut anywhere, reads back as the answer it was made from."""
    answer = read(completion(*choices, **unknown))
    stream = render_stream(answer, answer_id="chatcmpl-n", created=1, usage=True)
    splitter, reader = EventSplitter(), StreamReader()
    for start in range(0, len(stream), size):
        for event in splitter.feed(stream[start : start + size]):
            reader.feed(data_of(event) or b"")
    assert value(reader.finish()) == value(answer)
