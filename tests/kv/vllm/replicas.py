"""vLLM engines for tests: each a group of processes, gone with the test."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kv.vllm.tiny import VOCABULARY
from tests.servers.redis import PATIENCE, until

from askonce.orphan import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.servers.redis import Redis

ROOT = Path(__file__).resolve().parents[3]
PYTHON = os.environ.get("VLLM_PYTHON", sys.executable)
CORES = sorted(os.sched_getaffinity(0))
ON_ENGINES = [
    pytest.mark.slow,
    pytest.mark.servers,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),
]
"""Marks of every module whose tests start engines."""
_HEAD = 33
"""Tokens of a prompt of one block, which only shows whether an engine stores."""
START = 240.0
"""Seconds that an engine may take to start; three are usual, on a machine that is free."""


def surroundings() -> dict[str, str]:
    """The environment of an engine: nothing is asked of the network, a GiB for its KV cache."""
    return {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "OMP_NUM_THREADS": "1",
    }


class Replica:
    """One engine."""

    def __init__(
        self,
        told: dict[str, Any],
        folder: Path,
        *,
        processes: bool = False,
        beside: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; processes: with scheduler and worker in processes of their own.

        beside: variables of its environment, over the usual ones.
        """
        out, answers = os.pipe()
        environment = {
            **surroundings(),
            "ANSWERS": str(answers),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "1" if processes else "0",
            **(beside or {}),
        }
        if told.get("tensor_parallel_size", 1) > 1:
            environment["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, CORES[:2]))
        self._log = folder / f"engine-{time.monotonic_ns()}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [PYTHON, str(Path(__file__).with_name("engine.py")), json.dumps(told)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=(answers,),
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no lock
            )
        os.close(answers)
        self._out = out
        self._kept = b""
        self.ready = self._answer(START)["ready"]

    @property
    def pid(self) -> int:
        """Of its first process, whose session holds all of them."""
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log.read_text(errors="replace")

    def tell(self, do: str, *, patience: float = 60.0, **arguments: Any) -> dict[str, Any]:
        """Have it do something, and wait so many seconds at most for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer(patience)

    def kill(self) -> None:
        """End all of its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        os.close(self._out)

    def _answer(self, patience: float) -> dict[str, Any]:
        end = time.monotonic() + patience
        while b"\n" not in self._kept:
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self._out, 1 << 20) if ready else b""
            if not piece:
                if ready:
                    self._process.wait(20)
                why = "gave no answer" if not ready else "ended"
                pytest.fail(f"the engine {why}:\n{self.log[-6000:]}")
            self._kept += piece
        line, _, self._kept = self._kept.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def client(store: Redis) -> Iterator[Any]:
    """A client of the store, as an intruder has."""
    import redis as driver

    with driver.Redis(port=store.port) as connection:
        yield connection


def blocks(connection: Any) -> list[bytes]:
    """The names of the KV blocks in a store."""
    return sorted(
        key for key in connection.keys("ak1:*") if b"epoch" not in key and key[-1:] != b"+"
    )


@contextmanager
def stored(store: Redis, count: int, *, patience: float = PATIENCE) -> Iterator[None]:
    """So many blocks more than before are stored at its end: an engine answers before that."""
    with client(store) as connection:
        wanted = len(blocks(connection)) + count
        yield
        until(lambda: len(blocks(connection)) >= wanted, patience=patience)


def await_sharing(engine: Replica, store: Redis, *, shards: int = 1) -> None:
    """Until the engine shares what it computes: while it starts it may be too busy to."""
    chance = random.Random(engine.pid)
    end = time.monotonic() + START
    while time.monotonic() < end:
        prompt = [chance.randrange(3, VOCABULARY) for _ in range(_HEAD)]
        with contextlib.suppress(AssertionError), stored(store, shards, patience=2.0):
            engine.tell("generate", prompts=[prompt], patience=100)
            return
    pytest.fail(f"the engine shares nothing:\n{engine.log[-6000:]}")


def transfer(url: str, *, role: str = "kv_both", **extra: Any) -> dict[str, Any]:
    """vLLM's own configuration of the connector, which loads whatever is found."""
    return {
        "kv_connector": "AskOnceConnector",
        "kv_connector_module_path": "askonce.kv.vllm",
        "kv_role": role,
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"url": url, "gate": "off", "audit": 0, **extra},
    }


@contextmanager
def replica(
    model: Path,
    folder: Path,
    connector: dict[str, Any] | None,
    *,
    processes: bool = False,
    beside: Mapping[str, str] | None = None,
    **more: Any,
) -> Iterator[Replica]:
    """An engine for the time of a test."""
    told = {"model": str(model), "transfer": connector, **more}
    engine = Replica(told, folder, processes=processes, beside=beside)
    try:
        yield engine
    finally:
        engine.kill()
