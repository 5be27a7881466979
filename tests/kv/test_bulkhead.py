"""Threads of the pool, apart from those of the engine."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from askonce.kv.block import BlockKey
from askonce.kv.bulkhead import Bulkhead
from askonce.kv.jobs import Desk, Job, Lookup
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is bound elsewhere")
def test_a_thread_that_is_bound_starts_others_that_are_not() -> None:
    """They run wherever any thread of the process may, though others come and go meanwhile."""
    everywhere = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def bound() -> None:
        os.sched_setaffinity(0, {min(everywhere)})
        for _ in range(20):
            head = Bulkhead("test", threads=1, depth=1)
            head.offer(lambda: seen.append(os.sched_getaffinity(0)))
            assert head.close(Seconds(5.0))

    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            _run_in_thread(lambda: None)

    others = [threading.Thread(target=churn) for _ in range(2)]
    for other in others:
        other.start()
    _run_in_thread(bound)
    done.set()
    for other in others:
        other.join()
    assert seen == [everywhere] * 20


def _run_in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def _job(request: str) -> Job:
    return Job(
        1, "load", request, (BlockKey(b"k" * 32),), (memoryview(b"v"),), 1, Seconds(0), Seconds(9)
    )


def test_who_awaits_an_end_is_told_of_the_first_job_that_has_ended() -> None:
    """When it does, or at once where one was not told yet, or not after the time."""
    desk, job, other = Desk(), _job("a"), _job("b")
    desk.submit(job)
    desk.submit(other)
    assert not desk.await_end(Seconds(0.001))
    threading.Timer(0.01, lambda: desk.end(job, ["done"], Seconds(1))).start()
    began = time.monotonic()
    assert desk.await_end(Seconds(60.0))
    assert desk.await_end(Seconds(60.0))
    assert time.monotonic() - began < 30
    assert [each.request for each in desk.drain()] == ["a"]
    assert not desk.await_end(Seconds(0.001))


def test_who_awaits_an_answer_is_woken_by_it() -> None:
    """And by nothing else before its time is over."""
    desk = Desk()
    lookup = Lookup("a", (BlockKey(b"k" * 32),), Seconds(0), Seconds(9))
    desk.open(lookup)
    desk.await_answer(lookup, Seconds(0.001))
    threading.Timer(0.01, lambda: desk.answer(lookup, [True])).start()
    began = time.monotonic()
    desk.await_answer(lookup, Seconds(60.0))
    assert lookup.answer == [True]
    assert time.monotonic() - began < 30


def test_without_a_thread_to_be_had_work_is_shed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may start no more threads is told no, and is as well as before."""
    head = Bulkhead("test", threads=2, depth=4)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        assert not head.offer(lambda: None)
    ran, go = threading.Event(), threading.Event()
    assert head.offer(lambda: _wait_for(go))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        assert head.offer(ran.set)
    go.set()
    assert head.close(Seconds(5.0))
    assert ran.is_set()


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def _wait_for(event: threading.Event) -> None:
    event.wait(5.0)
