"""Deadlines that share a timer."""

from __future__ import annotations

import asyncio

import pytest

from askonce.deadline import Deadlines

pytestmark = pytest.mark.anyio

TINY = 0.005
LONG = 60.0


async def forever(deadlines: Deadlines) -> None:
    """Wait for what never comes, inside a span."""
    with deadlines.span():
        await asyncio.Event().wait()


async def test_a_block_past_its_deadline_is_given_up() -> None:
    """The block is cancelled, TimeoutError comes out, and the task is not left cancelled."""
    with pytest.raises(TimeoutError):
        await forever(Deadlines(TINY))
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_block_that_ends_in_time_is_left_alone() -> None:
    """Nothing happens to a task after its span, even when the shared timer fires for another."""
    deadlines = Deadlines(TINY)
    with deadlines.span():
        pass
    with pytest.raises(TimeoutError):
        await forever(deadlines)


async def test_every_span_of_a_crowd_ends() -> None:
    """One timer serves spans that began at different times."""
    deadlines = Deadlines(TINY)

    async def later(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0.001)
        await forever(deadlines)

    ended = await asyncio.gather(*map(later, range(4)), return_exceptions=True)
    assert [type(each) for each in ended] == [TimeoutError] * 4


async def test_spans_may_stand_inside_each_other() -> None:
    """The inner deadline is not the outer one's."""
    outer = Deadlines(LONG)
    with outer.span():
        with pytest.raises(TimeoutError):
            await forever(Deadlines(TINY))
        await asyncio.sleep(0)


async def test_somebody_else_s_cancellation_passes_through() -> None:
    """A task that is cancelled from outside is cancelled, not late."""
    task = asyncio.create_task(forever(Deadlines(LONG)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_fault_of_the_block_passes_through() -> None:
    """An error that comes before the deadline is not changed."""
    with pytest.raises(KeyError), Deadlines(LONG).span():
        raise KeyError


def test_a_span_needs_a_task() -> None:
    """Outside of any task there is nothing to cancel."""

    def enter() -> None:
        with Deadlines(LONG).span():
            pass

    loop = asyncio.new_event_loop()
    failures: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    loop.call_soon(enter)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert [type(each) for each in failures] == [RuntimeError]
