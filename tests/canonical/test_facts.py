"""What admission asks of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.canonical.completions import (
    CALLS,
    choice,
    completion,
    read,
)

from askonce.canonical.answer import (
    facts,
)

if TYPE_CHECKING:
    from askonce.canonical.value import Json


def test_facts_of_a_plain_answer() -> None:
    """Text, reasons and size are told."""
    answer = read(completion(choice("a"), choice("b", 1, finish_reason="length")))
    told = facts(answer)
    assert told.finish_reasons == ("stop", "length")
    assert told.texts == ("a", "b")
    assert (told.has_text, told.has_tool_calls, told.has_empty_choice) == (True, False, False)
    assert told.size == len(answer.rest)


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (choice("a"), "text"),
        (choice(None), "empty"),
        (choice(" \n"), "empty"),
        (choice("", reasoning_content="Hm"), "empty"),
        (choice(None, tool_calls=CALLS), "calls"),
        (choice(None, tool_calls=[]), "empty"),
        (choice(None, tool_calls=None, refusal="No."), "text"),
        (choice(None, audio={"id": "a"}), "text"),
        (choice(None, function_call=CALLS[0]["function"]), "calls"),
        ({"message": {"content": [{"type": "text"}]}, "finish_reason": "stop"}, "text"),
    ],
)
def test_facts_tell_text_from_calls_and_nothing(one: Json, found: str) -> None:
    """A choice speaks, calls, or is empty."""
    told = facts(read(completion(one)))
    assert told.has_text == (found == "text")
    assert told.has_tool_calls == (found == "calls")
    assert told.has_empty_choice == (found == "empty")
    assert not told.bad_tool_json


def test_one_empty_choice_among_full_ones_is_noticed() -> None:
    """All choices are looked at."""
    assert facts(read(completion(choice("a"), choice("", 1)))).has_empty_choice


@pytest.mark.parametrize(
    "calls",
    [
        [{"function": {"name": "f", "arguments": "{"}}],
        [{"function": {"name": "f", "arguments": ""}}],
        [{"function": {"name": "f", "arguments": "[]"}}],
        [{"function": {"name": "f", "arguments": {}}}],
        [{"function": {"name": "f", "arguments": "[" * 100_000}}],
        [{"function": {"name": "f"}}],
        [{"function": None}],
        [CALLS[0], {"function": {"arguments": "nope"}}],
        ["f"],
        "f",
    ],
)
def test_arguments_that_are_no_object_are_noticed(calls: Json) -> None:
    """Only the text of a JSON object is sound; every call is looked at."""
    assert facts(read(completion(choice(None, tool_calls=calls)))).bad_tool_json


def test_an_old_style_call_is_looked_at_too() -> None:
    """`function_call` is a call like others."""
    told = facts(read(completion(choice(None, function_call={"name": "f", "arguments": "{"}))))
    assert (told.has_tool_calls, told.bad_tool_json) == (True, True)


def test_a_custom_call_has_no_arguments() -> None:
    """Calls of another kind carry free text."""
    custom = {"id": "a", "type": "custom", "custom": {"name": "f", "input": "{"}}
    assert not facts(read(completion(choice(None, tool_calls=[custom])))).bad_tool_json
