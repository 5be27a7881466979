"""The fakes."""

from __future__ import annotations

import pytest

from askonce.events import AdmissionRefused, GuardVetoed
from askonce.testing import FakeClock, RecordingSink


def test_the_clock_moves_by_hand_alone() -> None:
    """Both times stand still until advanced, together, and only forwards."""
    clock = FakeClock(1000.0)
    assert (clock.now(), clock.monotonic()) == (1000.0, 0.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (1002.5, 2.5)
    with pytest.raises(ValueError, match="never goes back"):
        clock.advance(-1)


def test_the_sink_remembers_in_order() -> None:
    """Every event is kept, and can be asked for by its type."""
    sink = RecordingSink()
    events = [AdmissionRefused("a"), GuardVetoed("g"), AdmissionRefused("b")]
    for event in events:
        sink.emit(event)
    assert sink.events == events
    assert sink.of(AdmissionRefused) == [AdmissionRefused("a"), AdmissionRefused("b")]
