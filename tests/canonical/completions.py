"""Completions and streams for the tests of answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from askonce.canonical.answer import Answer, StreamReader, read_completion
from askonce.canonical.sse import EventSplitter, data_of

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
