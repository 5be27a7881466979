"""The fake engine's answers are what engines say."""

from __future__ import annotations

import gzip
import json
from typing import Any

from askonce.testing.answers import (
    EVENTS,
    JSON,
    Asked,
    Chat,
    default_reply,
    garbage_events,
    refusal,
    wrong_length,
)


def asked(**fields: object) -> Asked:
    """A chat request."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hello big world"}], **fields}
    return Asked("POST", "/v1/chat/completions", (), json.dumps(body).encode())


def events(body: bytes) -> list[dict[str, Any]]:
    """All events that are JSON."""
    lines = [line[6:] for line in body.split(b"\n\n") if line and line != b"data: [DONE]"]
    return [json.loads(line) for line in lines]


def test_the_same_question_has_the_same_answer() -> None:
    """Answers follow from the request alone and tell different requests apart."""
    assert default_reply(asked()) == default_reply(asked())
    assert default_reply(asked()).body != default_reply(asked(top_p=0.5)).body
    assert b"hello big world" in default_reply(asked()).body


def test_a_stream_says_what_the_whole_says() -> None:
    """Deltas add up to the message, for each choice, with usage if it was asked for."""
    fields: dict[str, Any] = {"n": 2, "logprobs": True}
    chat = Chat(text="a b c", reasoning="so it is", calls=(("f", '{"x": [1, 2, 3]}'),))
    whole = json.loads(chat(asked(**fields)).body)
    streamed = chat(asked(stream=True, stream_options={"include_usage": True}, **fields))
    assert streamed.headers == (EVENTS,)
    assert streamed.pieces[-1] == b"data: [DONE]\n\n"
    parts = events(streamed.body)
    assert parts[-1]["choices"] == []
    assert parts[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == 3
    for choice in whole["choices"]:
        mine = [p["choices"][0] for p in parts[:-1] if p["choices"][0]["index"] == choice["index"]]
        deltas = [part["delta"] for part in mine]
        assert "".join(d.get("content", "") for d in deltas) == choice["message"]["content"]
        assert "".join(d.get("reasoning_content", "") for d in deltas) == "so it is"
        calls = [d["tool_calls"][0]["function"] for d in deltas if "tool_calls" in d]
        assert "".join(call["arguments"] for call in calls) == '{"x": [1, 2, 3]}'
        tokens = [t for part in mine for t in (part["logprobs"] or {"content": []})["content"]]
        assert tokens == choice["logprobs"]["content"]
        assert mine[-1]["finish_reason"] == choice["finish_reason"] == "stop"


def test_faults_are_what_they_say() -> None:
    """Missing end, wrong type, error inside, cut, empty, compressed and refused answers."""
    assert b"[DONE]" not in Chat(done=False)(asked(stream=True)).body
    assert Chat(headers=(JSON,))(asked(stream=True)).headers == (JSON,)
    assert "error" in events(Chat(error_inside=True)(asked(stream=True)).body)[-1]
    assert b'"length"' in Chat(finish="length")(asked()).body
    assert json.loads(Chat(text="")(asked()).body)["choices"][0]["message"]["content"] is None
    packed = Chat(gzipped=True)(asked())
    assert gzip.decompress(packed.body) == Chat()(asked()).body
    assert (b"retry-after", b"7") in refusal(429).headers
    assert b"not json" in garbage_events().body
    assert wrong_length(5).headers[1] == (
        b"content-length",
        b"%d" % (len(wrong_length(0).body) + 5),
    )


def test_parts_of_a_message_are_echoed() -> None:
    """Content parts, no user turn, lists of embedding inputs and unknown paths have an answer."""
    parts = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert b"hi" in default_reply(asked(messages=parts)).body
    assert default_reply(asked(messages=[])).status == 200
    inputs = Asked("POST", "/v1/embeddings", (), b'{"input": ["a", "bc"]}')
    assert len(json.loads(default_reply(inputs).body)["data"]) == 2
    echo = json.loads(default_reply(Asked("PUT", "/v1/x?y", ((b"a", b"b"),), b"z")).body)
    assert (echo["method"], echo["path"], echo["size"]) == ("PUT", "/v1/x?y", 1)
