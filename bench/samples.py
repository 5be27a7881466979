"""The requests and the answer that all servers are measured with."""

from __future__ import annotations

import json
from typing import Any

WORDS = (
    "In short, a cache pays when the same question comes again before its answer is too old, "
    "and when looking is much cheaper than computing. "
)
HEADERS = {
    "Authorization": "Bearer sk-bench-0000000000000000",
    "Content-Type": "application/json",
    "Accept": "application/json",
    "User-Agent": "bench/1.0",
}
PATH = "/v1/chat/completions"
MARK = "@@"
"""Where a request that must be like no other gets its number."""


def request_body(size: int, question: str = "When is a cache worth its memory?") -> bytes:
    """A chat request of about this many bytes."""
    body: dict[str, Any] = {
        "model": "bench-model",
        "messages": [
            {"role": "system", "content": ""},
            {"role": "user", "content": question},
        ],
        "temperature": 0.2,
        "max_tokens": 256,
    }
    missing = size - len(json.dumps(body))
    body["messages"][0]["content"] = (WORDS * (missing // len(WORDS) + 1))[: max(missing, 0)]
    return json.dumps(body).encode()


def long_request_body(size: int) -> bytes:
    """A conversation of many turns, of about this many bytes."""
    body = json.loads(request_body(400))
    turns = body["messages"]
    while len(json.dumps(body)) < size - 400:
        role = "user" if len(turns) % 2 else "assistant"
        turns.append({"role": role, "content": f"{len(turns)}: {WORDS * 4}"})
    turns.append({"role": "user", "content": "And in one line?"})
    return json.dumps(body).encode()


def answer_body(size: int = 2200) -> bytes:
    """A whole chat completion of about this many bytes."""
    message = {"role": "assistant", "content": ""}
    body = {
        "id": "chatcmpl-000000000000000000000000",
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": "bench-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 210, "completion_tokens": 400, "total_tokens": 610},
    }
    missing = size - len(json.dumps(body))
    message["content"] = (WORDS * (missing // len(WORDS) + 1))[:missing]
    return json.dumps(body).encode()


def raw_request(body: bytes, port: int, extra: dict[str, str] | None = None) -> bytes:
    """A request as its bytes go over the wire."""
    headers = {"Host": f"127.0.0.1:{port}", **HEADERS, **(extra or {})}
    headers["Content-Length"] = str(len(body))
    lines = [f"POST {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
