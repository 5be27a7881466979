"""A real embedding API, from the text to the vector."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from askonce.clock import SystemClock
from askonce.embedders import http
from askonce.embedders.http import Api, HttpEmbedder
from askonce.errors import TextTooLong
from askonce.testing import RecordingSink
from askonce.testing.embedders import check_embedder

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take seconds."""
    monkeypatch.setattr(http, "PATIENCE", 30.0)


SERVER = Path(__file__).with_name("embedding_server.py")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The base URL of a running server."""
    pytest.importorskip("xllamacpp")
    source = str(Path(__file__).resolve().parents[2] / "src")
    child = subprocess.Popen(
        [sys.executable, str(SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": source},
        text=True,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    with contextlib.closing(child.stdout), contextlib.closing(child.stdin):
        try:
            yield child.stdout.readline().strip()
        finally:
            child.kill()
            child.wait()


async def test_it_keeps_the_promises(url: str) -> None:
    """It is an Embedder over a server that is none of ours."""

    async def make() -> HttpEmbedder:
        api = Api(url=url, model="smollm2", window=512)
        return await HttpEmbedder.open(api, clock=SystemClock(), sink=RecordingSink())

    await check_embedder(make, window=512)


async def test_long_texts_are_read_whole_or_not_at_all(url: str) -> None:
    """One that fits is embedded, one that does not is told."""
    api = Api(url=url, model="smollm2", window=200)
    embedder = await HttpEmbedder.open(api, clock=SystemClock(), sink=RecordingSink())
    try:
        assert (await embedder.embed("a word or two " * 20)).shape == (embedder.dim,)
        with pytest.raises(TextTooLong):
            await embedder.embed("a word or two " * 200)
    finally:
        await embedder.close()
