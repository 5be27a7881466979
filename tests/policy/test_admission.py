"""Which answers may be stored."""

from __future__ import annotations

import msgspec
import pytest

from askonce.canonical.answer import Facts
from askonce.policy.admission import GOOD_ENDS, refuse, wants_json
from askonce.units import Bytes

GOOD = Facts(
    finish_reasons=("stop",),
    texts=("{}",),
    has_text=True,
    has_tool_calls=False,
    has_empty_choice=False,
    bad_tool_json=False,
    size=Bytes(100),
)


def reason(*, json: bool = False, **changes: object) -> str | None:
    """Why a good answer with these changes is refused."""
    return refuse(msgspec.structs.replace(GOOD, **changes), wants_json=json, max_bytes=100)


@pytest.mark.parametrize("end", sorted(GOOD_ENDS))
def test_a_complete_answer_is_admitted(end: str) -> None:
    """An answer that ended by itself may be stored."""
    assert reason(finish_reasons=(end, "stop")) is None


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("length", "truncated"),
        ("max_tokens", "truncated"),
        ("content_filter", "content_filter"),
        ("error", "finish_reason"),
        ("", "finish_reason"),
    ],
)
def test_one_bad_end_refuses_the_answer(end: str, why: str) -> None:
    """One choice that did not end by itself refuses all of them."""
    assert reason(finish_reasons=("stop", end)) == why


def test_an_answer_of_the_bound_fits() -> None:
    """The size bound itself is within bounds."""
    assert reason(size=Bytes(100)) is None
    assert reason(size=Bytes(101)) == "oversize"


def test_tool_calls_must_parse() -> None:
    """Arguments that are no JSON object would break the caller every time."""
    assert reason(bad_tool_json=True) == "tool_json"


def test_an_empty_choice_is_no_answer() -> None:
    """One choice that says nothing and calls nothing refuses the answer."""
    assert reason(has_empty_choice=True) == "empty"


@pytest.mark.parametrize("text", ["{", "yes", "[1,", '{"a":1} x', "[" * 100_000, '"\ud800"'])
def test_promised_json_must_parse(text: str) -> None:
    """An answer that breaks its promise of JSON is not repeated."""
    assert reason(texts=("{}", text), json=True) == "not_json"
    assert reason(texts=("{}", text)) is None


@pytest.mark.parametrize("text", ["{}", ' {"a": [1]}\n', "[]", ""])
def test_json_is_admitted(text: str) -> None:
    """JSON may stand alone, in white space, or be missing beside a tool call."""
    assert reason(texts=(text,), json=True) is None


@pytest.mark.parametrize(
    ("body", "wants"),
    [
        ({"response_format": {"type": "json_object"}}, True),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, True),
        ({"response_format": {"type": "text"}}, False),
        ({"response_format": {"type": {}}}, False),
        ({"response_format": "json_object"}, False),
        ({"response_format": None}, False),
        ({}, False),
    ],
)
def test_a_wish_for_json_is_seen(body: dict[str, object], *, wants: bool) -> None:
    """Both forms of `response_format` promise JSON, everything else promises nothing."""
    assert wants_json(body) is wants
