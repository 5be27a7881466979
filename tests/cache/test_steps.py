"""Cache steps that cannot hurt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from askonce.cache.steps import Skipped, Steps
from askonce.config import BreakerConfig
from askonce.errors import EmbedderBusy, EntryUnreadable, StoreError, TextTooLong
from askonce.events import BreakerMoved, StepSkipped
from askonce.testing.clock import FakeClock
from askonce.testing.sink import RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio

LONG = Seconds(30)
TINY = Seconds(0.001)


class Stage:
    """Steps with a breaker that opens at the second failure, for ten seconds."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.sink = RecordingSink()
        self.steps = Steps(BreakerConfig(failures=2, cooldown=10), clock=self.clock, sink=self.sink)

    async def attempt(
        self, step: Callable[[], Awaitable[str]], deadline: Seconds = LONG
    ) -> str | Skipped:
        """One step of the store."""
        return await self.steps.attempt("store", deadline, step)

    async def break_it(self) -> None:
        """Fail as often as it takes."""
        for _ in range(2):
            await self.attempt(failing)

    @property
    def moves(self) -> list[str]:
        """The states of the store's breaker, as told."""
        return [event.state for event in self.sink.of(BreakerMoved)]

    @property
    def causes(self) -> list[str]:
        """Why steps were skipped, as told."""
        return [event.cause for event in self.sink.of(StepSkipped)]


async def working() -> str:
    """A step that works."""
    return "done"


async def failing() -> str:
    """A step that fails."""
    raise StoreError("as told")


async def hanging() -> str:
    """A step that never ends."""
    await asyncio.Event().wait()
    raise AssertionError


def raising(error: BaseException) -> Callable[[], Awaitable[str]]:
    """A step that raises this."""

    async def step() -> str:
        raise error

    return step


async def test_a_step_that_works_is_not_noticed() -> None:
    """A result comes through, and no event."""
    stage = Stage()
    assert await stage.attempt(working) == "done"
    assert stage.sink.events == []


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (StoreError("x"), "error"),
        (ZeroDivisionError(), "error"),
        (TimeoutError(), "deadline"),
        (EmbedderBusy(), "busy"),
        (TextTooLong(), "too_long"),
        (EntryUnreadable(), "unreadable"),
        (asyncio.CancelledError(), "error"),
    ],
)
async def test_a_fault_is_a_skip(error: BaseException, cause: str) -> None:
    """Whatever a step raises costs a miss with its cause, told once; never an exception."""
    stage = Stage()
    skipped = await stage.attempt(raising(error))
    assert skipped == Skipped("store", cause)  # type: ignore[arg-type] # one of the causes
    assert isinstance(skipped, Skipped)
    assert skipped.detail == f"store_{cause}"
    assert stage.sink.events == [StepSkipped("store", cause)]  # type: ignore[arg-type]


async def test_a_step_past_its_deadline_is_given_up() -> None:
    """A step that hangs is cancelled at its deadline."""
    stage = Stage()
    ended: list[str] = []

    async def slow() -> str:
        try:
            return await hanging()
        finally:
            ended.append("cancelled")

    assert await stage.attempt(slow, TINY) == Skipped("store", "deadline")
    assert ended == ["cancelled"]
    assert stage.causes == ["deadline"]


@pytest.mark.parametrize(("deadline", "wait"), [(0.05, 0.0475), (0.005, 0.004), (0.001, 0.0008)])
async def test_a_deadline_has_room_for_what_follows(deadline: float, wait: float) -> None:
    """A step is given up early enough for going on, and most of a short deadline is left."""
    stage = Stage()
    await stage.attempt(working, Seconds(deadline))
    assert stage.steps._deadlines[Seconds(deadline)]._seconds == pytest.approx(wait)


async def test_a_failing_part_is_left_alone() -> None:
    """At the limit the breaker opens, is told, and the part is not called any more."""
    stage = Stage()
    await stage.break_it()
    assert stage.moves == ["open"]
    assert await stage.attempt(raising(AssertionError("it was called"))) == Skipped(
        "store", "breaker"
    )
    assert stage.causes == ["error", "error", "breaker"]


async def test_deadlines_count_as_failures() -> None:
    """A part that hangs opens its breaker like one that fails."""
    stage = Stage()
    for _ in range(2):
        await stage.attempt(hanging, TINY)
    assert stage.moves == ["open"]


async def test_it_heals() -> None:
    """After the cooldown one trial is let through, and its success closes the breaker."""
    stage = Stage()
    await stage.break_it()
    stage.clock.advance(10)
    assert await stage.attempt(working) == "done"
    assert stage.moves == ["open", "half_open", "closed"]


async def test_a_failed_trial_opens_again() -> None:
    """A trial that fails costs another cooldown."""
    stage = Stage()
    await stage.break_it()
    stage.clock.advance(10)
    assert await stage.attempt(failing) == Skipped("store", "error")
    assert stage.moves == ["open", "half_open", "open"]
    assert await stage.attempt(working) == Skipped("store", "breaker")


async def test_one_trial_at_a_time() -> None:
    """While a trial runs all others are skipped."""
    stage = Stage()
    await stage.break_it()
    stage.clock.advance(10)
    go = asyncio.Event()

    async def trial() -> str:
        await go.wait()
        return "done"

    running = asyncio.create_task(stage.attempt(trial))
    await asyncio.sleep(0)
    assert await stage.attempt(working) == Skipped("store", "breaker")
    go.set()
    assert await running == "done"
    assert await stage.attempt(working) == "done"


@pytest.mark.parametrize("error", [EmbedderBusy(), TextTooLong(), None])
async def test_a_late_call_that_says_nothing_leaves_the_trial_alone(
    error: Exception | None,
) -> None:
    """A call from before the breaker opened does not let a second trial in."""
    stage = Stage()
    late_go, trial_go = asyncio.Event(), asyncio.Event()

    async def late() -> str:
        await late_go.wait()
        if error is not None:
            raise error
        return await hanging()

    async def trial() -> str:
        await trial_go.wait()
        return "done"

    before = asyncio.create_task(stage.attempt(late))
    await asyncio.sleep(0)
    await stage.break_it()
    stage.clock.advance(10)
    running = asyncio.create_task(stage.attempt(trial))
    await asyncio.sleep(0)
    if error is None:
        before.cancel()
    late_go.set()
    await asyncio.wait([before])
    assert await stage.attempt(working) == Skipped("store", "breaker")
    trial_go.set()
    assert await running == "done"


@pytest.mark.parametrize("error", [EmbedderBusy(), TextTooLong()])
async def test_a_trial_that_says_nothing_is_tried_again(error: Exception) -> None:
    """A full queue neither closes nor opens a breaker: the next call is the trial."""
    stage = Stage()
    await stage.break_it()
    stage.clock.advance(10)
    await stage.attempt(raising(error))
    assert stage.moves == ["open", "half_open", "open"]
    assert await stage.attempt(working) == "done"
    assert stage.moves[-1] == "closed"


async def test_an_unreadable_entry_says_that_the_store_works() -> None:
    """A store that gives bytes back is alive, whatever the bytes are."""
    stage = Stage()
    for _ in range(5):
        assert await stage.attempt(raising(EntryUnreadable())) == Skipped("store", "unreadable")
    assert stage.moves == []


async def test_cancellation_is_not_swallowed() -> None:
    """A caller who leaves ends the step, counts as no failure, and is told as none."""
    stage = Stage()
    for _ in range(3):
        task = asyncio.create_task(stage.attempt(hanging))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stage.sink.events == []


async def test_a_cancelled_trial_is_tried_again() -> None:
    """A trial whose caller leaves gives way to the next one."""
    stage = Stage()
    await stage.break_it()
    stage.clock.advance(10)
    task = asyncio.create_task(stage.attempt(hanging))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert stage.moves == ["open", "half_open", "open"]
    assert await stage.attempt(working) == "done"


async def test_failures_together_are_told_once() -> None:
    """Calls that fail side by side move the breaker once."""
    stage = Stage()
    go = asyncio.Event()

    async def fail_later() -> str:
        await go.wait()
        return await failing()

    tasks = [asyncio.create_task(stage.attempt(fail_later)) for _ in range(10)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait(tasks)
    assert stage.moves == ["open"]
    assert stage.causes == ["error"] * 10


async def test_parts_break_on_their_own() -> None:
    """A dead store says nothing about the index."""
    stage = Stage()
    await stage.break_it()
    assert await stage.steps.attempt("semantic", LONG, working) == "done"


async def test_a_guarded_step_cannot_raise() -> None:
    """A step without waiting is guarded in the same way, without a breaker."""
    stage = Stage()
    assert stage.steps.guard("hot", lambda: 1) == 1
    assert stage.steps.guard("hot", lambda: 1 // 0) == Skipped("hot", "error")
    assert stage.sink.events == [StepSkipped("hot", "error")]


async def test_one_bad_moment_is_no_outage() -> None:
    """Calls that are late side by side, as when the loop was held up, count as one failure."""
    stage = Stage()
    go = asyncio.Event()

    async def late() -> str:
        await go.wait()
        stage.clock.advance(0.001)
        return await failing()

    tasks = [asyncio.create_task(stage.attempt(late)) for _ in range(10)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait(tasks)
    assert stage.moves == []
    await stage.attempt(failing)
    assert stage.moves == ["open"]
