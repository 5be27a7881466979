"""Milvus in its embedded form: the promises, drops and bounds."""

from __future__ import annotations

import base64
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest
from pymilvus import MilvusClient
from tests.vectors.places import DIM, opens

from askonce.errors import ConfigError, VectorIndexError
from askonce.ports import IndexedText, SupportsPartitionDrop
from askonce.testing import FakeClock
from askonce.testing.shared_vectors import check_shared_index
from askonce.testing.vectors import HERE, Bench, check_vector_index, key_of, unit
from askonce.units import UnixTime
from askonce.vectors import milvus
from askonce.vectors.milvus import MilvusIndex

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def clock() -> FakeClock:
    """The clock of all indexes of a test."""
    return FakeClock()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A fresh file of milvus-lite."""
    return f"milvus://{tmp_path}/milvus.db"


async def test_keeps_every_promise(url: str, clock: FakeClock, tmp_path: Path) -> None:
    """It is a VectorIndex."""
    assert issubclass(MilvusIndex, SupportsPartitionDrop)
    await check_vector_index(opens(url, clock, tmp_path), clock, dim=DIM)


async def test_clients_share_it_and_mend_it(url: str, clock: FakeClock, tmp_path: Path) -> None:
    """Two clients agree, another embedder stays apart, and what was dropped is made anew."""
    operator = MilvusClient(f"{tmp_path}/milvus.db")

    async def drop() -> None:
        for name in operator.list_collections():
            operator.drop_collection(name)

    await check_shared_index(
        opens(url, clock, tmp_path),
        clock,
        dim=DIM,
        drop=drop,
        make_other=opens(url, clock, tmp_path, embedder="other"),
    )
    operator.close()


async def test_the_first_to_die_leave_past_the_bound(
    url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Now and then the surplus is taken out, and the items with the longest life stay."""
    index = opens(url, clock, tmp_path, max_entries=3)()
    bench = Bench(index, clock, DIM)
    for number in range(257):
        await bench.add(str(number), 1.0, number / 100, life=100.0 + number)
    assert await index.count() == 3
    assert sorted(await bench.names(1.0)) == ["254", "255", "256"]
    await index.close()


@pytest.mark.parametrize("text", ["\ud800", "".join(map(chr, range(0x4E00, 0x9F00))) * 3])
async def test_what_it_cannot_keep_is_refused(
    url: str, clock: FakeClock, tmp_path: Path, text: str
) -> None:
    """A text that Milvus cannot hold leaves nothing behind."""
    index = opens(url, clock, tmp_path)()
    item = IndexedText(key_of("a"), text, UnixTime(clock.now() + 9))
    with pytest.raises(VectorIndexError):
        await index.add(HERE, item, unit(DIM, 1.0))
    assert await index.count() == 0
    await index.close()


async def test_a_server_that_is_not_there(clock: FakeClock, tmp_path: Path) -> None:
    """No connection is a VectorIndexError."""
    index = opens("milvus://127.0.0.1:9", clock, tmp_path)()
    with pytest.raises(VectorIndexError):
        await index.count()
    await index.close()


@pytest.mark.parametrize("url", ["milvus:///no/extension", "milvuss:///x.db"])
async def test_a_wrong_url_is_refused(clock: FakeClock, tmp_path: Path, url: str) -> None:
    """A mistake in the URL is a ConfigError, before anything connects."""
    with pytest.raises(ConfigError):
        opens(url, clock, tmp_path)()


async def test_a_text_that_grows_without_end_is_no_row() -> None:
    """Whoever may write to the server may have put it there."""
    small = "z" + base64.b85encode(zlib.compress(bytes(30 << 20), 9)).decode()
    fields = {"part": "p", "id": "00" * 32, "ends": 1.0, "text": small, "tokens": "", "vector": [1]}
    tracemalloc.start()
    assert milvus._row(fields, "p") is None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20
