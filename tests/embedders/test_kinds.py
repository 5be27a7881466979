"""Which embedder a configuration opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.embedders.test_http_embedder import answer

from askonce.config import SemanticConfig
from askonce.embedders.kinds import open_embedder
from askonce.errors import ConfigError
from askonce.ports import SupportsTokens
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.ports import Embedder

pytestmark = pytest.mark.anyio


async def opened(tmp_path: Path, **settings: Any) -> Embedder:
    """What these settings mean."""
    return await open_embedder(
        SemanticConfig(**settings), data_dir=tmp_path, clock=FakeClock(), sink=RecordingSink()
    )


async def test_a_url_is_an_api_with_the_key_of_a_file(tmp_path: Path) -> None:
    """The key goes into the header; an unreadable file is told."""
    (tmp_path / "key").write_text("sk-filed\n")
    async with FakeEngine(otherwise=answer) as engine:
        settings = {"embedder": engine.url, "model": "m", "prefix": "query: "}
        embedder = await opened(tmp_path, **settings, api_key_file=str(tmp_path / "key"))
        await embedder.embed("text")
        assert engine.asked[-1].header(b"authorization") == b"Bearer sk-filed"
        assert engine.asked[-1].json["input"] == ["query: text"]
        assert not isinstance(embedder, SupportsTokens)
        await embedder.close()
        with pytest.raises(ConfigError, match="cannot be read"):
            await opened(tmp_path, **settings, api_key_file=str(tmp_path / "none"))


@pytest.mark.slow
async def test_the_default_gives_tokens_and_remembers(tmp_path: Path) -> None:
    """ONNX, behind the memo."""
    embedder = await opened(tmp_path)
    assert isinstance(embedder, SupportsTokens)
    assert await embedder.embed("a text") is (await embedder.read("a text")).vector
    await embedder.close()


async def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    """In words."""
    with pytest.raises(ConfigError, match="'bert'"):
        await opened(tmp_path, embedder="bert")
