"""Whole and streamed answers."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from askonce.canonical.answer import (
    Answer,
    StreamReader,
    facts,
    read_completion,
    render_completion,
    render_stream,
)
from askonce.canonical.sse import EventSplitter, data_of
from askonce.errors import AnswerUnusable

if TYPE_CHECKING:
    from askonce.canonical.value import Json

USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 12,
    "total_tokens": 21,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
CALLS = [
    {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"q":"é"}'}},
    {"id": "call_b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
]
LOGPROBS: Json = {
    "content": [
        {"token": "Hi", "logprob": -0.25, "bytes": [72, 105], "top_logprobs": []},
        {"token": "!", "logprob": -1.5, "bytes": None, "top_logprobs": []},
    ],
    "refusal": None,
}


def completion(*choices: dict[str, Json], **members: Json) -> dict[str, Json]:
    """A whole completion as an engine sends it."""
    return {
        "id": "chatcmpl-123",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": list(choices or [choice("Hi!")]),
        "usage": USAGE,
        **members,
    }


def choice(content: str | None, index: int = 0, **members: Json) -> dict[str, Json]:
    """One choice; members named after a choice's own go there, others into the message."""
    own = {"finish_reason": "stop", "logprobs": None}
    outer = {name: members.pop(name, value) for name, value in own.items()}
    outer |= {name: members.pop(name) for name in ("stop_reason", "token_ids") if name in members}
    return {
        "index": index,
        "message": {"role": "assistant", "content": content, **members},
        **outer,
    }


def read(whole: Json) -> Answer:
    """The answer in a completion."""
    return read_completion(json.dumps(whole).encode())


def datas(stream: bytes) -> list[bytes]:
    """The data of each event of a stream."""
    splitter = EventSplitter()
    events = splitter.feed(stream)
    assert splitter.tail == b""
    return [data for event in events if (data := data_of(event)) is not None]


def reread(*chunks: bytes) -> Answer:
    """The answer that these events carry."""
    reader = StreamReader()
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def value(answer: Answer) -> Json:
    """The members of an answer."""
    return json.loads(b"{" + answer.rest)


def chunk(delta: Json, index: int = 0, finish: str | None = None, **members: Json) -> bytes:
    """One chunk of a stream with one choice."""
    one = {"index": index, "delta": delta, "finish_reason": finish, **members}
    head = {"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 5, "model": "m"}
    return json.dumps({**head, "choices": [one]}).encode()


DONE = b"[DONE]"
FINISH = chunk({}, finish="stop")

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


def test_a_stream_in_small_pieces() -> None:
    """Deltas of all kinds are put together, and the usage chunk is told apart."""
    reader = StreamReader()
    chunks = [
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"reasoning_content": "H"}),
        chunk({"reasoning_content": "m"}),
        chunk({"content": "Hi"}, logprobs={"content": LOGPROBS["content"][:1], "refusal": None}),
        chunk({"role": "assistant", "content": "!"}, logprobs={"content": LOGPROBS["content"][1:]}),
        chunk({"tool_calls": [{"index": 1, **CALLS[1]}]}),
        chunk({"tool_calls": [{"index": 0, **CALLS[0]}]}),
        chunk({"content": None}, finish="tool_calls", stop_reason=None),
    ]
    assert [reader.feed(each) for each in chunks] == [False] * len(chunks)
    usage: Json = {"id": "chatcmpl-9", "choices": [], "usage": USAGE, "system_fingerprint": None}
    assert reader.feed(json.dumps(usage).encode())
    assert not reader.feed(DONE)
    answer = reader.finish()
    assert value(answer) == {
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hi!",
                    "refusal": None,
                    "reasoning_content": "Hm",
                    "tool_calls": CALLS,
                },
                "finish_reason": "tool_calls",
                "logprobs": LOGPROBS,
                "stop_reason": None,
            }
        ],
        "system_fingerprint": None,
        "usage": USAGE,
    }
    assert (answer.id_prefix, answer.completion_tokens) == ("chatcmpl-", 12)


def test_a_bare_stream_gives_a_valid_completion() -> None:
    """Role, content and usage may never be said; chunks may lack delta, index and choices."""
    bare = b'{"id":"x","choices":[{"finish_reason":"stop"}],"model":"m"}'
    filters = b'{"choices":[],"prompt_filter_results":[]}'
    whole = value(reread(filters, bare, DONE))
    assert whole["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": None},
            "finish_reason": "stop",
        }
    ]
    assert whole["prompt_filter_results"] == []
    assert "usage" not in whole
    assert not StreamReader().feed(filters)


@pytest.mark.parametrize(
    ("roles", "role"), [([None], "assistant"), ([None, "model", "model"], "model")]
)
def test_role_is_the_engines(roles: list[Json], role: str) -> None:
    """A role that was said is kept, one that never was is the assistant's."""
    whole = value(reread(*(chunk({"role": each}) for each in roles), FINISH, b" [DONE]"))
    assert whole["choices"][0]["message"] == {"role": role, "content": None}


def test_an_answer_that_only_just_decoded_still_fails_in_order() -> None:
    """Nesting beyond what can be encoded again is a reason, not a crash."""
    reader = StreamReader()
    deep: Json = None
    for _ in range(200_000):
        deep = {"x": deep}
    reader.feed(FINISH)
    reader.feed(DONE)
    reader._top["deep"] = deep
    with pytest.raises(AnswerUnusable, match="garbage"):
        reader.finish()


def test_usage_in_every_chunk_counts_last() -> None:
    """Running usage is overwritten, null never overwrites."""
    running = json.dumps({**json.loads(FINISH), "usage": {"prompt_tokens": 1}}).encode()
    last = json.dumps({**json.loads(FINISH), "usage": {"prompt_tokens": 2}}).encode()
    null = json.dumps({**json.loads(FINISH), "usage": None}).encode()
    assert reread(running, last, null, DONE).prompt_tokens == 2


def test_calls_without_a_number_are_whole() -> None:
    """Some engines send each call at once and do not number it."""
    chunks = [chunk({"tool_calls": [call]}) for call in CALLS]
    whole = value(reread(*chunks, chunk({"tool_calls": ["odd"]}), FINISH, DONE))
    assert whole["choices"][0]["message"]["tool_calls"] == [*CALLS, "odd"]


def test_calls_that_are_no_list_are_kept() -> None:
    """What nobody knows goes through untouched."""
    odd = completion(choice("x", tool_calls={"a": "b"}))
    answer = read(odd)
    stream = datas(render_stream(answer, answer_id="c", created=1, usage=True))
    assert value(reread(*stream)) == value(answer)


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        ([], "incomplete"),
        ([FINISH], "incomplete"),
        ([DONE], "no_choices"),
        ([b'{"choices":[],"usage":{}}', DONE], "no_choices"),
        ([chunk({"content": "x"}), DONE], "incomplete"),
        ([FINISH, chunk({"content": "x"}, index=1), DONE], "incomplete"),
        ([FINISH, b"nope", DONE], "garbage"),
        ([FINISH, b"\xff", DONE], "garbage"),
        ([FINISH, b"[" * 100_000, DONE], "garbage"),
        ([FINISH, b"[]", DONE], "garbage"),
        ([FINISH, b"{}", DONE], "garbage"),
        ([FINISH, b'{"choices":null}', DONE], "garbage"),
        ([b'{"choices":[5]}', FINISH, DONE], "garbage"),
        ([b'{"choices":[{"index":"0"}]}', FINISH, DONE], "garbage"),
        ([b'{"choices":[{"index":true}]}', FINISH, DONE], "garbage"),
        ([b'{"choices":[{"delta":"x"}]}', FINISH, DONE], "garbage"),
        ([b'{"choices":[{"message":{}}]}', FINISH, DONE], "garbage"),
        ([FINISH, DONE, FINISH], "garbage"),
        ([b'{"error":{"message":"x"}}', FINISH, DONE], "error_in_stream"),
        ([b'{"error":"x"}', b"nope", DONE], "error_in_stream"),
        ([chunk({"content": "x"}), chunk({"content": 5}), FINISH, DONE], "contradiction"),
        ([chunk({}, finish="stop"), chunk({}, message={}), DONE], "garbage"),
    ],
)
def test_what_is_no_whole_stream_is_unusable(chunks: list[bytes], reason: str) -> None:
    """Garbage is remembered, never raised, and the first fault is the reason."""
    reader = StreamReader()
    for each in chunks:
        assert not reader.feed(each) or b"usage" in each
    with pytest.raises(AnswerUnusable) as caught:
        reader.finish()
    assert caught.value.reason == reason


@given(st.lists(st.binary(max_size=30) | st.sampled_from([FINISH, DONE, b"{}"]), max_size=4))
def test_no_bytes_make_the_reader_raise(chunks: list[bytes]) -> None:
    """Whatever comes is answered at the end, by an answer or a reason."""
    reader = StreamReader()
    for each in chunks:
        reader.feed(each)
    with contextlib.suppress(AnswerUnusable):
        assert value(reader.finish())["choices"]


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


@given(st.lists(TEXTS, min_size=1), st.lists(TEXTS, min_size=1))
def test_pieces_of_text_and_arguments_join(texts: list[str], arguments: list[str]) -> None:
    """However finely an engine streams, the answer is the concatenation."""
    chunks = [chunk({"content": text}) for text in texts]
    for each in arguments:
        function = {"arguments": each}
        chunks.append(chunk({"tool_calls": [{"index": 0, "function": function}]}))
    message = value(reread(*chunks, FINISH, DONE))["choices"][0]["message"]
    assert message["content"] == "".join(texts)
    assert message["tool_calls"][0]["function"]["arguments"] == "".join(arguments)


def test_facts_of_a_plain_answer() -> None:
    """Text, reasons and size are told."""
    answer = read(completion(choice("a"), choice("b", 1, finish_reason="length")))
    told = facts(answer)
    assert told.finish_reasons == ("stop", "length")
    assert told.texts == ("a", "b")
    assert (told.has_text, told.has_tool_calls, told.has_empty_choice) == (True, False, False)
    assert told.size == len(answer.rest)


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (choice("a"), "text"),
        (choice(None), "empty"),
        (choice(" \n"), "empty"),
        (choice("", reasoning_content="Hm"), "empty"),
        (choice(None, tool_calls=CALLS), "calls"),
        (choice(None, tool_calls=[]), "empty"),
        (choice(None, tool_calls=None, refusal="No."), "text"),
        (choice(None, audio={"id": "a"}), "text"),
        (choice(None, function_call=CALLS[0]["function"]), "calls"),
        ({"message": {"content": [{"type": "text"}]}, "finish_reason": "stop"}, "text"),
    ],
)
def test_facts_tell_text_from_calls_and_nothing(one: Json, found: str) -> None:
    """A choice speaks, calls, or is empty."""
    told = facts(read(completion(one)))
    assert told.has_text == (found == "text")
    assert told.has_tool_calls == (found == "calls")
    assert told.has_empty_choice == (found == "empty")
    assert not told.bad_tool_json


def test_one_empty_choice_among_full_ones_is_noticed() -> None:
    """All choices are looked at."""
    assert facts(read(completion(choice("a"), choice("", 1)))).has_empty_choice


@pytest.mark.parametrize(
    "calls",
    [
        [{"function": {"name": "f", "arguments": "{"}}],
        [{"function": {"name": "f", "arguments": ""}}],
        [{"function": {"name": "f", "arguments": "[]"}}],
        [{"function": {"name": "f", "arguments": {}}}],
        [{"function": {"name": "f", "arguments": "[" * 100_000}}],
        [{"function": {"name": "f"}}],
        [{"function": None}],
        [CALLS[0], {"function": {"arguments": "nope"}}],
        ["f"],
        "f",
    ],
)
def test_arguments_that_are_no_object_are_noticed(calls: Json) -> None:
    """Only the text of a JSON object is sound; every call is looked at."""
    assert facts(read(completion(choice(None, tool_calls=calls)))).bad_tool_json


def test_an_old_style_call_is_looked_at_too() -> None:
    """`function_call` is a call like others."""
    told = facts(read(completion(choice(None, function_call={"name": "f", "arguments": "{"}))))
    assert (told.has_tool_calls, told.bad_tool_json) == (True, True)


def test_a_custom_call_has_no_arguments() -> None:
    """Calls of another kind carry free text."""
    custom = {"id": "a", "type": "custom", "custom": {"name": "f", "input": "{"}}
    assert not facts(read(completion(choice(None, tool_calls=[custom])))).bad_tool_json
