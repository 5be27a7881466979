"""Which engine answers may be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from askonce.canonical.answer import Facts

GOOD_ENDS = frozenset({"stop", "tool_calls", "function_call", "end_turn", "stop_sequence"})
BAD_ENDS = {"length": "truncated", "max_tokens": "truncated", "content_filter": "content_filter"}

_JSON_FORMATS = ("json_object", "json_schema")  # no set: a caller's type may be unhashable


def refuse(facts: Facts, *, wants_json: bool, max_bytes: int) -> str | None:
    """Why an answer may not be stored, or None when it may.

    Reasons: oversize, truncated, content_filter, finish_reason, tool_json, empty, not_json.
    """
    if facts.size > max_bytes:
        return "oversize"
    for end in facts.finish_reasons:
        if end not in GOOD_ENDS:
            return BAD_ENDS.get(end, "finish_reason")
    if facts.bad_tool_json:
        return "tool_json"
    if facts.has_empty_choice:
        return "empty"
    if wants_json and not all(map(_is_json, facts.texts)):
        return "not_json"
    return None


def wants_json(body: Mapping[str, Any]) -> bool:
    """Whether a request asks for an answer in JSON (`response_format`)."""
    wanted = body.get("response_format")
    return isinstance(wanted, dict) and wanted.get("type") in _JSON_FORMATS


def _is_json(text: str) -> bool:
    """No text (a tool call beside it) breaks no promise of JSON."""
    if not text:
        return True
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True
