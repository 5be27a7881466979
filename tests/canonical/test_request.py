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
    Question,
    asking_usage,
    parse_chat,
    question_of,
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


def asked(content: Json, **fields: Json) -> Question | str:
    """The question of a request whose last user turn has this content."""
    return question_of(
        parsed(messages=[{"role": "user", "content": content}], **fields), max_temperature=1.0
    )


def test_question_is_the_last_user_text() -> None:
    """A plain content and a content with one text part each give their text."""
    picture = {"type": "image_url", "image_url": {"url": "data:,x"}}
    plain, parts = asked("hi?"), asked([picture, {"type": "text", "text": "what?"}])
    assert isinstance(plain, Question)
    assert isinstance(parts, Question)
    assert (plain.text, parts.text) == ("hi?", "what?")
    assert b"data:,x" in parts.frame
    assert b"what?" not in parts.frame


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no_text"),
        ("", "no_text"),
        (" \n", "no_text"),
        (True, "no_text"),
        ([], "no_text"),
        (["hi"], "no_text"),
        ([{"type": "image_url"}], "no_text"),
        ([{"type": "text", "text": True}], "no_text"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "several_texts"),
        ([{"type": "text", "text": "a"}, {"text": True}], "several_texts"),
        ([{"type": "tool_result", "text": "a"}], "tool_result"),
    ],
)
def test_content_without_one_text_has_no_question(content: object, reason: str) -> None:
    """The reason says what is the matter with the content."""
    assert asked(content) == reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"n": 2}, "variety"),
        ({"n": "2"}, "variety"),
        ({"temperature": 1.1}, "variety"),
        ({"temperature": "2"}, "variety"),
        ({"temperature": True}, "variety"),
        ({"prompt_logprobs": 1}, "prompt_in_answer"),
        ({"echo": True}, "prompt_in_answer"),
        ({"return_token_ids": True}, "prompt_in_answer"),
    ],
)
def test_some_requests_have_no_question(fields: dict[str, Any], reason: str) -> None:
    """Variety and answers that repeat the prompt are not for another question's answer."""
    assert asked("hi", **fields) == reason


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("assistant", "last_turn_not_user"),
        ("system", "last_turn_not_user"),
        ("tool", "tool_result"),
        ("function", "tool_result"),
    ],
)
def test_last_turn_must_be_the_users(role: str, reason: str) -> None:
    """Only a user's words are a question."""
    call = parsed(messages=[{"role": "user", "content": "a"}, {"role": role, "content": "b"}])
    assert question_of(call, max_temperature=1.0) == reason


FRAMES: list[dict[str, Any]] = [
    {},
    {"model": "other"},
    {"temperature": 0},
    {"temperature": 0.5},
    {"tools": []},
    {"seed": 1},
    {"unknown": True},
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]},
    {"messages": [{"role": "user", "content": "q", "name": "n"}]},
    {"messages": [{"role": "user", "content": "q"}, {"role": "user", "content": "q"}]},
    {"messages": [{"role": "user", "content": True}, {"role": "user", "content": "q"}]},
    {"messages": [{"role": "user", "content": "true"}, {"role": "user", "content": "q"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]},
    {"messages": [{"role": "user", "content": [{"text": "q"}]}]},
    {"messages": [{"role": "user", "content": [{"text": "q"}, {"type": "text"}]}]},
    {"messages": [{"role": "user", "content": [{"type": "text"}, {"text": "q"}]}]},
    {"messages": [{"role": "user", "content": [{"text": "q"}, {"type": "image_url", "u": "1"}]}]},
    {"messages": [{"role": "user", "content": [{"text": "q"}, {"type": "image_url", "u": "2"}]}]},
    {"messages": [{"role": "user", "content": [{"text": "q", "cache_control": {}}]}]},
]


def test_frames_are_equal_only_when_all_around_the_text_is() -> None:
    """Each change outside of the text changes the frame, and no text can imitate one."""
    frames = []
    for fields in FRAMES:
        question = question_of(parsed(**fields), max_temperature=1.0)
        assert isinstance(question, Question)
        frames.append(question.frame)
    assert len(set(frames)) == len(FRAMES)


@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
@example("true", "null")
def test_frame_does_not_depend_on_the_text(one: str, other: str) -> None:
    """Two questions in the same surroundings share the frame."""
    a, b = asked(one), asked(other)
    assert isinstance(a, Question)
    assert isinstance(b, Question)
    assert a.frame == b.frame
    assert a.text == unicodedata.normalize("NFC", one)


def test_what_stands_for_the_text_is_no_text() -> None:
    """The placeholder is of a kind that no message can spell as its text."""
    plain, parts = asked("true"), asked([{"type": "text", "text": "true"}])
    assert isinstance(plain, Question)
    assert isinstance(parts, Question)
    assert json.loads(plain.frame)["messages"][-1]["content"] is True
    assert json.loads(parts.frame)["messages"][-1]["content"] == [{"type": "text", "text": True}]


def test_question_leaves_the_call_alone() -> None:
    """Finding the question changes nothing."""
    call = parsed(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}]}])
    before = json.dumps(call.body), json.dumps(call.fields)
    question_of(call, max_temperature=1.0)
    assert (json.dumps(call.body), json.dumps(call.fields)) == before


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


def _nested(depth: int) -> Call:
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    fields = {**BASE, "x": deep}
    return Call("m", stream=True, wants_usage=False, body=fields, canonical=b"", fields=fields)


def test_nesting_that_only_just_parsed_still_fails_in_order() -> None:
    """A deeper call stack cannot turn a parsed request into a crash."""
    call = _nested(200_000)
    assert question_of(call, max_temperature=1.0) == "nested_too_deep"
    with pytest.raises(RequestError, match="nested too deep"):
        asking_usage(call)
