"""A line of a log as a call, whichever of the known shapes it has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from askonce.errors import AskOnceError

CHAT = "/v1/chat/completions"
_HOUR = 3600.0
_MILLISECONDS = 1e11
"""A larger number is a time in milliseconds."""
_CHAT_CALLS = frozenset({"completion", "acompletion"})
_ANSWERS = ("answer", "response", "output", "completion")
_NOT_PARAMETERS = frozenset({"messages", "metadata", "parameters", "time", "tenant", "namespace"})

Served = Literal["engine", "exact", "semantic", "cache"]

_FOREIGN = (
    msgspec.MsgspecError,
    ValueError,
    RecursionError,
    OverflowError,
    AttributeError,
    TypeError,
    KeyError,
)
"""What reading a member that has not the type its tool documents can raise."""

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_value = msgspec.json.Decoder().decode
_encode = msgspec.json.encode


class Unreadable(AskOnceError):
    """The line is no call; carries the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """One call as a log tells it."""

    request: bytes
    answer: bytes = b""
    """A completion as JSON; empty where the log has none."""
    broken: bool = False
    """There was none to keep: the log has the answers of those that there were."""
    time: float | None = None
    seconds: float = 0.0
    endpoint: str = CHAT
    tenant: str = ""
    namespace: str = ""
    headers: dict[str, str] = {}
    status: int = 200
    served: Served = "engine"


class _Own(msgspec.Struct):
    """The members of AskOnce's own format, and of `request` with `response`."""

    request: msgspec.Raw
    v: int = 0
    answer: msgspec.Raw = msgspec.Raw(b"null")
    response: msgspec.Raw = msgspec.Raw(b"null")
    time: float | str | None = None
    seconds: float = 0.0
    endpoint: str = CHAT
    tenant: str = ""
    namespace: str = ""
    headers: dict[str, str] = {}
    status: int = 200
    served: Served = "engine"


def read(line: bytes) -> Logged:
    """The call of a line; raises Unreadable."""
    try:
        members = _members(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        raise Unreadable("not_a_json_object") from None
    try:
        return _read(members, line)
    except _FOREIGN:
        raise Unreadable("wrong_member") from None


def _read(members: dict[str, msgspec.Raw], line: bytes) -> Logged:
    if "request" in members:
        return _own(msgspec.json.decode(line, type=_Own))
    if "call_type" in members and "messages" in members:
        return _litellm(_value(line))
    if "input" in members and ("modelParameters" in members or "type" in members):
        return _langfuse(_value(line))
    if "messages" in members:
        return _plain(_value(line))
    raise Unreadable("unknown_shape")


def _own(found: _Own) -> Logged:
    answer = _value(found.answer if bytes(found.answer) != b"null" else found.response)
    status: Any = found.status
    if type(answer) is dict and "body" in answer:
        status = answer.get("status_code", answer.get("status", status))
        answer = answer["body"]
    raw = bytes(found.request)
    whole = raw[:1] == b"{"
    return Logged(
        request=raw if whole else _unwrapped(_value(raw)),
        answer=_completion(answer, {}),
        broken=found.v > 0 and answer is None,
        time=_time(found.time),
        seconds=_took(found.seconds),
        endpoint=found.endpoint,
        tenant=found.tenant,
        namespace=found.namespace,
        headers={name.lower(): value for name, value in found.headers.items()},
        status=int(status),
        served=found.served,
    )


def _unwrapped(request: Any) -> bytes:  # noqa: ANN401 - any JSON
    """A request that was logged as the text of its JSON."""
    if type(request) is not str or not request.lstrip().startswith("{"):
        raise Unreadable("request_is_no_object")
    return request.encode()


def _litellm(found: dict[str, Any]) -> Logged:
    """A line of LiteLLM's standard logging payload."""
    call = found["call_type"]
    parameters = found.get("model_parameters") or {}
    body = {**parameters, "model": found.get("model") or "unknown", "messages": found["messages"]}
    begun, ended = _time(found.get("startTime")), _time(found.get("endTime"))
    usage = {name: found.get(name) for name in ("prompt_tokens", "completion_tokens")}
    metadata = found.get("metadata") or {}
    return Logged(
        request=_encode(body),
        answer=_completion(found.get("response"), usage),
        time=begun,
        seconds=_took(ended - begun) if begun is not None and ended is not None else 0.0,
        endpoint=CHAT if call in _CHAT_CALLS else str(call),
        tenant=str(metadata.get("user_api_key_hash") or ""),
        status=500 if found.get("status") == "failure" else 200,
        served="cache" if found.get("cache_hit") is True else "engine",
    )


def _langfuse(found: dict[str, Any]) -> Logged:
    """A generation of a Langfuse export."""
    if found.get("type", "GENERATION") != "GENERATION":
        raise Unreadable("no_model_call")
    asked = _parsed(found["input"])
    asked = {"messages": asked} if type(asked) is list else asked
    if type(asked) is not dict or "messages" not in asked:
        raise Unreadable("no_messages")
    parameters = _parsed(found.get("modelParameters")) or {}
    body = {**parameters, "model": found.get("model") or "unknown", **asked}
    begun, ended = _time(found.get("startTime")), _time(found.get("endTime"))
    used = _parsed(found.get("usageDetails") or found.get("usage")) or {}
    usage = {"prompt_tokens": used.get("input"), "completion_tokens": used.get("output")}
    return Logged(
        request=_encode(body),
        answer=_completion(_parsed(found.get("output")), usage),
        time=begun,
        seconds=_took(ended - begun) if begun is not None and ended is not None else 0.0,
        tenant=str(found.get("userId") or ""),
        status=500 if found.get("level") == "ERROR" else 200,
    )


def _plain(found: dict[str, Any]) -> Logged:
    """Messages with their answer beside them, or as their last one."""
    answer = next((found[name] for name in _ANSWERS if found.get(name) is not None), None)
    messages = found["messages"]
    if answer is None and messages and messages[-1].get("role") == "assistant":
        *messages, answer = messages
    kept = {
        name: value
        for name, value in found.items()
        if name not in _NOT_PARAMETERS and name not in _ANSWERS
    }
    body = {"model": "unknown", **kept, **(found.get("parameters") or {}), "messages": messages}
    return Logged(
        request=_encode(body),
        answer=_completion(answer, found.get("usage") or {}),
        time=_time(found.get("time")),
        tenant=str(found.get("tenant") or ""),
        namespace=str(found.get("namespace") or ""),
    )


def _parsed(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Exports through tables hold JSON as text."""
    if type(value) is str and value[:1] in ("{", "["):
        try:
            return _value(value)
        except ValueError:
            return value
    return value


def _completion(answer: Any, usage: dict[str, Any]) -> bytes:  # noqa: ANN401 - any JSON
    """Whatever stands for an answer as a completion; empty where there is none."""
    if type(answer) is dict and ("choices" in answer or "error" in answer):
        return _encode(answer)
    if type(answer) is list and len(answer) == 1:
        return _completion(answer[0], usage)
    if type(answer) is str:
        answer = {"content": answer}
    if type(answer) is not dict or not ("content" in answer or "tool_calls" in answer):
        return b""
    ended = "tool_calls" if answer.get("tool_calls") else "stop"
    message = {"role": "assistant", "content": None, **answer}
    choice = {"index": 0, "message": message, "finish_reason": ended}
    whole = {"id": "chatcmpl-log", "object": "chat.completion", "choices": [choice]}
    return _encode({**whole, "usage": usage})


def _took(seconds: float) -> float:
    """How long a call took, within reason."""
    return min(max(0.0, seconds), _HOUR)


def _time(value: Any) -> float | None:  # noqa: ANN401 - any JSON
    """Seconds since 1970 from a number or an ISO 8601 text; raises ValueError."""
    if type(value) is str:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if type(value) not in {int, float}:
        return None
    seconds = float(value) / 1000 if value > _MILLISECONDS else float(value)
    if not 0 <= seconds <= _MILLISECONDS:
        raise ValueError("no time of day")
    return seconds
