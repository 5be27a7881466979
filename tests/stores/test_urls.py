"""Which store a URL opens."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import TYPE_CHECKING

import pytest

from askonce.errors import ConfigError
from askonce.stores import urls
from askonce.stores.memory import MemoryStore, open_memory
from askonce.stores.sqlite.store import SqliteStore
from askonce.testing import FakeClock, RecordingSink

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.ports import Store

pytestmark = pytest.mark.anyio


def opened(url: str, data_dir: Path) -> Store:
    """What the URL opens."""
    return urls.open_store(
        url, clock=FakeClock(), sink=RecordingSink(), max_bytes=1000, data_dir=data_dir
    )


@pytest.mark.parametrize(
    ("url", "kind"), [("memory", MemoryStore), ("sqlite", SqliteStore), ("sqlite:", SqliteStore)]
)
async def test_opens_what_is_built_in(url: str, kind: type[Store], tmp_path: Path) -> None:
    """A scheme alone is enough."""
    store = opened(url, tmp_path)
    assert type(store) is kind
    await store.close()


def test_names_the_known_when_asked_for_another(tmp_path: Path) -> None:
    """An unknown scheme is a mistake in the configuration, and the message helps."""
    with pytest.raises(ConfigError, match=r"'mongo'; known are: .*memory, .*sqlite"):
        opened("mongo://host", tmp_path)


def test_opens_a_third_partys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheme may come from an installed package's entry point."""
    point = EntryPoint(
        name="theirs", value=f"{open_memory.__module__}:open_memory", group=urls.ENTRY_POINTS
    )

    def installed(*, group: str) -> EntryPoints:
        return EntryPoints([point]).select(group=group)

    monkeypatch.setattr(urls, "entry_points", installed)
    assert isinstance(opened("theirs://host", tmp_path), MemoryStore)
    with pytest.raises(ConfigError, match=r"memory, .*sqlite, theirs"):
        opened("other", tmp_path)
