"""What a fake engine says: deterministic by request, as pieces of bytes, with faults on demand."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from askonce.ports import Headers

Fault = Literal[
    "refuse", "hang_reading", "hang_before", "break_before", "hang_inside", "break_inside"
]
"""Close unread, never read the body, never answer, close unanswered, or stop inside the body."""

CREATED = 1_700_000_000
JSON = (b"content-type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
RATE_LIMITS = (
    (b"x-ratelimit-limit-requests", b"60"),
    (b"x-ratelimit-remaining-requests", b"0"),
    (b"retry-after", b"7"),
)


class Asked(msgspec.Struct, frozen=True):
    """One request as it arrived."""

    method: str
    path: str
    """Raw path and query."""
    headers: Headers
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, decoded; it must be an object."""
        return msgspec.json.decode(self.body, type=dict[str, Any])

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), None)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer on the wire, and what goes wrong with it."""

    status: int = 200
    headers: Headers = (JSON,)
    pieces: tuple[bytes, ...] = ()
    framing: Literal["length", "chunked", "close"] = "length"
    delay: float = 0.0
    """Seconds before the headers; a fake without sockets does not wait."""
    pause: float = 0.0
    """Seconds before each piece after the first."""
    fault: Fault | None = None
    at: int = 1
    """How many pieces go out before a fault inside the body."""

    @property
    def body(self) -> bytes:
        """All pieces."""
        return b"".join(self.pieces)


Script = Reply | Callable[[Asked], Reply]


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """How a chat answer is made; called with a request it makes one."""

    text: str | None = None
    """None echoes the last user text behind a digest of the request."""
    finish: str = "stop"
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of tool calls; the arguments need not be JSON."""
    done: bool = True
    error_inside: bool = False
    gzipped: bool = False
    headers: Headers | None = None
    """Instead of the right content type."""
    delay: float = 0.0
    pause: float = 0.0
    fault: Fault | None = None
    at: int = 1

    def __call__(self, asked: Asked) -> Reply:
        """The answer to one request, streamed if it asks for that."""
        request = asked.json
        streamed = bool(request.get("stream"))
        pieces = _stream(self, asked, request) if streamed else _whole(self, asked, request)
        headers = self.headers if self.headers is not None else (EVENTS if streamed else JSON,)
        if self.gzipped:
            pieces = [gzip.compress(b"".join(pieces), mtime=0)]
            headers = [*headers, (b"content-encoding", b"gzip")]
        return Reply(
            headers=headers,
            pieces=tuple(pieces),
            framing="chunked" if streamed or self.fault else "length",
            delay=self.delay,
            pause=self.pause,
            fault=self.fault,
            at=self.at,
        )


def refusal(status: int, *, code: str = "rate_limit_exceeded", headers: Headers = ()) -> Reply:
    """An error object with a status, and with rate-limit headers if it is 429."""
    limits = RATE_LIMITS if status == 429 else ()
    fields = {"message": f"engine says {status}", "type": "engine", "param": None, "code": code}
    body = _encode({"error": fields})
    return Reply(status=status, headers=(JSON, *limits, *headers), pieces=(body,))


def garbage_events() -> Reply:
    """A stream of events that are no JSON."""
    pieces = (b"data: {not json\n\n", b"nonsense\xff\n\n", b"data: [DONE]\n\n")
    return Reply(headers=(EVENTS,), pieces=pieces, framing="chunked")


def wrong_length(by: int) -> Reply:
    """A body that is shorter (by > 0) or longer (by < 0) than its content-length."""
    body = b'{"answer": "some text that is long enough"}'
    length = (b"content-length", b"%d" % (len(body) + by))
    return Reply(headers=(JSON, length), pieces=(body,), framing="close")


def default_reply(asked: Asked) -> Reply:
    """What an engine says when nothing is scripted."""
    route = asked.path.partition("?")[0]
    maker = _ROUTES.get((asked.method, route), _echo)
    return maker(asked)


def _encode(value: object) -> bytes:
    return msgspec.json.encode(value)


def _digest(asked: Asked) -> str:
    return hashlib.sha256(asked.body).hexdigest()


def _last_user_text(request: dict[str, Any]) -> str:
    for message in reversed(request.get("messages", [])):
        if message.get("role") == "user":
            content = message.get("content")
            return content if isinstance(content, str) else _encode(content).decode()
    return ""


def _text(chat: Chat, asked: Asked, request: dict[str, Any]) -> str:
    if chat.text is not None:
        return chat.text
    return "" if chat.calls else f"{_digest(asked)[:8]} {_last_user_text(request)}"


def _tokens(text: str) -> list[str]:
    return text.replace(" ", " \0").split("\0") if text else []


def _usage(request: dict[str, Any], text: str) -> dict[str, Any]:
    prompt, completion = len(_encode(request)) // 4, max(1, len(_tokens(text)))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _logprobs(request: dict[str, Any], tokens: list[str]) -> dict[str, Any] | None:
    if not request.get("logprobs"):
        return None
    content = [
        {"token": token, "logprob": -0.25, "bytes": list(token.encode()), "top_logprobs": []}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _tool_calls(chat: Chat) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(chat.calls)
    ]


def _frame(asked: Asked, request: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{_digest(asked)[:24]}",
        "object": kind,
        "created": CREATED,
        "model": request.get("model", "fake"),
        "system_fingerprint": "fp_fake",
    }


def _whole(chat: Chat, asked: Asked, request: dict[str, Any]) -> list[bytes]:
    text = _text(chat, asked, request)
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if chat.reasoning:
        message["reasoning_content"] = chat.reasoning
    if chat.calls:
        message["tool_calls"] = _tool_calls(chat)
    logprobs = _logprobs(request, _tokens(text))
    choices = [
        {"index": i, "message": message, "logprobs": logprobs, "finish_reason": chat.finish}
        for i in range(request.get("n") or 1)
    ]
    answer = _frame(asked, request, "chat.completion")
    return [_encode(answer | {"choices": choices, "usage": _usage(request, text)})]


def _deltas(chat: Chat, text: str) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": token} for token in _tokens(chat.reasoning)]
    deltas += [{"content": token} for token in _tokens(text)]
    for i, call in enumerate(_tool_calls(chat)):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        opened = call | {"index": i, "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        for start in range(0, len(arguments), 8):
            part = {"index": i, "function": {"arguments": arguments[start : start + 8]}}
            deltas.append({"tool_calls": [part]})
    return deltas


def _stream(chat: Chat, asked: Asked, request: dict[str, Any]) -> list[bytes]:
    text = _text(chat, asked, request)
    frame = _frame(asked, request, "chat.completion.chunk")
    events: list[dict[str, Any]] = []
    for i in range(request.get("n") or 1):
        for delta in _deltas(chat, text):
            logprobs = _logprobs(request, [delta["content"]]) if delta.get("content") else None
            choice = {"index": i, "delta": delta, "logprobs": logprobs, "finish_reason": None}
            events.append(frame | {"choices": [choice]})
        end = {"index": i, "delta": {}, "logprobs": None, "finish_reason": chat.finish}
        events.append(frame | {"choices": [end]})
    if chat.error_inside:
        events[2:] = [{"error": {"message": "engine died", "type": "server_error", "code": None}}]
    elif (request.get("stream_options") or {}).get("include_usage"):
        events.append(frame | {"choices": [], "usage": _usage(request, text)})
    pieces = [b"data: " + _encode(event) + b"\n\n" for event in events]
    return [*pieces, b"data: [DONE]\n\n"] if chat.done else pieces


def _models(_: Asked) -> Reply:
    models = [{"id": "fake", "object": "model", "created": CREATED, "owned_by": "askonce"}]
    return Reply(pieces=(_encode({"object": "list", "data": models}),))


def _embeddings(asked: Asked) -> Reply:
    given = asked.json.get("input", "")
    texts = given if isinstance(given, list) else [given]
    data = [
        {"object": "embedding", "index": i, "embedding": [len(str(text)) / 100, 0.5, -0.25]}
        for i, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    body = {"object": "list", "data": data, "model": "fake", "usage": usage}
    return Reply(pieces=(_encode(body),))


def _echo(asked: Asked) -> Reply:
    body = {
        "method": asked.method,
        "path": asked.path,
        "headers": [[n.decode("latin-1"), v.decode("latin-1")] for n, v in asked.headers],
        "size": len(asked.body),
        "sha256": _digest(asked),
    }
    return Reply(pieces=(_encode(body),))


_ROUTES: dict[tuple[str, str], Callable[[Asked], Reply]] = {
    ("POST", "/v1/chat/completions"): Chat(),
    ("GET", "/v1/models"): _models,
    ("POST", "/v1/embeddings"): _embeddings,
}
