"""What the embedder has read is kept from run to run, text by text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.traffic.logs import silent

from askonce.errors import ConfigError
from askonce.lab.traffic.readings import KeptReadings
from askonce.lab.traffic.spool import Spool
from askonce.testing.embedders import HashingEmbedder, TokenEmbedder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    """Not again in the next run, even when the log has grown."""
    texts = ["one", "two", "three"]
    embedder = TokenEmbedder()
    first = KeptReadings(embedder, tmp_path / "cache")
    await first.fill([0, 1], texts.__getitem__, silent)
    first.close()
    again = KeptReadings(embedder, tmp_path / "cache")
    await again.fill([0, 1, 2], texts.__getitem__, silent)
    assert embedder.embedded == texts
    found = again.get("two")
    assert found is not None
    assert found.vector.tolist() == (await embedder.read("two")).vector.tolist()
    assert found.tokens
    assert again.get("four") is None
    again.close()


async def test_too_long_texts_are_known_as_such(tmp_path: Path) -> None:
    """They are not tried again, and have no reading."""
    embedder = HashingEmbedder(window=3)
    kept = KeptReadings(embedder, tmp_path)
    await kept.fill([0, 0], lambda _: "long text", silent)
    assert kept.get("long text") is None
    assert kept.took == []
    kept.close()


async def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A file in its place is no folder."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--cache .*file"):
        KeptReadings(HashingEmbedder(), tmp_path / "file")


async def test_texts_on_disk_come_back_as_they_were() -> None:
    """Equal ones have one number; half a surrogate pair is no harm."""
    spool = Spool()
    numbers = [spool.add(text) for text in ("a", "", "\ud800", "a", "é")]
    assert numbers == [0, 1, 2, 0, 3]
    assert [spool.get(number) for number in (3, 0, 2, 1)] == ["é", "a", "\ud800", ""]
    assert spool.get(spool.add("later")) == "later"
    assert len(spool) == 5
    spool.close()
