"""Children end with the process that made them, at any moment of their start."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap

import pytest

from askonce.orphan import worker_dies_with_server

SERVER = """
    import multiprocessing, sys, time
    from askonce.orphan import worker_dies_with_server

    def work():
        sys.platform = {platform!r}
        worker_dies_with_server()
        print("started", flush=True)
        time.sleep(600)

    multiprocessing.get_context("fork").Process(target=work).start()
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("platform", [sys.platform, "another"])
def test_a_worker_ends_with_its_server(platform: str) -> None:
    """A server that is killed takes its workers along, on Linux and elsewhere."""
    script = textwrap.dedent(SERVER).format(platform=platform)
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "started\n"
        server.kill()
        assert server.stdout.read() == ""  # ends when nobody is left who could write


def test_a_worker_whose_server_is_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that starts after its server has ended does not go on."""

    class Gone:
        pid = -1

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(multiprocessing, "parent_process", Gone)
    monkeypatch.setattr("askonce.orphan.die_with_parent", lambda: None)
    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(SystemExit, match="1"):
        worker_dies_with_server()


def test_what_was_not_spawned_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of one process may outlive the shell that started it."""

    def never() -> None:
        raise AssertionError

    monkeypatch.setattr("askonce.orphan.die_with_parent", never)
    worker_dies_with_server()
