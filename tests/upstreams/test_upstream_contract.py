"""Both upstreams keep the promises of the port."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from askonce.config import UpstreamConfig
from askonce.testing.engine import FakeEngine
from askonce.testing.upstreams import ScriptedUpstream, check_upstream
from askonce.upstreams.http import HttpUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from askonce.ports import Upstream
    from askonce.testing.answers import Asked, Script

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def over_http(*scripts: Script) -> AsyncIterator[tuple[Upstream, list[Asked]]]:
    """An HttpUpstream in front of a fake engine."""
    async with FakeEngine(*scripts) as engine:
        config = UpstreamConfig(url=engine.url, first_byte_timeout=0.2, idle_timeout=0.2)
        upstream = HttpUpstream(config)
        try:
            yield upstream, engine.asked
        finally:
            await upstream.close()


@asynccontextmanager
async def in_memory(*scripts: Script) -> AsyncIterator[tuple[Upstream, list[Asked]]]:
    """A ScriptedUpstream."""
    upstream = ScriptedUpstream(*scripts)
    yield upstream, upstream.asked


async def test_http_upstream_keeps_the_promises() -> None:
    """HttpUpstream passes the whole suite in front of a real socket."""
    await check_upstream(over_http)


async def test_scripted_upstream_keeps_the_promises() -> None:
    """The fake passes the very suite that the real one passes."""
    await check_upstream(in_memory)
