"""Memcached keeps every promise of the ports, with one server and with three."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.servers.memcached import cluster, url_of

from askonce.clock import SystemClock
from askonce.stores.memcached.ring import parse_url
from askonce.stores.memcached.store import MemcachedStore
from askonce.testing import RecordingSink, check_store, check_store_epoch, check_store_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]


@pytest.fixture(params=[1, 3])
def make_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], MemcachedStore]]:
    """Makes stores over the same servers."""
    with ExitStack() as stack:
        url = url_of(cluster(stack, tmp_path, request.param))
        yield lambda: MemcachedStore(parse_url(url), clock=SystemClock(), sink=RecordingSink())


async def test_keeps_the_promises_of_store(make_store: Callable[[], MemcachedStore]) -> None:
    """It is a Store."""
    await check_store(make_store)


async def test_keeps_the_promises_of_tags(make_store: Callable[[], MemcachedStore]) -> None:
    """It is a SupportsTags."""
    await check_store_tags(make_store)


async def test_keeps_the_promises_of_epoch(make_store: Callable[[], MemcachedStore]) -> None:
    """It is a SupportsEpoch."""
    await check_store_epoch(make_store)
