"""Questions: what the semantic tier compares, and what must be equal around it."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from askonce.canonical.request import Call, Question, asking_usage, parse_chat, question_of
from askonce.errors import RequestError

if TYPE_CHECKING:
    from askonce.canonical.value import Json

BASE: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def parsed(**fields: Json) -> Call:
    """The call of the base request with these fields on top."""
    return parse_chat(json.dumps({**BASE, **fields}).encode())


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
