"""The worker's thread: order, batches, bounds, faults, end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING

import pytest

from askonce.worker import Worker, WorkerBusy, WorkerClosed, gently

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = pytest.mark.anyio


class Gate:
    """A job that holds the thread until it is opened."""

    def __init__(self) -> None:
        """Start shut."""
        self.entered = threading.Event()
        self._open = threading.Event()

    def __call__(self) -> None:
        """Wait in the thread."""
        self.entered.set()
        assert self._open.wait(10)

    def open(self) -> None:
        """Let the thread go on."""
        self._open.set()


@contextlib.asynccontextmanager
async def held(worker: Worker) -> AsyncIterator[None]:
    """Keep the thread busy, so that what is asked inside waits together."""
    gate = Gate()
    holding = asyncio.create_task(worker.run(gate))
    assert await asyncio.to_thread(gate.entered.wait, 10)
    try:
        yield
    finally:
        gate.open()
        await holding


async def asked(worker: Worker, *jobs: Callable[[], object]) -> list[asyncio.Task[object]]:
    """Ask for all jobs, and return once they wait."""
    tasks = [asyncio.create_task(worker.run(job)) for job in jobs]
    await asyncio.sleep(0)
    return tasks


async def test_runs_off_the_loop() -> None:
    """A job runs in the worker's own thread, and its result comes back."""
    worker = Worker("named", limit=1)
    assert await worker.run(lambda: threading.current_thread().name) == "named"
    await worker.close()


async def test_runs_in_order() -> None:
    """Jobs run in the order in which they were asked for."""
    worker = Worker("w", limit=20)
    seen: list[int] = []
    await asyncio.gather(*(worker.run(lambda n=n: seen.append(n)) for n in range(20)))  # type: ignore[misc]
    assert seen == list(range(20))
    await worker.close()


async def test_hands_errors_to_the_caller_alone() -> None:
    """A job's error reaches its caller; the others of the batch succeed."""
    worker = Worker("w", limit=10)

    def fail() -> None:
        raise ValueError("mine")

    async with held(worker):
        good, bad, end = await asked(worker, lambda: 1, fail, lambda: next(iter(())))
    assert await good == 1
    with pytest.raises(ValueError, match="mine"):
        await bad
    with pytest.raises(RuntimeError, match="StopIteration"):
        await end
    await worker.close()


async def test_survives_what_would_end_a_thread() -> None:
    """SystemExit in a job is its caller's, and the thread goes on."""
    worker = Worker("w", limit=10)

    def leave() -> None:
        sys.exit(1)

    outcome: BaseException | None = None
    try:
        await worker.run(leave)
    except SystemExit as error:
        outcome = error
    assert isinstance(outcome, SystemExit)
    assert await worker.run(lambda: 1) == 1
    await worker.close()


async def test_sheds_past_the_limit() -> None:
    """One job more than the limit raises WorkerBusy at once, and room comes back."""
    worker = Worker("w", limit=2)
    async with held(worker):
        (waiting,) = await asked(worker, lambda: 1)
        assert worker.waiting == 2
        with pytest.raises(WorkerBusy):
            await worker.run(lambda: 2)
    assert await waiting == 1
    assert worker.waiting == 0
    await worker.close()


async def test_drops_what_nobody_waits_for() -> None:
    """A job whose caller gave up before it began does not run."""
    worker = Worker("w", limit=10)
    ran: list[str] = []
    async with held(worker):
        given_up, kept = await asked(worker, lambda: ran.append("a"), lambda: ran.append("b"))
        given_up.cancel()
        await asyncio.sleep(0)
    await kept
    assert ran == ["b"]
    assert worker.waiting == 0
    await worker.close()


async def test_ignores_a_result_that_comes_too_late() -> None:
    """A caller may give up while its job runs; the rest of the batch is answered."""
    worker = Worker("w", limit=10)
    gate = Gate()
    running = asyncio.create_task(worker.run(gate))
    assert await asyncio.to_thread(gate.entered.wait, 10)
    running.cancel()
    gate.open()
    assert await worker.run(lambda: 1) == 1
    assert worker.waiting == 0
    await worker.close()


async def test_puts_a_batch_inside_around() -> None:
    """Jobs that wait together run inside one `around`, in the worker's thread."""
    events: list[str] = []

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        events.append(f"enter in {threading.current_thread().name}")
        yield
        events.append("leave")

    worker = Worker("w", limit=10, around=around)
    async with held(worker):
        tasks = await asked(worker, lambda: events.append("a"), lambda: events.append("b"))
    await asyncio.gather(*tasks)
    assert events == ["enter in w", "leave", "enter in w", "a", "b", "leave"]
    await worker.close()


@pytest.mark.parametrize("at", ["enter", "leave"])
async def test_fails_a_batch_with_its_around(at: str) -> None:
    """When `around` fails, so does every job in it, and the next batch is tried afresh."""
    failing = True

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        if failing and at == "enter":
            raise OSError(at)
        yield
        if failing and at == "leave":
            raise OSError(at)

    worker = Worker("w", limit=10, around=around)
    outcomes = await asyncio.gather(
        worker.run(lambda: 1), worker.run(lambda: 2), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [OSError, OSError]
    failing = False
    assert await worker.run(lambda: 3) == 3
    await worker.close()


async def test_close_finishes_what_waits() -> None:
    """Close runs the jobs that wait, refuses new ones, and may be called twice."""
    worker = Worker("w", limit=10)
    async with held(worker):
        (waiting,) = await asked(worker, lambda: "done")
        closing = asyncio.create_task(worker.close())
        await asyncio.sleep(0)
        with pytest.raises(WorkerClosed):
            await worker.run(lambda: 1)
    await closing
    assert await waiting == "done"
    await worker.close()
    assert "w" not in [thread.name for thread in threading.enumerate()]


async def test_does_not_hold_results() -> None:
    """An idle worker keeps no hold on what it returned last."""

    class Result:
        pass

    worker = Worker("w", limit=10)
    result = await worker.run(Result)
    gone = weakref.ref(result)
    del result
    for _ in range(1000):
        gc.collect()
        if gone() is None:
            break
        await asyncio.sleep(0.001)  # the thread is on its way back to waiting
    assert gone() is None
    await worker.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own there")
async def test_is_nice_on_its_own() -> None:
    """`nice` lowers the thread's priority, not the process's."""

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = priority()
    worker = Worker("w", limit=1, nice=1)
    assert await worker.run(priority) == min(before + 1, 19) or before > 0
    assert priority() == before
    await worker.close()


def test_outlives_its_loop() -> None:
    """A job that ends after its loop is gone disturbs nobody."""
    gate = Gate()

    async def leave() -> threading.Thread:
        worker = Worker("left", limit=1)
        task = asyncio.create_task(worker.run(gate))
        await asyncio.to_thread(gate.entered.wait, 10)
        task.cancel()
        worker._jobs.put(None)
        return worker._thread

    thread = asyncio.run(leave())
    gate.open()
    thread.join(10)
    assert not thread.is_alive()


async def test_a_worker_that_lingers_takes_what_comes_meanwhile_into_one_batch() -> None:
    """Jobs that are asked one after another within the time share a batch."""
    batches: list[int] = []

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        batches.append(1)
        yield

    worker = Worker("w", limit=10, linger=0.05, around=around)
    jobs = [*await asked(worker, lambda: 1), *await asked(worker, lambda: 2)]
    assert await asyncio.gather(*jobs) == [1, 2]
    assert batches == [1]
    await worker.close()


def test_gentle_work_rests_in_proportion_to_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a share of a fifth each piece is followed by a rest four times as long."""
    spans: list[float] = []
    used = iter([0.0, 2.0, 2.0, 5.0, 5.0, 5.0])
    monkeypatch.setattr("askonce.worker.time.thread_time", lambda: next(used))
    monkeypatch.setattr("askonce.worker.time.sleep", spans.append)
    gently(iter([None, None]), 0.2)
    assert spans == [8.0, 12.0]
