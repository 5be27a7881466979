"""Putting streamed answers together again."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.canonical.completions import (
    CALLS,
    DONE,
    FINISH,
    LOGPROBS,
    USAGE,
    choice,
    chunk,
    completion,
    datas,
    read,
    reread,
    value,
)

from askonce.canonical.answer import (
    StreamReader,
    render_stream,
)
from askonce.errors import AnswerUnusable

if TYPE_CHECKING:
    from askonce.canonical.value import Json


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


@given(st.lists(st.text(max_size=12), min_size=1), st.lists(st.text(max_size=12), min_size=1))
def test_pieces_of_text_and_arguments_join(texts: list[str], arguments: list[str]) -> None:
    """However finely an engine streams, the answer is the concatenation."""
    chunks = [chunk({"content": text}) for text in texts]
    for each in arguments:
        function = {"arguments": each}
        chunks.append(chunk({"tool_calls": [{"index": 0, "function": function}]}))
    message = value(reread(*chunks, FINISH, DONE))["choices"][0]["message"]
    assert message["content"] == "".join(texts)
    assert message["tool_calls"][0]["function"]["arguments"] == "".join(arguments)
