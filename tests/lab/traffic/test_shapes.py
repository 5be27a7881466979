"""Logs of several tools are read as the calls they tell of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from askonce.canonical.request import parse_chat
from askonce.lab.traffic.shapes import CHAT, Logged, Unreadable, read

MESSAGES = [{"role": "user", "content": "hi"}]
REQUEST = {"model": "m", "messages": MESSAGES}


def logged(line: dict[str, Any]) -> Logged:
    """The call of one line."""
    return read(msgspec.json.encode(line))


def said(found: Logged) -> Any:
    """The text of its answer."""
    return msgspec.json.decode(found.answer)["choices"][0]["message"]["content"]


def test_our_own_lines_are_read_whole() -> None:
    """Every member counts."""
    found = logged(
        {
            "v": 1,
            "time": 1_764_400_000.5,
            "seconds": 2.0,
            "endpoint": "/v1/chat/completions?x=1",
            "tenant": "t",
            "namespace": "n",
            "headers": {"X-AskOnce-TTL": "60"},
            "status": 200,
            "served": "exact",
            "request": REQUEST,
            "answer": {"choices": [{"message": {"content": "yes"}}]},
        }
    )
    assert parse_chat(found.request).model == "m"
    assert (found.time, found.seconds, found.tenant) == (1_764_400_000.5, 2.0, "t")
    assert (found.namespace, found.served) == ("n", "exact")
    assert found.headers == {"x-askonce-ttl": "60"}
    assert said(found) == "yes"


def test_the_bytes_of_a_request_are_not_touched() -> None:
    """A key that stands twice is still twice, so that the product refuses it as ever."""
    line = b'{"request":{"model":"m","model":"n","messages":[]}}'
    assert read(line).request == b'{"model":"m","model":"n","messages":[]}'


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        {"role": "assistant", "content": "yes"},
        [{"content": "yes"}],
        {"choices": [{"message": {"content": "yes"}}]},
        {"status_code": 200, "body": {"choices": [{"message": {"content": "yes"}}]}},
    ],
)
def test_an_answer_may_be_a_text_a_message_or_a_completion(answer: object) -> None:
    """Whatever stands for it, it says the same."""
    assert said(logged({"request": REQUEST, "response": answer})) == "yes"


def test_a_request_may_be_the_text_of_its_json() -> None:
    """As tables hold it."""
    text = msgspec.json.encode(REQUEST).decode()
    assert parse_chat(logged({"request": text}).request).model == "m"
    with pytest.raises(Unreadable, match="request_is_no_object"):
        logged({"request": "hello"})


def test_messages_with_their_answer_beside_them() -> None:
    """Other members are parameters of the request."""
    found = logged({"messages": MESSAGES, "output": "yes", "temperature": 0, "tenant": "t"})
    body = msgspec.json.decode(found.request)
    assert body == {"model": "unknown", "temperature": 0, "messages": MESSAGES}
    assert (said(found), found.tenant) == ("yes", "t")


def test_messages_that_end_with_their_answer() -> None:
    """As sets for fine-tuning have it."""
    found = logged({"messages": [*MESSAGES, {"role": "assistant", "content": "yes"}]})
    assert msgspec.json.decode(found.request)["messages"] == MESSAGES
    assert said(found) == "yes"


def test_litellm_lines() -> None:
    """Model parameters join the request; failures and cached answers are told apart."""
    line = {
        "call_type": "acompletion",
        "model": "m",
        "messages": MESSAGES,
        "model_parameters": {"temperature": 0},
        "response": "yes",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "startTime": 1_764_400_000.0,
        "endTime": 1_764_400_002.0,
        "metadata": {"user_api_key_hash": "h"},
        "cache_hit": True,
        "status": "success",
    }
    found = logged(line)
    assert msgspec.json.decode(found.request) == {"temperature": 0, **REQUEST}
    assert (found.seconds, found.tenant, found.served) == (2.0, "h", "cache")
    assert msgspec.json.decode(found.answer)["usage"]["completion_tokens"] == 4
    assert logged({**line, "status": "failure"}).status == 500
    assert logged({**line, "call_type": "aembedding"}).endpoint == "aembedding"


def test_langfuse_lines() -> None:
    """Inputs are messages or an object with them, and may be text; times are ISO 8601."""
    line = {
        "type": "GENERATION",
        "model": "m",
        "input": msgspec.json.encode(MESSAGES).decode(),
        "modelParameters": {"temperature": 0},
        "output": {"role": "assistant", "content": "yes"},
        "usage": {"input": 3, "output": 4},
        "startTime": "2026-01-01T00:00:00.000Z",
        "endTime": "2026-01-01T00:00:01Z",
    }
    found = logged(line)
    assert msgspec.json.decode(found.request) == {"temperature": 0, **REQUEST}
    assert (found.time, found.seconds, said(found)) == (1_767_225_600.0, 1.0, "yes")
    assert logged({**line, "input": {"messages": MESSAGES}}).endpoint == CHAT
    assert logged({**line, "output": "{no json"}).answer != b""
    with pytest.raises(Unreadable, match="no_model_call"):
        logged({**line, "type": "SPAN"})
    with pytest.raises(Unreadable, match="no_messages"):
        logged({**line, "input": "hello"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\xff\x00", "not_a_json_object"),
        (b"[]", "not_a_json_object"),
        (b"[" * 100_000, "not_a_json_object"),
        (b"{}", "unknown_shape"),
        (b'{"request":{},"time":1e300}', "wrong_member"),
        (b'{"request":{},"time":"tomorrow"}', "wrong_member"),
        (b'{"request":{},"headers":[]}', "wrong_member"),
        (b'{"request":{},"served":"who"}', "wrong_member"),
        (b'{"messages":[1]}', "wrong_member"),
    ],
)
def test_what_is_no_call_says_why(line: bytes, reason: str) -> None:
    """The reason is one word, for counting."""
    with pytest.raises(Unreadable) as told:
        read(line)
    assert told.value.reason == reason


def test_times_may_be_milliseconds() -> None:
    """A number too large for seconds is one of milliseconds."""
    assert logged({"request": REQUEST, "time": 1_764_400_000_500}).time == 1_764_400_000.5
