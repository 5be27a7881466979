"""One thread for blocking work, so that the event loop never blocks.

Jobs run in order. Those that wait together run as one batch and wake the loop once, which keeps
the price of crossing threads low under load. A job whose caller gave up before it began is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

T = TypeVar("T")
Job = tuple["Callable[[], Any]", "asyncio.Future[Any]"]


class WorkerBusy(Exception):
    """As many jobs wait as may."""


class WorkerClosed(Exception):
    """The worker takes no more jobs."""


def gently(pieces: Iterable[object], share: float) -> None:
    """Do the pieces of some work, resting between them: work for this share of the time at most.

    Threads of one process take turns, and one that waits for its turn gets it the next time that
    another lets go, which a piece of a request does often. So many short pieces in a row would fall
    into every request.
    """
    began = time.thread_time()
    for _ in pieces:
        worked = time.thread_time() - began
        time.sleep(worked * (1 / share - 1))
        began = time.thread_time()


class Worker:
    """A single thread with a bounded queue; create and use it inside a running event loop."""

    def __init__(
        self,
        name: str,
        *,
        limit: int,
        nice: int = 0,
        linger: float = 0.0,
        around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        """Start the thread.

        limit: jobs that may wait or run; one more raises WorkerBusy.
        nice: lowers the thread's priority where the system allows it.
        linger: seconds that the first job of a batch waits for others to join it.
        around: entered and left in the thread around each batch, as for a transaction.
        """
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._nice = nice
        self._linger = linger
        self._around = around
        self._waiting = 0
        self._closed = False
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that wait or run."""
        return self._waiting

    async def run(self, job: Callable[[], T]) -> T:
        """Run the job in the thread and return what it returns; raises WorkerBusy, WorkerClosed."""
        if self._closed:
            raise WorkerClosed
        if self._waiting >= self._limit:
            raise WorkerBusy
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting += 1
        self._jobs.put((job, future))
        return await future

    async def close(self) -> None:
        """Finish the jobs that wait, then end the thread; idempotent."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        while self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        if self._nice and sys.platform == "linux":  # elsewhere a thread's id may be a process's
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._nice)
        while self._work_once():
            pass

    def _work_once(self) -> bool:
        """Wait for a batch and run it; keeps no hold on what it returned. False at the end."""
        batch, open_ = self._next_batch()
        if batch:
            self._hand_back(self._run_batch(batch))
        return open_

    def _next_batch(self) -> tuple[list[Job], bool]:
        batch: list[Job] = []
        job = self._jobs.get()
        if self._linger and job is not None:
            time.sleep(self._linger)
        while job is not None:
            batch.append(job)
            if self._jobs.empty():
                return batch, True
            job = self._jobs.get_nowait()
        return batch, False

    def _run_batch(self, batch: list[Job]) -> deque[tuple[asyncio.Future[Any], Any, bool]]:
        done: deque[tuple[asyncio.Future[Any], Any, bool]] = deque()
        try:
            with self._around():
                for job, future in batch:
                    done.append(self._run_one(job, future))
        except Exception as error:  # noqa: BLE001 - the whole batch failed with its transaction
            return deque((future, error, False) for _, future in batch)
        return done

    @staticmethod
    def _run_one(
        job: Callable[[], Any], future: asyncio.Future[Any]
    ) -> tuple[asyncio.Future[Any], Any, bool]:
        if future.cancelled():
            return future, None, True
        try:
            return future, job(), True
        except StopIteration as error:  # a future cannot carry it
            return future, RuntimeError(f"the job raised {error!r}"), False
        except BaseException as error:  # noqa: BLE001 - the caller's to handle, not the thread's
            return future, error, False

    def _hand_back(self, done: deque[tuple[asyncio.Future[Any], Any, bool]]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it everyone who waits
            self._loop.call_soon_threadsafe(self._deliver, done)

    def _deliver(self, done: deque[tuple[asyncio.Future[Any], Any, bool]]) -> None:
        self._waiting -= len(done)
        for future, outcome, succeeded in done:
            if future.done():
                continue
            if succeeded:
                future.set_result(outcome)
            else:
                future.set_exception(outcome)
