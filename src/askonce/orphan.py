"""No process of AskOnce outlives the one that made it."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading


def die_with_parent() -> None:
    """Have Linux kill this process when the thread that made it ends."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def worker_dies_with_server() -> None:
    """In a worker, end with the server that spawned it, however that ends; elsewhere nothing.

    Linux does it by itself, unless the server ended before it was asked; elsewhere a thread waits.
    """
    server = multiprocessing.parent_process()
    if server is None:
        return
    die_with_parent()
    if os.getppid() != server.pid:
        os._exit(1)
    if sys.platform != "linux":
        threading.Thread(target=_end_after, args=(server,), daemon=True).start()


def _end_after(server: multiprocessing.process.BaseProcess) -> None:
    server.join()
    os._exit(1)
