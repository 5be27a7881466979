"""Entries for tests that do not look at what they say."""

from __future__ import annotations

from askonce.canonical.answer import read_completion
from askonce.canonical.entry import Entry
from askonce.clock import SystemClock
from askonce.units import Seconds, UnixTime


def entry(key: bytes, model: str, *, tags: tuple[str, ...] = (), life: float = 60.0) -> Entry:
    """An entry that is told apart by its model."""
    now = SystemClock().now()
    return Entry(
        key=key,
        answer=read_completion(_ANSWER),
        created_at=now,
        exact_until=UnixTime(now + life),
        semantic_until=UnixTime(0),
        tags=tags,
        model=model,
        upstream="fake",
        question="",
        engine_time=Seconds(0.1),
    )


_ANSWER = (
    b'{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"an answer"},"finish_reason":"stop"}]}'
)
