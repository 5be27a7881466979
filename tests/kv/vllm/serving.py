"""vLLM's OpenAI-compatible server for tests: a group of processes, gone with the test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.kv.vllm.replicas import PYTHON, START, surroundings
from tests.servers.process import free_port

from askonce.orphan import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MODEL = "tiny"
_FLAGS = ("--dtype", "float32", "--enforce-eager", "--block-size", "32", "--max-num-seqs", "16")
_PLAIN = ("--max-model-len", "4096", "--skip-tokenizer-init")


class Serving:
    """A server that answers prompts of token ids."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        """It runs; whether it answers is another matter."""
        self._base = f"http://127.0.0.1:{port}"
        self._process = process
        self._log = log

    def await_ready(self) -> None:
        """Wait until it answers; fails the test when it does not."""
        end = time.monotonic() + START
        while True:
            with contextlib.suppress(OSError):
                self._get("/health")
                return
            if self._process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"the server did not start:\n{self._log.read_text()[-6000:]}")
            time.sleep(0.2)

    def complete(self, prompt: Sequence[int], tokens: int = 1) -> dict[str, Any]:
        """One greedy completion."""
        told = {
            "model": MODEL,
            "prompt": list(prompt),
            "max_tokens": tokens,
            "temperature": 0,
            "return_token_ids": True,
            "ignore_eos": True,
        }
        request = urllib.request.Request(
            f"{self._base}/v1/completions",
            json.dumps(told).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                said: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as failure:
            pytest.fail(f"{failure}: {failure.read()[:2000]!r}")
        return said

    def scrape(self) -> str:
        """What a Prometheus gets."""
        return self._get("/metrics")

    def kill(self) -> None:
        """End all of its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self._base}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
        return text


@contextmanager
def serving(model: Path, folder: Path, connector: dict[str, Any]) -> Iterator[Serving]:
    """A server for the time of a test."""
    port = free_port()
    name = ("--model", str(model), "--served-model-name", MODEL)
    where = ("--host", "127.0.0.1", "--port", str(port))
    log = folder / f"server-{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(PYTHON, "-m", "vllm.entrypoints.openai.api_server", *name, *where),
                *(*_FLAGS, *_PLAIN, "--kv-transfer-config", json.dumps(connector)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=surroundings(),
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no lock
        )
    server = Serving(port, process, log)
    try:
        server.await_ready()
        yield server
    finally:
        server.kill()
