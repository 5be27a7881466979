"""Every store keeps every promise of its ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askonce.stores.memory import MemoryStore
from askonce.stores.sqlite.store import SqliteStore
from askonce.testing import (
    FakeClock,
    RecordingSink,
    check_store,
    check_store_epoch,
    check_store_owners,
    check_store_tags,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    AnyStore = MemoryStore | SqliteStore

pytestmark = pytest.mark.anyio

BOUND = 64 * 1024 * 1024


@pytest.fixture
def clock() -> FakeClock:
    """The clock that the stores and the suites share."""
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def make_store(
    request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path
) -> Callable[[], AnyStore]:
    """Makes a store of one kind; all of one test share a file."""

    def make() -> AnyStore:
        sink = RecordingSink()
        if request.param == "memory":
            return MemoryStore(clock=clock, sink=sink, max_bytes=BOUND)
        return SqliteStore(tmp_path / "exact.sqlite3", clock=clock, sink=sink, max_bytes=BOUND)

    return make


async def test_keeps_the_promises_of_store(
    make_store: Callable[[], AnyStore], clock: FakeClock
) -> None:
    """It is a Store."""
    await check_store(make_store, clock)


async def test_keeps_the_promises_of_tags(
    make_store: Callable[[], AnyStore], clock: FakeClock
) -> None:
    """It is a SupportsTags."""
    await check_store_tags(make_store, clock)


async def test_keeps_the_promises_of_epoch(
    make_store: Callable[[], AnyStore], clock: FakeClock
) -> None:
    """It is a SupportsEpoch."""
    await check_store_epoch(make_store, clock)


async def test_keeps_the_promises_of_owners(make_store: Callable[[], AnyStore]) -> None:
    """It is a SupportsOwners."""
    await check_store_owners(make_store)
