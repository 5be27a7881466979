"""Many independent pieces of work over forked processes, which share what was made before."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Work = Callable[[int], Any]


class _Inherited:
    """What a child finds as it was at the fork; nothing but numbers and results is sent."""

    work: Work | None = None


def processes() -> int:
    """As many as there are cores for us; one where processes cannot be forked."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def spread(work: Work, pieces: int, over: int) -> Iterator[tuple[int, Any]]:
    """Do `work(0)`, `work(1)`, ...; yields each with its result as they come.

    Closed early, what is under way is waited for, and nothing else is begun.
    """
    if over < 2:
        yield from ((piece, work(piece)) for piece in range(pieces))
        return
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(over, context, _inherit, (work,))
    try:
        waited = {pool.submit(_do, piece): piece for piece in range(pieces)}
        for done in as_completed(waited):
            yield waited[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _inherit(work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the work
    _Inherited.work = work


def _do(piece: int) -> Any:  # noqa: ANN401 - whatever the work gives
    if _Inherited.work is None:
        raise RuntimeError("a child was started without its work")
    return _Inherited.work(piece)
