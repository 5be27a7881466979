"""The embedded engine beside a server that blocks: on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

import msgspec

from askonce.config import Config, UpstreamConfig
from askonce.upstreams.embedded import MODEL_SHA256, EmbeddedEngine, embedded_command

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

Result = TypeVar("Result")


def report(line: str) -> None:
    """Show progress beside what the command prints."""
    print(line, file=sys.stderr, flush=True)


def embedded_upstream(config: Config, url: str) -> UpstreamConfig:
    """The embedded engine as an upstream: one that a key tells from every other."""
    return UpstreamConfig(
        url=url, name="embedded", revision=config.engine.model or MODEL_SHA256[:16]
    )


@contextlib.contextmanager
def with_engine(config: Config) -> Iterator[Config]:
    """The configuration with an upstream: the embedded engine where none is configured."""
    if config.upstream:
        yield config
        return
    engine = EmbeddedEngine(embedded_command(config.engine), report=report)
    with _loop_in_thread() as loop:
        try:
            _run(loop, engine.start())
            upstream = embedded_upstream(config, engine.url)
            yield msgspec.structs.replace(config, upstream=(upstream,))
        finally:
            _run(loop, engine.stop())


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[None, None, Result]) -> Result:
    return asyncio.run_coroutine_threadsafe(work, loop).result()


@contextlib.contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """The thread lives as long as the engine: Linux ends a child with the thread that made it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="askonce-engine", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
