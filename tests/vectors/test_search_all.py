"""Searching all partitions at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askonce.ports import IndexedText
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.vectors import key_of, unit
from askonce.units import Cosine, UnixTime
from askonce.vectors.local import LocalIndex

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_it_finds_in_every_partition_down_to_the_floor(tmp_path: Path) -> None:
    """Best first, no more than asked for, dead items left out."""
    clock = FakeClock()
    index = LocalIndex(
        tmp_path / "v.sqlite3",
        embedder="e",
        dim=4,
        max_entries=10_000,
        clock=clock,
        sink=RecordingSink(),
    )
    assert await index.search_all(unit(4, 1), floor=Cosine(0.5), limit=5) == []
    for number in range(1200):
        name, lives = f"n{number}", clock.now() + (1 if number == 7 else 100)
        item = IndexedText(key_of(name), name, UnixTime(lives))
        near = {3: 0.1, 7: 0.0, 1100: 0.2}.get(number, 9.0)
        await index.add(key_of(f"p{number % 3}"), item, unit(4, 1, near))
    clock.advance(2)
    found = await index.search_all(unit(4, 1), floor=Cosine(0.9), limit=10)
    assert [each.item.text for each in found] == ["n3", "n1100"]
    best = await index.search_all(unit(4, 1), floor=Cosine(0.05), limit=1)
    assert [each.item.text for each in best] == ["n3"]
    await index.close()
