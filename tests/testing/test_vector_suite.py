"""The suite for vector indexes catches those that break a promise."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from askonce.ports import IndexedText, Neighbour
from askonce.testing import FakeClock, RecordingSink
from askonce.testing.shared_vectors import check_shared_index
from askonce.testing.vectors import HERE, check_vector_index
from askonce.units import Cosine, UnixTime
from askonce.vectors.local import LocalIndex

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from askonce.ports import Vector

pytestmark = pytest.mark.anyio


class OnePartition(LocalIndex):
    """An index that mixes all partitions."""

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Add to the one partition."""
        await super().add(HERE, item, vector)

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """Search the one partition."""
        return await super().search(HERE, vector, k=k)


class Immortal(LocalIndex):
    """An index whose items do not die."""

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Add with a life that does not end, and say what was asked."""
        forever = IndexedText(item.key, item.text, UnixTime(item.expires_at + 1e6))
        await super().add(partition, forever, vector)


class Worst(LocalIndex):
    """An index that gives the worst first."""

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """Turn the order round."""
        return (await super().search(partition, vector, k=k))[::-1]


class Unscaled(LocalIndex):
    """An index that gives distances for scores."""

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """One less the cosine."""
        found = await super().search(partition, vector, k=k)
        return [Neighbour(Cosine(1.0 - near.score), near.item) for near in found]


class Miscounting(LocalIndex):
    """An index that counts what it was asked to remove."""

    async def delete(self, keys: Sequence[bytes]) -> int:
        """The number of keys."""
        await super().delete(keys)
        return len(keys)


class Tokenless(LocalIndex):
    """An index that keeps no tokens."""

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Add without them."""
        await super().add(partition, IndexedText(item.key, item.text, item.expires_at), vector)


class Undropping(LocalIndex):
    """An index whose partitions stay."""

    async def drop_partition(self, partition: bytes) -> int:
        """Drop none."""
        return 0


BROKEN = [OnePartition, Immortal, Worst, Unscaled, Miscounting, Tokenless, Undropping]


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_broken_index_is_caught(tmp_path: Path, kind: type[LocalIndex]) -> None:
    """Each break of a promise fails the suite."""
    clock = FakeClock()

    def make() -> LocalIndex:
        return kind(
            tmp_path / "vectors.db",
            embedder="e",
            dim=8,
            max_entries=100,
            clock=clock,
            sink=RecordingSink(),
        )

    with pytest.raises(AssertionError):
        await check_vector_index(make, clock, dim=8)


def local(path: Path, clock: FakeClock, embedder: str = "e") -> LocalIndex:
    """An index over one file."""
    return LocalIndex(
        path, embedder=embedder, dim=8, max_entries=100, clock=clock, sink=RecordingSink()
    )


async def test_indexes_that_share_nothing_are_caught(tmp_path: Path) -> None:
    """Two files are not one place."""
    clock, number = FakeClock(), itertools.count()
    with pytest.raises(AssertionError, match="what the other added"):
        await check_shared_index(lambda: local(tmp_path / f"{next(number)}", clock), clock, dim=8)


async def test_embedders_that_meet_are_caught(tmp_path: Path) -> None:
    """One name for two embedders mixes their vectors."""
    clock = FakeClock()

    def make() -> LocalIndex:
        return local(tmp_path / "one", clock)

    with pytest.raises(AssertionError, match="never meet"):
        await check_shared_index(make, clock, dim=8, make_other=make)


async def test_what_outlives_a_drop_is_caught(tmp_path: Path) -> None:
    """A drop that drops nothing leaves items behind."""
    clock = FakeClock()

    async def drop() -> None:
        pass

    with pytest.raises(AssertionError, match="dropped"):
        await check_shared_index(lambda: local(tmp_path / "one", clock), clock, dim=8, drop=drop)
