"""A page of metrics becomes a small table."""

from __future__ import annotations

from askonce import events
from askonce.cli.figures import live_table
from askonce.telemetry.prometheus import PrometheusSink
from askonce.units import Bytes, Seconds, Tokens


def test_a_page_becomes_a_table() -> None:
    """Tiers that answered, tokens saved and whatever is not zero are shown, nothing else."""
    sink = PrometheusSink()
    for tier, latency in (("exact", 0.001), ("exact", 0.003), ("engine", 0.3), ("none", 0.0)):
        sink.emit(
            events.Served(
                tier=tier,  # type: ignore[arg-type]
                outcome="ok",
                streamed=False,
                latency=Seconds(latency),
                ttft=Seconds(0.0),
                saved_prompt=Tokens(4),
            )
        )
    sink.emit(events.HeldBytes(part="store", size=Bytes(900), entries=3))
    sink.emit(events.BreakerMoved(part="index", state="open"))
    sink.emit(events.AdmissionRefused(reason="truncated"))
    for said in ("same", "unsure", "unsure"):
        sink.emit(events.Judged("audit", said))
    assert list(live_table(sink.render().decode())) == [
        "answered by    requests    share   mean ms",
        "exact                 2    50.0%      2.00",
        "engine                1    25.0%    300.00",
        "none                  1    25.0%      0.00",
        "all                   4",
        "prompt tokens saved  16",
        "completion tokens saved  0",
        "entries held  store  3",
        "bytes held  store  900",
        "answers not stored  truncated  1",
        "hits audited  3: 1 same, 0 different, 2 unsure",
        "breaker open  index",
    ]
