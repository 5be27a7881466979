"""Parsing and canonicalising chat requests."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from askonce.canonical.request import (
    WITHOUT_EFFECT,
    Call,
    asking_usage,
    parse_chat,
)
from askonce.errors import RequestError

if TYPE_CHECKING:
    from askonce.canonical.value import Json

BASE: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def parsed(**fields: Json) -> Call:
    """The call of the base request with these fields on top."""
    return parse_chat(json.dumps({**BASE, **fields}).encode())


def refusal(body: bytes) -> RequestError:
    """The error with which a body is refused."""
    with pytest.raises(RequestError) as caught:
        parse_chat(body)
    return caught.value


def around(value: str) -> bytes:
    """A valid request with one raw JSON value in an unknown field."""
    return b'{"model":"m","messages":[{"role":"user","content":"hi"}],"x":%b}' % value.encode()


def test_call_tells_what_the_gateway_asks() -> None:
    """Model, delivery and the whole body are at hand."""
    call = parsed(stream=True, stream_options={"include_usage": True}, user="u")
    assert (call.model, call.stream, call.wants_usage) == ("m", True, True)
    assert call.body["user"] == "u"
    assert json.loads(call.canonical) == BASE


@pytest.mark.parametrize(
    "options", [None, {}, {"include_usage": False}, {"include_usage": None}, {"include_usage": 1}]
)
def test_usage_is_wanted_only_when_asked(options: object) -> None:
    """Only a literal true asks for usage."""
    assert not parsed(stream=True, stream_options=options).wants_usage


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nope",
        b"\xef\xbb\xbf{}",
        around("NaN"),
        around("Infinity"),
        around("1e400"),
        around("-1e999"),
        around('"\\ud800"'),
        around('"\\udc00\\ud800"'),
        around("9" * 5000),
        around("[" * 100_000 + "]" * 100_000),
        around('{"a":' * 100_000 + "1" + "}" * 100_000),
        around('"\xff"').replace("\xff".encode(), b"\xff"),
        around('"\xff"').replace("\xff".encode(), b"\xed\xa0\x80"),
        around("1") + b"{}",
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    """Every decoding problem is the caller's, with one code."""
    error = refusal(body)
    assert (error.status, error.code, error.type) == (400, "invalid_json", "invalid_request_error")
    assert error.message.endswith(".")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], None),
        ("text", None),
        (None, None),
        ({}, "model"),
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": {}}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": ["hi"]}, "messages[0]"),
        ({"model": "m", "messages": [{"role": "user"}, {}]}, "messages[1]"),
        ({"model": "m", "messages": [{"role": 1}]}, "messages[0]"),
        ({**BASE, "stream": 1}, "stream"),
        ({**BASE, "stream": "true"}, "stream"),
        ({**BASE, "stream_options": []}, "stream_options"),
        ({**BASE, "stream_options": True}, "stream_options"),
    ],
)
def test_wrong_types_are_refused_by_name(body: object, param: str | None) -> None:
    """The error names the first field that cannot be read."""
    error = refusal(json.dumps(body).encode())
    assert (error.status, error.code, error.param) == (400, "invalid_type", param)
    assert (param or "body") in error.message


def test_what_only_the_engine_understands_is_left_to_it() -> None:
    """A role, a content or a temperature of a strange kind is not AskOnce's business."""
    parsed(messages=[{"role": "wizard", "content": 5}], temperature="hot", tools=7)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_canonical_form_keeps_the_value(value: Json) -> None:
    """Nothing is lost but what means absent, and the canonical form is its own canonical form."""
    body = json.dumps({**BASE, "x": value})
    assume(unicodedata.is_normalized("NFC", json.dumps(value, ensure_ascii=False)))
    call = parse_chat(body.encode())
    assert json.loads(call.canonical) == ({**BASE, "x": value} if value is not None else BASE)
    assert parse_chat(call.canonical).canonical == call.canonical


def _scrambled(value: Json, data: st.DataObject) -> str:
    """Some other spelling of the same JSON value."""
    space = data.draw(st.sampled_from(["", " ", "\n\t", "\r\n "]))
    if type(value) is dict:
        names = data.draw(st.permutations(list(value)))
        members = [
            f"{_scrambled(name, data)}{space}:{space}{_scrambled(value[name], data)}"
            for name in names
        ]
        return "{" + f"{space},{space}".join(members) + space + "}"
    if type(value) is list:
        return "[" + space + f"{space},".join(_scrambled(item, data) for item in value) + "]"
    if type(value) is str:
        return '"' + "".join(_character(char, data) for char in value) + '"'
    if type(value) is int and abs(value) < 10**6 and data.draw(st.booleans()):
        return data.draw(st.sampled_from([f"{value}.0", f"{value}e0", f"{value}.000E+0"]))
    return json.dumps(value)


def _character(char: str, data: st.DataObject) -> str:
    if data.draw(st.booleans()):
        char = unicodedata.normalize(data.draw(st.sampled_from(["NFC", "NFD"])), char)
    if data.draw(st.booleans()):
        return "".join(f"\\u{unit:04x}" for unit in _utf16(char))
    return json.dumps(char, ensure_ascii=False)[1:-1]


def _utf16(text: str) -> list[int]:
    raw = text.encode("utf-16-be")
    return [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]


@pytest.mark.slow
@given(st.data())
def test_every_spelling_of_one_request_is_one_canonical_form(data: st.DataObject) -> None:
    """Order of keys, whitespace, number form, escapes and NFC variants make no difference."""
    text = st.text(st.sampled_from('aé:"\\/\n{}0u3ñA\u00c5\ud55c😀'), max_size=8)
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": data.draw(text), "é": [1, 0, True]}],
        "zeta": data.draw(
            st.dictionaries(text, text | st.integers() | st.lists(text, max_size=2), max_size=3)
        ),
        "alpha": 5,
    }
    spelled = _scrambled(request, data)
    assert parse_chat(spelled.encode()).canonical == parsed(**request).canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("0", "-0.0"),
        ("0", "-0"),
        ("100", "1e2"),
        ("0.5", "5e-1"),
        ("0.1", "0.10"),
        ("1e300", "1.0E+300"),
        ('"é"', '"\\u00e9"'),
        ('"é"', '"e\\u0301"'),
        ('"é"', '"e\u0301"'),
        ('{"é":1}', '{"e\u0301":1}'),
        ('["\u212b", 1, null, true]', '["\u00c5",1.0,null,true]'),
        ('"/"', '"\\/"'),
        ('"a:b"', '"a\\u003ab"'),
        ('"a:b"', '"a\\u003Ab"'),
        ('{"b":1,"a":2}', ' { "a" : 2 , "b" : 1 } '),
    ],
)
def test_two_spellings_are_equal(one: str, other: str) -> None:
    """Spellings of one value have one canonical form."""
    assert parse_chat(around(one)).canonical == parse_chat(around(other)).canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "true"),
        ("0", "false"),
        ("1", '"1"'),
        ("0.1", "0.2"),
        ("9007199254740992", "9007199254740993"),
        ('"a"', '"A"'),
        ('"\\n\u0303"', '"\\\\ñ"'),
        ('"ﬁ"', '"fi"'),
        ('""', "[]"),
        ("[1,2]", "[2,1]"),
        ('{"a":null}', "{}"),
        ('"\\\\u003a"', '":"'),
    ],
)
def test_two_values_are_not_equal(one: str, other: str) -> None:
    """Values that differ stay apart, however alike they look."""
    assert parse_chat(around(one)).canonical != parse_chat(around(other)).canonical


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_fields_without_effect_are_left_out(name: str) -> None:
    """What is proven not to change the answer does not change the key."""
    value: Any = {"stream": True, "stream_options": {"include_usage": True}}.get(name, "a:b")
    assert parsed(**{name: value}).canonical == parsed().canonical


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", None),
        ("unknown", None),
        ("n", 1),
        ("n", 1.0),
        ("logprobs", False),
        ("response_format", {"type": "text"}),
    ],
)
def test_what_means_absent_is_left_out(name: str, value: object) -> None:
    """A default that says nothing is the same as no field."""
    assert parsed(**{name: value}).canonical == parsed().canonical


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 1),
        ("top_p", 1),
        ("n", True),
        ("n", 2),
        ("logprobs", 0),
        ("logprobs", True),
        ("response_format", {"type": "text", "more": 1}),
        ("response_format", "text"),
        ("tools", []),
        ("unknown", False),
    ],
)
def test_what_might_say_something_is_kept(name: str, value: object) -> None:
    """No other value counts as absent."""
    assert parsed(**{name: value}).canonical != parsed().canonical


def _repeats(text: str, *, form: Literal["", "NFC"]) -> bool:
    """The oracle: whether any object of a JSON text has a key twice."""
    found = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = {unicodedata.normalize(form, name) if form else name for name, _ in pairs}
        found.append(len(names) != len(pairs))
        return dict(pairs)

    json.loads(text, object_pairs_hook=look)
    return any(found)


_SPELLED_CHARACTERS = st.sampled_from(
    [
        *("a", ":", "{", ",", "é", "e\u0301", "\\u00e9"),
        *('\\"', "\\\\", '\\":', "\\n", "\\u0022", "\\u003a", "\\u003A", "\\\\u003a"),
    ]
)
_SPELLED_STRINGS = st.lists(_SPELLED_CHARACTERS, max_size=3).map(
    lambda parts: f'"{"".join(parts)}"'
)
_SPELLED = st.recursive(
    _SPELLED_STRINGS | st.sampled_from(["1", "null", "1.0"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.lists(
            st.tuples(_SPELLED_STRINGS, st.sampled_from([":", " :", "\n: "]), inner), max_size=3
        ).map(lambda members: "{" + ",".join(map("".join, members)) + "}")
    ),
    max_leaves=10,
)


@given(_SPELLED, st.sampled_from(["x", "metadata", "user"]))
@example('{"a" :1,"a":"\\u003a"}', "x")
@example('{"a":{"b":1,"b":":::"}}', "metadata")
@example('{"\\u0061":1,"a":1}', "x")
@example('"\\\\\\\\u003a"', "x")
def test_duplicate_keys_are_refused_and_nothing_else(value: str, name: str) -> None:
    """The colon count agrees with a parser that sees all pairs."""
    body = f'{{"model":"m","messages":[{{"role":"user"}}],"{name}":{value}}}'
    if _repeats(body, form="" if name in WITHOUT_EFFECT else "NFC"):
        assert refusal(body.encode()).code == "duplicate_key"
    else:
        parse_chat(body.encode())


def test_duplicate_top_level_keys_are_refused() -> None:
    """Two models in one body are ambiguous between parsers."""
    assert refusal(around('1,"model":"other"')).code == "duplicate_key"
    assert refusal(around('1,"user":"a","user":"b"')).code == "duplicate_key"


def test_keys_that_become_equal_are_duplicates() -> None:
    """Two spellings of one key in one object are as ambiguous as the same key twice."""
    assert refusal(around('{"é":1,"e\u0301":2}')).code == "duplicate_key"
    assert refusal(around('[{"a":{"\\u00e9":1,"e\\u0301":1}}]')).code == "duplicate_key"


@pytest.mark.parametrize(
    "options", [None, {}, {"include_usage": False}, {"continuous_usage_stats": True}]
)
def test_asking_usage_changes_nothing_else(options: dict[str, Any] | None) -> None:
    """The body that goes upstream keeps all fields, their order and the other stream options."""
    body = {"z": 0.1, "stream_options": options, "user": "é", "a": None, **BASE, "stream": True}
    sent = json.loads(asking_usage(parse_chat(json.dumps(body).encode())))
    assert sent == {**body, "stream_options": {**(options or {}), "include_usage": True}}
    assert list(sent) == list(body)


def test_asking_usage_adds_the_options() -> None:
    """A body without stream options gets them."""
    assert json.loads(asking_usage(parsed(stream=True))) == {
        **BASE,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
