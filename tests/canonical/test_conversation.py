"""Earlier turns: which may be compared by meaning, and which must be equal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from askonce.canonical.conversation import MOST_CHARACTERS, MOST_TURNS, Turn, divided
from askonce.canonical.key import Scope, partition_key
from askonce.canonical.request import Question, parse_chat, question_of

SYSTEM = {"role": "system", "content": "Be brief."}
TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello!"}]
SCOPE = Scope("/v1/chat/completions", "engine", "", bytes(32))


def question(*earlier: dict[str, Any], text: str = "What now?") -> Question:
    """The question after these messages, compared by meaning."""
    body = {"model": "m", "messages": [*earlier, {"role": "user", "content": text}]}
    found = question_of(parse_chat(msgspec.json.encode(body)), max_temperature=1.0, by_meaning=True)
    assert isinstance(found, Question)
    return found


def test_plain_turns_are_taken_out_and_what_frames_them_stays() -> None:
    """System messages must be equal; texts of user and assistant may differ."""
    developer = {"role": "developer", "content": "Use metric."}
    assert divided([SYSTEM, developer, *TALK]) == (
        [SYSTEM, developer],
        (Turn("user", "hi"), Turn("assistant", "Hello!")),
    )
    assert divided([SYSTEM]) == ([SYSTEM], ())


@pytest.mark.parametrize(
    "other",
    [
        {"role": "tool", "content": "4", "tool_call_id": "c"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": "hi", "name": "Ann"},
        {"role": "system", "content": "Now be long."},
        {"role": "user"},
    ],
)
def test_anything_but_text_keeps_all_turns_equal(other: dict[str, Any]) -> None:
    """Tool results, images, names and late instructions are no plain turns."""
    assert divided([*TALK, other]) is None


def test_long_conversations_keep_all_turns_equal() -> None:
    """Past the bounds of turns or characters nothing is compared by meaning."""
    assert divided(TALK * (MOST_TURNS // 2)) is not None
    assert divided(TALK * (MOST_TURNS // 2) + TALK) is None
    assert divided([{"role": "user", "content": "x" * (MOST_CHARACTERS + 1)}]) is None


def test_other_turns_share_a_partition_that_nothing_else_is_in() -> None:
    """Histories may differ inside one partition; the same request compared whole has another."""
    alone, after = question(SYSTEM), question(SYSTEM, *TALK)
    assert partition_key(SCOPE, alone) == partition_key(SCOPE, after)
    assert partition_key(SCOPE, question(*TALK)) != partition_key(SCOPE, after)
    assert after.turns == (Turn("user", "hi"), Turn("assistant", "Hello!"))
    whole = Question(alone.text, alone.frame)
    assert partition_key(SCOPE, whole) != partition_key(SCOPE, alone)


def test_a_question_after_a_tool_is_compared_whole() -> None:
    """Where turns cannot be left out, the frame has all of them."""
    tool = {"role": "tool", "content": "4", "tool_call_id": "c"}
    found = question(*TALK, tool)
    assert (found.open, found.turns) == (False, ())
    assert b"Hello!" in found.frame
