"""Threads of the pool, apart from those of the engine."""

from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from askonce.kv.block import BlockKey
from askonce.kv.bulkhead import Bulkhead
from askonce.kv.jobs import Desk, Job
from askonce.units import Seconds


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is bound elsewhere")
def test_a_thread_that_is_bound_starts_others_that_are_not() -> None:
    """They run wherever any thread of the process may."""
    head = Bulkhead("test", threads=1, depth=1)
    everywhere = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def bound() -> None:
        os.sched_setaffinity(0, {min(everywhere)})
        head.offer(lambda: seen.append(os.sched_getaffinity(0)))

    thread = threading.Thread(target=bound)
    thread.start()
    thread.join()
    assert head.close(Seconds(5.0))
    assert seen == [everywhere]


def _job(request: str) -> Job:
    return Job(
        1, "load", request, (BlockKey(b"k" * 32),), (memoryview(b"v"),), 1, Seconds(0), Seconds(9)
    )


def test_who_awaits_loads_is_told_of_the_first_request_without_one() -> None:
    """At once where there is one already, else when its last job ends, or after the time."""
    desk, job, other = Desk(), _job("a"), _job("b")
    desk.submit(job)
    desk.submit(other)
    desk.await_any(["c", "a"], Seconds(60.0))
    desk.await_any(["a", "b"], Seconds(0.001))
    threading.Timer(0.01, lambda: desk.end(job, ["done"], Seconds(1))).start()
    began = time.monotonic()
    desk.await_any(["a", "b"], Seconds(60.0))
    assert time.monotonic() - began < 30
    assert [each.request for each in desk.drain()] == ["a"]
