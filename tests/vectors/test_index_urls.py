"""Which vector index a URL opens."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from typing import TYPE_CHECKING

import pytest
from tests.vectors.places import opens

from askonce.errors import ConfigError, MissingExtra
from askonce.testing import FakeClock
from askonce.vectors import urls
from askonce.vectors.binding import Binding
from askonce.vectors.local import LocalIndex, open_local

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "url", ["local", "local://{folder}/x.db", "faiss", "faiss://{folder}/x.db"]
)
async def test_opens_what_is_built_in(url: str, tmp_path: Path) -> None:
    """A scheme alone is enough, or an absolute path."""
    index = opens(url.format(folder=tmp_path), FakeClock(), tmp_path)()
    assert isinstance(index, LocalIndex)
    assert await index.count() == 0
    assert (tmp_path / ("x.db" if "x.db" in url else "vectors.sqlite3")).exists()
    await index.close()


@pytest.mark.parametrize("url", ["local://name", "local:", "local:x"])
def test_refuses_half_a_place(url: str, tmp_path: Path) -> None:
    """A relative path would mean another file from another folder."""
    with pytest.raises(ConfigError, match="absolute path"):
        opens(url, FakeClock(), tmp_path)()


def test_names_the_known_when_asked_for_another(tmp_path: Path) -> None:
    """An unknown scheme is a mistake in the configuration, and the message helps."""
    with pytest.raises(ConfigError, match=r"'pinecone'; known are: .*local.*redis"):
        opens("pinecone://host", FakeClock(), tmp_path)()


async def test_opens_a_third_partys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheme may come from an installed package's entry point."""
    value = f"{open_local.__module__}:open_local"
    point = EntryPoint(name="theirs", value=value, group=urls.ENTRY_POINTS)

    def installed(*, group: str) -> EntryPoints:
        return EntryPoints([point]).select(group=group)

    monkeypatch.setattr(urls, "entry_points", installed)
    index = opens(f"theirs://{tmp_path}/x", FakeClock(), tmp_path)()
    assert isinstance(index, LocalIndex)
    await index.close()


EXTRAS = {
    "redis://h": ("redis", "redis"),
    "redisearch://h": ("redis", "redis"),
    "postgresql://h/d": ("asyncpg", "pgvector"),
    "milvus://h": ("pymilvus", "milvus"),
    "faiss": ("faiss", "faiss"),
}


@pytest.mark.parametrize("url", EXTRAS)
async def test_a_missing_driver_names_its_extra(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has not installed a driver is told how."""
    package, extra = EXTRAS[url]
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "askonce.vectors.faiss_graph", raising=False)
    with pytest.raises(MissingExtra, match=rf"{package} is not .* askonce\[{extra}\]"):
        opens(url, FakeClock(), tmp_path)()


def test_without_numpy_the_semantic_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every index needs it."""
    monkeypatch.setitem(sys.modules, "askonce.vectors.qdrant", None)
    with pytest.raises(MissingExtra, match=r"askonce\[semantic\]"):
        opens("qdrant://h", FakeClock(), tmp_path)()


def test_an_embedder_and_a_dimension_are_in_the_name(tmp_path: Path) -> None:
    """Another of either gives another name, each short enough for any server."""
    names = {
        Binding(embedder, dim, 1, tmp_path).name("askonce")
        for embedder in ("one", "two" * 1000)
        for dim in (8, 16)
    }
    assert len(names) == 4
    assert all(len(name) < 63 for name in names)


def test_options_are_taken_out_of_a_url() -> None:
    """What AskOnce does not know is the driver's."""
    options = urls.Options("redis+unix:///a/s.sock?db=2&quant=none&prefix=x_1", ("quant",))
    assert options.url == "redis+unix:///a/s.sock?db=2"
    assert options.prefix == "x_1"
    assert options.choice("quant", "q8", "none") == "none"
    assert options.number("connections", 5) == 5
