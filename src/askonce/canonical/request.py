"""A chat request as all tiers see it."""

from __future__ import annotations

from typing import Any

import msgspec


class Call(msgspec.Struct, frozen=True):
    """One chat request, parsed and made canonical."""

    model: str
    stream: bool
    wants_usage: bool
    """The caller asked for `stream_options.include_usage`."""
    body: dict[str, Any]
    """The whole parsed body."""
    canonical: bytes
    """Canonical JSON of everything that can change the answer."""


class Question(msgspec.Struct, frozen=True):
    """What the semantic tier compares, and what must be equal around it."""

    text: str
    """The last user text."""
    frame: bytes
    """Canonical JSON of the request with a placeholder for that text."""


def parse_chat(body: bytes) -> Call:
    """Parse and canonicalise a chat completion request; raises RequestError."""
    raise NotImplementedError


def question_of(call: Call, *, max_temperature: float) -> Question | str:
    """The question of a call that may be answered by meaning, or the reason why it may not."""
    raise NotImplementedError


def asking_usage(call: Call) -> bytes:
    """The body to send upstream for a streamed call, with `stream_options.include_usage` on."""
    raise NotImplementedError
