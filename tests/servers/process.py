"""Real servers as child processes: a free port or a socket file, gone with the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from askonce.orphan import die_with_parent

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
LAID = Path(os.environ.get("TEST_SERVERS", ROOT / ".venv" / "servers"))
"""Where `scripts/servers.py` puts them."""
REQUIRED = "REQUIRE_TEST_SERVERS"
"""Set by `make test-stores`: then a missing server fails the test instead of skipping it."""
_PATIENCE = 20.0


def binary(name: str, *places: str) -> Path:
    """The server's program, from where it was laid or from the path; skips the test without one."""
    for place in places:
        found = LAID / place
        if found.exists():
            found.chmod(found.stat().st_mode | 0o111)
            return found
    on_path = shutil.which(name)
    if on_path is None:
        missing(f"there is no {name}: run `make servers`, or install it")
    return Path(on_path)


def missing(why: str) -> NoReturn:
    """Skip the test, or fail it where all servers are required."""
    if os.environ.get(REQUIRED):
        pytest.fail(why)
    pytest.skip(why)


def free_port() -> int:
    """A TCP port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """One server's process, to be stopped, frozen and brought back."""

    def __init__(
        self, command: Sequence[str | Path], folder: Path, ready: Callable[[], bool]
    ) -> None:
        """Start nothing yet; ready: whether it answers."""
        self._command = [str(part) for part in command]
        self._folder = folder
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has printed."""
        return (self._folder / "server.log").read_text(errors="replace")

    def start(self) -> None:
        """Run it and wait until it answers."""
        self.begin()
        self.await_ready()

    def begin(self) -> None:
        """Run it."""
        libraries = LAID / "debian" / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
        environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": str(libraries)}
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no lock
            )

    def await_ready(self) -> None:
        """Wait until it answers; fails the test when it does not."""
        end = time.monotonic() + _PATIENCE
        while not self._ready():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                pytest.fail(f"{self._command[0]} did not start:\n{self.log[-2000:]}")
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Freeze it with SIGSTOP, let it go on with SIGCONT."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running(
    command: Sequence[str | Path], folder: Path, ready: Callable[[], bool]
) -> Iterator[Server]:
    """A server for the time of a test; what it keeps goes with `folder`."""
    server = Server(command, folder, ready)
    server.start()
    try:
        yield server
    finally:
        server.kill()
