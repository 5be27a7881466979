"""Who hangs up is noticed, and nobody else is cancelled for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from askonce.gateway.hangup import WhileConnected
from askonce.gateway.http import ClientGone

if TYPE_CHECKING:
    from askonce.gateway.http import Message

pytestmark = pytest.mark.anyio


class Line:
    """A connection to a caller who may hang up."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.listening = 0

    async def receive(self) -> Message:
        self.listening += 1
        try:
            await self.gone.wait()
        finally:
            self.listening -= 1
        return {"type": "http.disconnect"}


async def guarded(line: Line, error: Exception | None = None) -> None:
    """A block that raises, or waits for ever, while a caller is watched."""
    async with WhileConnected(line.receive, delay=0) as caller:
        caller.watch()
        if error is not None:
            raise error
        await asyncio.Event().wait()


async def test_a_hang_up_cancels_the_block() -> None:
    """The block ends at its await, and ClientGone comes out; the task itself lives on."""
    line = Line()
    asyncio.get_running_loop().call_later(0.01, line.gone.set)
    with pytest.raises(ClientGone):
        await guarded(line)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)
    assert line.listening == 0


async def test_the_watch_may_begin_before_the_block() -> None:
    """Calling `watch` on the guard outside of its block is enough."""
    line = Line()
    guard = WhileConnected(line.receive, delay=0)
    guard.watch()
    line.gone.set()

    async def wait() -> None:
        async with guard:
            await asyncio.Event().wait()

    with pytest.raises(ClientGone):
        await wait()


async def test_a_quick_block_never_listens() -> None:
    """A block that ends before the delay costs no task."""
    line = Line()
    async with WhileConnected(line.receive, delay=5) as caller:
        caller.watch()
        await asyncio.sleep(0)
    assert line.listening == 0


async def test_nobody_listens_behind_the_block() -> None:
    """When the block ends its watcher has ended too."""
    line = Line()
    before = len(asyncio.all_tasks())
    async with WhileConnected(line.receive, delay=0) as caller:
        caller.watch()
        await asyncio.sleep(0.01)
        assert line.listening == 1
    assert line.listening == 0
    assert len(asyncio.all_tasks()) == before


async def test_errors_of_the_block_pass() -> None:
    """What the block raises comes out as it is."""
    with pytest.raises(LookupError):
        await guarded(Line(), LookupError())


async def test_cancelling_from_outside_is_no_hang_up() -> None:
    """A cancelled task is cancelled, not told that its caller is gone."""
    line = Line()
    task = asyncio.create_task(guarded(line))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert line.listening == 0
