"""What happened is what `/metrics` shows, summed over worker processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from askonce import events
from askonce.telemetry import figures
from askonce.telemetry.prometheus import METRICS, PrometheusSink
from askonce.units import Bytes, Seconds, Tokens

if TYPE_CHECKING:
    from pathlib import Path

HIT = events.Served(
    tier="exact",
    outcome="ok",
    streamed=True,
    latency=Seconds(0.0004),
    ttft=Seconds(0.0001),
    saved_prompt=Tokens(7),
    saved_completion=Tokens(5),
)


def shown(sink: PrometheusSink) -> dict[str, float]:
    """What a scrape shows, by sample name and label values."""
    return {
        " ".join(
            [sample.name, *(sample.labels[key] for key in sorted(sample.labels))]
        ): sample.value
        for family in text_string_to_metric_families(sink.render().decode())
        for sample in family.samples
    }


def dead_pid() -> int:
    """The id of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    return child.pid


def test_a_request_is_counted_by_tier_and_outcome() -> None:
    """A hit moves its counter, both histograms and the tokens saved."""
    sink = PrometheusSink()
    sink.emit(HIT)
    samples = shown(sink)
    assert samples["askonce_requests_total ok exact"] == 1
    assert samples["askonce_requests_total ok engine"] == 0
    assert samples["askonce_request_seconds_bucket 0.00025 exact"] == 0
    assert samples["askonce_request_seconds_bucket 0.0005 exact"] == 1
    assert samples["askonce_request_seconds_bucket +Inf exact"] == 1
    assert samples["askonce_request_seconds_sum exact"] == pytest.approx(0.0004)
    assert samples["askonce_ttft_seconds_bucket 0.0001 exact"] == 1
    assert samples["askonce_ttft_seconds_count exact"] == 1
    assert samples["askonce_tokens_saved_total prompt"] == 7
    assert samples["askonce_tokens_saved_total completion"] == 5


def test_a_computed_answer_saves_no_tokens() -> None:
    """An engine answer leaves the tokens saved as they are."""
    sink = PrometheusSink()
    sink.emit(msgspec.structs.replace(HIT, saved_prompt=Tokens(0), saved_completion=Tokens(0)))
    assert shown(sink)["askonce_tokens_saved_total prompt"] == 0


@pytest.mark.parametrize(
    ("event", "sample", "value"),
    [
        (events.AdmissionRefused(reason="length"), "askonce_admission_refused_total length", 1),
        (events.GuardVetoed(guard="numbers"), "askonce_guard_vetoes_total numbers", 1),
        (
            events.StepSkipped(part="store", cause="deadline"),
            "askonce_steps_skipped_total deadline store",
            1,
        ),
        (events.BreakerMoved(part="index", state="open"), "askonce_breaker_state index", 2),
        (events.BreakerMoved(part="index", state="half_open"), "askonce_breaker_state index", 1),
        (events.BreakerMoved(part="index", state="closed"), "askonce_breaker_state index", 0),
        (
            events.Evicted(part="hot", cause="capacity", entries=9),
            "askonce_evictions_total capacity hot",
            9,
        ),
        (events.HeldBytes(part="hot", size=Bytes(64), entries=2), "askonce_held_bytes hot", 64),
        (events.HeldBytes(part="hot", size=Bytes(64), entries=2), "askonce_held_entries hot", 2),
        (events.Embedded(took=Seconds(0.013)), "askonce_embedding_seconds_count", 1),
        (events.Event(), "askonce_workers", 1),
    ],
)
def test_every_event_has_its_metric(event: events.Event, sample: str, value: float) -> None:
    """Each kind of event shows as one sample; an unknown kind as none."""
    sink = PrometheusSink()
    sink.emit(event)
    assert shown(sink)[sample] == value


def test_every_event_of_the_core_is_counted() -> None:
    """No kind of event is forgotten."""
    assert set(PrometheusSink()._takers) == set(events.Event.__subclasses__())


def test_every_metric_is_shown_under_its_name() -> None:
    """The page declares each metric of the table, with its kind, and no other."""
    page = PrometheusSink().render().decode()
    declared = {tuple(line.split()[2:4]) for line in page.splitlines() if line.startswith("# TYPE")}
    assert declared == {(metric.name, metric.kind) for metric in METRICS}


def test_workers_are_summed(tmp_path: Path) -> None:
    """Counts add up, what workers share is not counted twice, and the worst breaker shows."""
    mine, other = PrometheusSink(tmp_path), PrometheusSink(tmp_path)
    for sink in (mine, other):
        sink.emit(HIT)
        sink.emit(events.HeldBytes(part="store", size=Bytes(100), entries=1))
        sink.emit(events.HeldBytes(part="hot", size=Bytes(10), entries=1))
    other.emit(events.BreakerMoved(part="store", state="open"))
    taken = figures.snapshot(other._figures)
    taken.pid = os.getppid()
    figures.write_snapshot(tmp_path, taken)
    samples = shown(mine)
    assert samples["askonce_requests_total ok exact"] == 2
    assert samples["askonce_request_seconds_bucket +Inf exact"] == 2
    assert samples["askonce_held_bytes store"] == 100
    assert samples["askonce_held_bytes hot"] == 20
    assert samples["askonce_breaker_state store"] == 2
    assert samples["askonce_workers"] == 2


def test_a_dead_worker_keeps_its_counts_and_loses_its_gauges(tmp_path: Path) -> None:
    """Counters never fall when a worker is replaced; what it held is gone."""
    mine, other = PrometheusSink(tmp_path), PrometheusSink(tmp_path)
    other.emit(HIT)
    other.emit(events.HeldBytes(part="hot", size=Bytes(10), entries=1))
    taken = figures.snapshot(other._figures)
    taken.pid = dead_pid()
    figures.write_snapshot(tmp_path, taken)
    samples = shown(mine)
    assert samples["askonce_requests_total ok exact"] == 1
    assert "askonce_held_bytes hot" not in samples
    assert samples["askonce_workers"] == 1


def test_a_workers_own_file_and_broken_files_are_passed_over(tmp_path: Path) -> None:
    """A worker does not count itself twice, and a file that is no snapshot costs nothing."""
    sink = PrometheusSink(tmp_path)
    sink.emit(HIT)
    sink.publish()
    (tmp_path / "1.json").write_text("{")
    assert shown(sink)["askonce_requests_total ok exact"] == 1


@pytest.mark.anyio
async def test_figures_are_published_until_cancelled(tmp_path: Path) -> None:
    """The publishing task writes this worker's file."""
    sink = PrometheusSink(tmp_path)
    task = asyncio.create_task(sink.keep_publishing(every=0.001))
    async with asyncio.timeout(10):
        while not (tmp_path / f"{os.getpid()}.json").exists():
            await asyncio.sleep(0.001)
    task.cancel()


@pytest.mark.anyio
async def test_a_single_worker_publishes_nothing() -> None:
    """Without a directory there is nothing to publish."""
    sink = PrometheusSink()
    sink.publish()
    await sink.keep_publishing()


def test_what_ended_servers_left_is_swept(tmp_path: Path) -> None:
    """Directories of servers that run no longer are removed, others stay."""
    ended = tmp_path / "run" / str(dead_pid())
    running = figures.run_directory(tmp_path)
    for directory in (ended, running):
        figures.write_snapshot(directory, figures.snapshot(figures.Figures()))
    (tmp_path / "run" / "1x").mkdir()
    figures.sweep_runs(tmp_path)
    assert not ended.exists()
    assert running.exists()


def test_a_process_of_another_user_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may not be signalled exists."""

    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert figures.is_running(1)


def test_the_trust_of_so_many_namespaces_is_shown() -> None:
    """Those heard of last: callers who name many cannot make the page grow."""
    sink = PrometheusSink()
    for number in range(100):
        sink.emit(events.TrustMoved(f"ns-{number}", threshold=0.0, bound=0.5, labels=1.0))
        sink.emit(events.TrustMoved("default", threshold=0.0, bound=0.5, labels=2.0))
    samples = shown(sink)
    for metric in ("trust_threshold", "wrong_rate_bound", "trust_labels", "verdict_share"):
        names = {name for name in samples if name.startswith(f"askonce_{metric} ")}
        assert len(names) == 64
        assert {f"askonce_{metric} default", f"askonce_{metric} ns-99"} <= names
