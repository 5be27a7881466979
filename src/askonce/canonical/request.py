"""A chat request as all tiers see it."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from typing import TYPE_CHECKING, Final

import msgspec

from askonce.canonical.conversation import Turn, divided
from askonce.canonical.marks import piled_up
from askonce.canonical.value import Json
from askonce.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

WITHOUT_EFFECT: Final = {
    "stream": "how the answer is delivered",
    "stream_options": "how the answer is delivered",
    "user": "names the end user to the provider's abuse detection",
    "safety_identifier": "names the end user to the provider's abuse detection",
    "metadata": "labels that the provider keeps beside the answer",
    "store": "whether the provider keeps the answer",
    "prompt_cache_key": "routes to a prefix cache, which never changes what is computed",
    "prompt_cache_retention": "how long a prefix cache keeps its blocks",
    "request_id": "vLLM's id for its log and its answer, and an answer's id is always fresh",
}
"""Top-level fields that stay out of the key, each with the reason; all others are in it."""

ABOUT_THE_PROMPT: Final = frozenset({"echo", "prompt_logprobs", "return_token_ids"})
"""Fields that make the answer repeat its own prompt, which another question's answer cannot."""

_LONE_SURROGATE: Final = re.compile(rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])")

_EXACT_FLOATS: Final = 2.0**53


class Call(msgspec.Struct, frozen=True, gc=False):
    """One chat request, parsed and made canonical."""

    model: str
    stream: bool
    wants_usage: bool
    """The caller asked for `stream_options.include_usage`."""
    body: dict[str, Json]
    """The whole parsed body."""
    canonical: bytes
    """Canonical JSON of everything that can change the answer."""
    fields: dict[str, Json]
    """What `canonical` spells."""


class Question(msgspec.Struct, frozen=True, gc=False):
    """What the semantic tier compares, and what must be equal around it."""

    text: str
    """The last user text."""
    frame: bytes
    """Canonical JSON of the request with a placeholder for that text, and without `turns`."""
    turns: tuple[Turn, ...] = ()
    """Earlier turns that are to be compared by meaning."""
    open: bool = False
    """Whether all earlier turns but the system's are in `turns`, so that they may differ."""


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:32]} is out of range")
    if value.is_integer() and -_EXACT_FLOATS < value < _EXACT_FLOATS:
        return int(value)
    return value


_decode = msgspec.json.Decoder(float_hook=_number).decode
_encode = msgspec.json.Encoder(order="sorted").encode
_encode_as_is = msgspec.json.Encoder().encode


def parse_chat(body: bytes) -> Call:
    """Parse and canonicalise a chat completion request; raises RequestError."""
    try:
        return _parse(body)
    except RecursionError as error:
        raise _too_deep() from error


def _parse(body: bytes) -> Call:
    try:
        parsed = _decode(body)
    except ValueError as error:
        raise RequestError(_unreadable(body, error), code="invalid_json") from error
    if type(parsed) is not dict:
        raise _wrong_type("The body", "a JSON object")
    _check_types(parsed)
    fields, left_out = _divide(parsed)
    canonical = _encode(fields)
    if _colons(body) != canonical.count(b":") + (_encode(left_out).count(b":") if left_out else 0):
        raise _duplicate_key()
    if not canonical.isascii():
        text = canonical.decode()
        if not piled_up(text) and not unicodedata.is_normalized("NFC", text):
            fields = _in_nfc(fields)
            canonical = _encode(fields)
    options = parsed.get("stream_options")
    wants_usage = options is not None and options.get("include_usage") is True
    streams = parsed.get("stream") is True
    return Call(parsed["model"], streams, wants_usage, parsed, canonical, fields)


def _unreadable(body: bytes, error: ValueError) -> str:
    """What is wrong, plainer than the decoder says it where it can be told."""
    said = str(error)
    if not body.strip():
        return "The body is empty."
    if "UTF-8" in said or "surrogate" in said or _LONE_SURROGATE.search(body):
        return "The body is not valid Unicode."
    return f"The body is not valid JSON: {said}."


def _check_types(parsed: dict[str, Json]) -> None:
    model = parsed.get("model")
    if type(model) is not str or not model:
        raise _wrong_type("'model'", "a non-empty string", "model")
    messages = parsed.get("messages")
    if type(messages) is not list or not messages:
        raise _wrong_type("'messages'", "a non-empty array", "messages")
    for at, message in enumerate(messages):
        if type(message) is not dict or type(message.get("role")) is not str:
            name = f"messages[{at}]"
            raise _wrong_type(f"'{name}'", "an object with a string as its role", name)
    if type(parsed.get("stream")) not in {bool, type(None)}:
        raise _wrong_type("'stream'", "true, false or null", "stream")
    if type(parsed.get("stream_options")) not in {dict, type(None)}:
        raise _wrong_type("'stream_options'", "an object or null", "stream_options")


def _wrong_type(what: str, wanted: str, param: str | None = None) -> RequestError:
    return RequestError(f"{what} must be {wanted}.", code="invalid_type", param=param)


def _duplicate_key() -> RequestError:
    return RequestError(
        "An object in the body has the same key twice; parsers disagree on what that means.",
        code="duplicate_key",
    )


def _too_deep() -> RequestError:
    return RequestError("The body is nested too deep.", code="invalid_json")


def _divide(parsed: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """The fields that can change the answer, and those that cannot."""
    fields, left_out = {}, {}
    for name, value in parsed.items():
        if value is None or name in WITHOUT_EFFECT or _means_absent(name, value):
            left_out[name] = value
        else:
            fields[name] = value
    return fields, left_out


def _means_absent(name: str, value: Json) -> bool:
    if name == "n":
        return type(value) is int and value == 1
    if name == "logprobs":
        return value is False
    return name == "response_format" and value == {"type": "text"}


def _colons(source: bytes) -> int:
    """How many colons valid JSON has, those inside of strings included.

    The encoder escapes no colon, so a source with more of them than its parsed value lost a member
    to a later one of the same name.
    """
    count = source.count(b":")
    if b"\\u003" in source:
        count += source.replace(b"\\\\", b"").lower().count(b"\\u003a")
    return count


def _in_nfc(value: Json) -> Json:
    if type(value) is str:
        return unicodedata.normalize("NFC", value)
    if type(value) is list:
        return [_in_nfc(item) for item in value]
    if type(value) is not dict:
        return value
    normal = {unicodedata.normalize("NFC", name): _in_nfc(item) for name, item in value.items()}
    if len(normal) != len(value):
        raise _duplicate_key()
    return normal


def question_of(call: Call, *, max_temperature: float, by_meaning: bool = False) -> Question | str:
    """The question of a call that may be answered by meaning, or the reason why it may not.

    by_meaning: earlier turns are compared by meaning as well, where they are nothing but text.
    """
    fields = call.fields
    if _wants_variety(fields, max_temperature):
        return "variety"
    if not ABOUT_THE_PROMPT.isdisjoint(fields):
        return "prompt_in_answer"
    *earlier, last = fields["messages"]
    if last["role"] != "user":
        return "tool_result" if last["role"] in {"tool", "function"} else "last_turn_not_user"
    found = _split_text(last.get("content"))
    if isinstance(found, str):
        return found
    text, around = found
    if not text.strip():
        return "no_text"
    if piled_up(text):
        return "piled_up_marks"
    parts = divided(earlier) if by_meaning else None
    kept, turns = (earlier, ()) if parts is None else parts
    frame = {**fields, "messages": [*kept, {**last, "content": around}]}
    try:
        return Question(text, _encode(frame), turns, parts is not None)
    except RecursionError:
        return "nested_too_deep"


def system_prompt(call: Call) -> tuple[str, ...]:
    """All texts of system and developer messages, in order."""
    told = [m for m in call.fields["messages"] if m["role"] in {"system", "developer"}]
    return tuple(text for message in told for text in _texts(message.get("content")))


def _texts(content: Json) -> list[str]:
    if type(content) is str:
        return [content]
    parts = content if type(content) is list else []
    texts = [part.get("text") for part in parts if type(part) is dict]
    return [text for text in texts if type(text) is str]


def prompt_digest(texts: Sequence[str]) -> str:
    """SHA-256 in hexadecimal digits over a system prompt's texts; empty for none.

    White space at the ends of a text does not count: a file's last line end is none of the prompt.
    """
    if not texts:
        return ""
    normal = [unicodedata.normalize("NFC", text.strip()).encode() for text in texts]
    told = b"".join(len(text).to_bytes(8, "big") + text for text in normal)
    return hashlib.sha256(b"askonce prompt" + told).hexdigest()


def _wants_variety(fields: dict[str, Json], max_temperature: float) -> bool:
    """Whether more than one answer is asked for; a spelling that is not a number counts as such."""
    temperature = fields.get("temperature", 0)
    return "n" in fields or type(temperature) not in {int, float} or temperature > max_temperature


_HERE: Final = True
"""Stands for the text in a frame: no string, so no message can spell it."""


def _split_text(content: Json) -> tuple[str, Json] | str:
    """The one text of a content and the content with `_HERE` in its place, or why there is none."""
    if type(content) is str:
        return content, _HERE
    if type(content) is not list or not all(type(part) is dict for part in content):
        return "no_text"
    if any(part.get("type") == "tool_result" for part in content):
        return "tool_result"
    places = [at for at, part in enumerate(content) if "text" in part]
    if len(places) != 1:
        return "several_texts" if places else "no_text"
    at = places[0]
    text = content[at]["text"]
    if type(text) is not str:
        return "no_text"
    return text, [*content[:at], {**content[at], "text": _HERE}, *content[at + 1 :]]


def asking_usage(call: Call) -> bytes:
    """The body to send upstream for a streamed call, with `stream_options.include_usage` on."""
    options = {**(call.body.get("stream_options") or {}), "include_usage": True}
    try:
        return _encode_as_is({**call.body, "stream_options": options})
    except RecursionError as error:
        raise _too_deep() from error
