"""The fake upstream does what a test tells it, without a clock."""

from __future__ import annotations

import asyncio

import pytest

from askonce.errors import UpstreamTimeout
from askonce.ports import UpstreamRequest
from askonce.testing.answers import Reply
from askonce.testing.upstreams import ScriptedUpstream

pytestmark = pytest.mark.anyio

GET = UpstreamRequest("GET", "/v1/x", [], b"")
THREE = Reply(pieces=(b"1", b"2", b"3"))


async def test_answers_can_be_held() -> None:
    """No headers come until `open` is set; the request is seen before."""
    upstream = ScriptedUpstream(THREE)
    upstream.open.clear()
    task = asyncio.create_task(upstream.send(GET))
    await upstream.asked_times(1)
    assert not task.done()
    upstream.open.set()
    response = await task
    assert await response.read() == b"123"
    await response.close()
    assert (upstream.live, upstream.dropped) == (0, 0)


async def test_pieces_can_be_counted_out() -> None:
    """With a meter each piece, and the end, waits to be let through."""
    upstream = ScriptedUpstream(THREE)
    upstream.meter()
    response = await upstream.send(GET)
    got: list[bytes] = []

    async def read() -> None:
        async for piece in response.chunks():
            got.append(piece)  # noqa: PERF401 - what came so far is looked at meanwhile

    task = asyncio.create_task(read())
    upstream.let(2)
    for _ in range(5):
        await asyncio.sleep(0)
    assert got == [b"1", b"2"]
    assert upstream.live == 1
    upstream.let(2)
    await task
    assert got == [b"1", b"2", b"3"]
    await response.close()


async def test_closing_early_is_counted() -> None:
    """An answer closed before its end was dropped, once."""
    upstream = ScriptedUpstream(THREE)
    response = await upstream.send(GET)
    await response.close()
    await response.close()
    assert (upstream.live, upstream.dropped) == (0, 1)


async def test_a_patient_upstream_hangs() -> None:
    """It hangs until cancelled; an impatient one has timed out already."""
    hang = Reply(fault="hang_before")
    task = asyncio.create_task(ScriptedUpstream(hang, patient=True).send(GET))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    upstream = ScriptedUpstream()
    upstream.script(hang)
    with pytest.raises(UpstreamTimeout):
        await upstream.send(GET)
