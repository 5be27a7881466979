"""A complete chat answer, in one form for streamed and whole delivery."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from askonce.canonical.pieces import Object, Unmergeable, merge, settled
from askonce.errors import AnswerUnusable
from askonce.units import Bytes, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from askonce.canonical.value import Json

_ID_PREFIX: Final = re.compile(r"[A-Za-z]{1,16}[-_]")
_FRESH: Final = frozenset({"id", "created"})
_IN_EVERY_CHUNK: Final = ("model", "system_fingerprint", "service_tier")
_NOT_IN_CHUNKS: Final = frozenset({"object", "choices", "usage", *_IN_EVERY_CHUNK})
_ABSURD: Final = 2**53
"""No engine counts so many tokens; a sealed entry could not hold any larger number either."""
_DONE: Final = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A chat completion without its id and time of creation."""

    rest: bytes
    """The JSON members after `id` and `created`, from the first `"` to the last `}`."""
    id_prefix: str
    """What the engine's ids begin with, such as `chatcmpl-`."""
    prompt_tokens: Tokens
    completion_tokens: Tokens


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What decides whether an answer may be stored."""

    finish_reasons: tuple[str, ...]
    """One for each choice."""
    texts: tuple[str, ...]
    """The content of each choice, empty where it is not a string."""
    has_text: bool
    """Some choice has content, a refusal or audio."""
    has_tool_calls: bool
    has_empty_choice: bool
    """Some choice has neither."""
    bad_tool_json: bool
    """Some arguments are not the text of a JSON object."""
    size: Bytes


def read_completion(body: bytes) -> Answer:
    """The answer in a whole (not streamed) completion; raises AnswerUnusable with a reason."""
    try:
        whole, members = _decode(body), _decode_members(body)
    except (ValueError, RecursionError) as error:
        raise AnswerUnusable("garbage") from error
    if whole.get("error") is not None:
        raise AnswerUnusable("error_in_answer")
    _check_choices(whole.get("choices"))
    kept = {name: value for name, value in members.items() if name not in _FRESH}
    return _answer(kept, whole.get("id"), whole.get("usage"))


def _check_choices(choices: Json) -> None:
    if type(choices) is not list or not choices:
        raise AnswerUnusable("no_choices")
    for choice in choices:
        if type(choice) is not dict or type(choice.get("message")) is not dict:
            raise AnswerUnusable("garbage")
        if type(choice.get("finish_reason")) is not str:
            raise AnswerUnusable("incomplete")


def _answer(members: Mapping[str, Json], answer_id: Json, usage: Json) -> Answer:
    return Answer(
        _encode(members)[1:],
        _id_prefix(answer_id),
        _tokens(usage, "prompt_tokens"),
        _tokens(usage, "completion_tokens"),
    )


def _id_prefix(answer_id: Json) -> str:
    found = _ID_PREFIX.match(answer_id) if type(answer_id) is str else None
    return found.group() if found else "chatcmpl-"


def _tokens(usage: Json, name: str) -> Tokens:
    count = usage.get(name) if type(usage) is dict else None
    return Tokens(count if type(count) is int and 0 < count < _ABSURD else 0)


class StreamReader:
    """Puts a streamed answer together again, event by event; never raises before the end."""

    __slots__ = ("_choices", "_done", "_fault", "_id", "_top")

    def __init__(self) -> None:
        self._id: Json = None
        self._top = Object()
        self._choices: dict[int, Object] = {}
        self._done = False
        self._fault = ""

    def feed(self, data: bytes) -> bool:
        """Take the data of one event; returns whether it carries nothing but usage."""
        if data.strip() == b"[DONE]":
            self._done = True
            return False
        try:
            return self._take(_decode(data))
        except (ValueError, RecursionError):
            self._give_up("garbage")
        except Unmergeable:
            self._give_up("contradiction")
        return False

    def _give_up(self, reason: str) -> None:
        self._fault = self._fault or reason

    def _take(self, chunk: Json) -> bool:
        if type(chunk) is dict and chunk.get("error") is not None:
            self._give_up("error_in_stream")
            return False
        if type(chunk) is not dict or type(chunk.get("choices")) is not list or self._done:
            self._give_up("garbage")
            return False
        for choice in chunk["choices"]:
            self._take_choice(choice)
        self._take_top(chunk)
        return not chunk["choices"] and chunk.get("usage") is not None

    def _take_top(self, chunk: dict[str, Json]) -> None:
        self._id = self._id or chunk.get("id")
        for name, value in chunk.items():
            if name not in _FRESH and (value is not None or name not in self._top):
                self._top[name] = value

    def _take_choice(self, choice: Json) -> None:
        place = choice.get("index", 0) if type(choice) is dict and "message" not in choice else None
        if type(place) is not int or type(choice.get("delta")) not in {dict, type(None)}:
            self._give_up("garbage")
            return
        if place not in self._choices:
            self._choices[place] = Object(index=place, message=Object(), finish_reason=None)
        target = self._choices[place]
        merge(target["message"], choice.pop("delta", None) or {}, joins=True)
        merge(target, choice, joins=False)

    def finish(self) -> Answer:
        """The whole answer; raises AnswerUnusable unless `[DONE]` and every finish reason came."""
        if not self._fault and not self._done:
            self._fault = "incomplete"
        if self._fault:
            raise AnswerUnusable(self._fault)
        try:
            return self._whole()
        except RecursionError as error:
            raise AnswerUnusable("garbage") from error

    def _whole(self) -> Answer:
        choices = [_settled_choice(self._choices[place]) for place in sorted(self._choices)]
        _check_choices(choices)
        usage = self._top.pop("usage", None)
        members = {**self._top, "object": "chat.completion", "choices": choices}
        if usage is not None:
            members["usage"] = usage
        return _answer(members, self._id, usage)


def _settled_choice(choice: Object) -> dict[str, Json]:
    """The plain choice, with what every message has and without what only chunks have."""
    plain: dict[str, Json] = settled(choice)
    message = {"role": None, "content": None, **plain["message"]}
    message["role"] = message["role"] or "assistant"
    calls = message.get("tool_calls")
    if type(calls) is list:
        calls.sort(key=_call_index)
        for call in calls:
            if type(call) is dict:
                call.pop("index", None)
    return {**plain, "message": message}


def _call_index(call: Json) -> int:
    index = call.get("index") if type(call) is dict else None
    return index if type(index) is int else 0


def render_completion(answer: Answer, *, answer_id: str, created: int) -> bytes:
    """The JSON body of a whole delivery."""
    return b'{"id":%b,"created":%d,%b' % (_encode(answer_id), created, answer.rest)


def render_stream(answer: Answer, *, answer_id: str, created: int, usage: bool) -> bytes:
    """All server-sent events of a streamed delivery, `[DONE]` included."""
    whole = _decode(b"{" + answer.rest)
    told = whole.get("usage") if usage else None
    base = {"id": answer_id, "object": "chat.completion.chunk", "created": created}
    base.update((name, whole[name]) for name in _IN_EVERY_CHUNK if name in whole)
    opening = _encode(base)[:-1] + b',"choices":['
    ending = b'],"usage":null}' if usage else b"]}"
    chunks = [
        opening + _encode(piece) + ending for choice in whole["choices"] for piece in _cut(choice)
    ]
    extras = {name: value for name, value in whole.items() if name not in _NOT_IN_CHUNKS}
    if extras:
        chunks[0] = chunks[0][:-1] + b"," + _encode(extras)[1:]
    if told is not None:
        chunks.append(opening + b'],"usage":' + _encode(told) + b"}")
    return b"".join(b"data: %b\n\n" % chunk for chunk in chunks) + _DONE


def _cut(choice: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The choices of the chunks that together say what this choice says, each member once."""
    index = choice.get("index", 0)
    role, *pieces = _cut_message(choice["message"])
    closing = {name: value for name, value in choice.items() if name != "message"}
    yield {"index": index, "delta": role, "finish_reason": None}
    for piece in pieces:
        told = {"index": index, "delta": piece, "finish_reason": None}
        if "content" in piece and "logprobs" in closing:
            told["logprobs"] = closing.pop("logprobs")
        yield told
    yield {**closing, "index": index, "delta": {}}


_PIECES: Final = ("reasoning_content", "reasoning", "content", "refusal", "tool_calls")
"""Members of a message that get a chunk of their own, in the order in which engines send them."""


def _cut_message(message: dict[str, Json]) -> list[dict[str, Json]]:
    """One delta with the role and all that is small or unknown, then one for each long member."""
    role = {name: value for name, value in message.items() if name not in _PIECES or not value}
    pieces = [{name: message[name]} for name in _PIECES if message.get(name)]
    for piece in pieces:
        if type(piece.get("tool_calls")) is list:
            piece["tool_calls"] = [_numbered(*each) for each in enumerate(piece["tool_calls"])]
    return [{"role": "assistant", **role}, *pieces]


def _numbered(at: int, call: Json) -> Json:
    return {"index": at, **call} if type(call) is dict else call


def facts(answer: Answer) -> Facts:
    """What admission asks of an answer."""
    choices = _decode(b"{" + answer.rest)["choices"]
    messages = [choice["message"] for choice in choices]
    spoken = [_speaks(message) for message in messages]
    calls = [_calls(message) for message in messages]
    return Facts(
        finish_reasons=tuple(choice["finish_reason"] for choice in choices),
        texts=tuple(_text(message) for message in messages),
        has_text=any(spoken),
        has_tool_calls=any(calls),
        has_empty_choice=not all(map(_either, spoken, calls)),
        bad_tool_json=any(not _is_sound(call) for of_choice in calls for call in of_choice),
        size=Bytes(len(answer.rest)),
    )


def _either(speaks: bool, calls: list[Json]) -> bool:  # noqa: FBT001 - one of two columns
    return speaks or bool(calls)


def _text(message: dict[str, Json]) -> str:
    content = message.get("content")
    return content if type(content) is str else ""


def _speaks(message: dict[str, Json]) -> bool:
    content = message.get("content")
    if type(content) is str and not content.strip():
        content = None
    return bool(content or message.get("refusal") or message.get("audio"))


def _calls(message: dict[str, Json]) -> list[Json]:
    """The calls of a message: functions, and whatever else stands in its list of calls."""
    calls = message.get("tool_calls") or []
    old = message.get("function_call")
    found = list(calls) if type(calls) is list else [calls]
    return [*found, {"function": old}] if old is not None else found


def _is_sound(call: Json) -> bool:
    """Whether a function's arguments are a JSON object; a call of another kind has no arguments."""
    if type(call) is not dict:
        return False
    if "function" not in call:
        return True
    function = call["function"]
    arguments = function.get("arguments") if type(function) is dict else None
    try:
        return type(arguments) is str and type(_decode(arguments)) is dict
    except (ValueError, RecursionError):
        return False
