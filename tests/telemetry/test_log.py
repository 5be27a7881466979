"""Log lines, and one sink for several."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from askonce import events
from askonce.telemetry.fanout import Fanout
from askonce.telemetry.log import LogSink
from askonce.units import Seconds

if TYPE_CHECKING:
    import pytest


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.events: list[events.Event] = []

    def emit(self, event: events.Event) -> None:
        """Keep one event."""
        self.events.append(event)


def test_a_request_is_one_line_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """The access line says who answered, how it went and how long it took."""
    event = events.Served(
        tier="semantic", outcome="ok", streamed=True, latency=Seconds(0.0123), ttft=Seconds(0.01)
    )
    with caplog.at_level(logging.INFO, "askonce.access"):
        LogSink().emit(event)
    assert caplog.messages == [
        "tier=semantic outcome=ok streamed=true latency_ms=12.30 ttft_ms=10.00"
    ]


def test_a_breaker_that_moves_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """An operator sees at once that a part is left alone; other events are not logged."""
    LogSink().emit(events.BreakerMoved(part="store", state="open"))
    LogSink().emit(events.GuardVetoed(guard="numbers"))
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "part=store breaker=open")
    ]


def test_a_fanout_hands_on_to_each() -> None:
    """Every sink gets every event."""
    first, second = Kept(), Kept()
    event = events.GuardVetoed(guard="names")
    Fanout([first, second]).emit(event)
    assert first.events == second.events == [event]


def test_a_trial_that_changes_nothing_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    """A part that stays broken is told once, and once more when it works again."""
    sink = LogSink()
    states: tuple[events.BreakerState, ...] = ("open", "half_open", "open", "half_open", "closed")
    for state in states:
        sink.emit(events.BreakerMoved(part="store", state=state))
    assert caplog.messages == ["part=store breaker=open", "part=store breaker=closed"]
