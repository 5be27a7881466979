"""The system prompt of a request, and its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from askonce.canonical.request import parse_chat, prompt_digest, system_prompt

if TYPE_CHECKING:
    from askonce.canonical.request import Call


def call_of(*messages: dict[str, Any]) -> Call:
    """A request with these messages."""
    return parse_chat(msgspec.json.encode({"model": "m", "messages": messages}))


def test_texts_of_system_and_developer_messages_are_the_prompt() -> None:
    """Wherever they stand, whole or in parts; other parts and roles are none of it."""
    call = call_of(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}, {"type": "x"}, 5]},
        {"role": "system", "content": None},
    )
    assert system_prompt(call) == ("Be brief.", "Be kind.")


def test_a_digest_tells_prompts_apart() -> None:
    """Texts, their number and their order count; white space at their ends does not."""
    told = [["a"], ["b"], ["a", "b"], ["b", "a"], ["ab"], ["a", ""]]
    assert len({prompt_digest(texts) for texts in told}) == len(told)
    assert prompt_digest(["Be brief.\n"]) == prompt_digest(["Be brief."])
    assert prompt_digest(["e\u0301"]) == prompt_digest(["\u00e9"])


def test_without_a_prompt_the_digest_is_empty() -> None:
    """No text, no digest."""
    assert prompt_digest(system_prompt(call_of({"role": "user", "content": "Hi"}))) == ""
