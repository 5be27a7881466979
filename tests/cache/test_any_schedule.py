"""Callers come and go, engines fail, pieces trickle, in any order: nobody gets a wrong answer."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cache.stage import Got, Stage, settle

from askonce.errors import UpstreamError
from askonce.policy.controls import Controls
from askonce.testing.answers import Chat, Reply, Script, refusal

Kind = Literal["good", "broken", "half", "long", "refused", "dead"]
PRIVATE, FRESH = Controls(no_store=True), Controls(no_cache=True)

START = st.tuples(
    st.just("start"), st.booleans(), st.sampled_from([Controls(), Controls(), PRIVATE, FRESH])
)
ACTIONS = st.one_of(
    START,
    st.tuples(st.just("cancel"), st.integers(0, 9), st.none()),
    st.tuples(st.just("let"), st.integers(1, 9), st.none()),
    st.tuples(st.just("turn"), st.integers(1, 9), st.none()),
)
FAULTY = st.sampled_from(["good", "broken", "half", "long", "refused", "dead"])


def text_of(number: int) -> str:
    """Every answer of the engine is its own."""
    return f"answer {number} from its first to its last word"


def script(kind: Kind, number: int) -> Script:
    """What the engine does with its call of this number."""
    text = text_of(number)
    match kind:
        case "good":
            return Chat(text=text)
        case "broken":
            return Chat(text=text, fault="break_inside", at=3)
        case "half":
            return Chat(text=text, done=False)
        case "long":
            return Chat(text=text + " and on" * 300)
        case "refused":
            return refusal(503)
        case "dead":
            return Reply(fault="break_before")


async def play(
    kinds: list[Kind], actions: list[tuple[str, int, Controls | None]], bound: int
) -> None:
    """Play one schedule and judge what everybody got."""
    calls: list[Kind] = [*kinds, *["good"] * 40]  # type: ignore[list-item] # one of the kinds
    scripts = [script(kind, number) for number, kind in enumerate(calls)]
    whole = {text_of(number) for number in range(len(scripts))}
    whole |= {text + " and on" * 300 for text in whole} | {"<garbage>", "<incomplete>"}
    async with Stage(*scripts, semantic=False, max_entry_bytes=bound) as stage:
        stage.upstream.meter()
        callers: list[asyncio.Task[Got]] = []
        left: set[asyncio.Task[Got]] = set()
        for action, number, controls in actions:
            match action:
                case "start":
                    callers += stage.start(stream=bool(number), controls=controls)
                case "cancel" if callers:
                    left.add(callers[number % len(callers)])
                    callers[number % len(callers)].cancel()
                case "let":
                    stage.upstream.let(number)
                case _:
                    await settle(turns=number)
        stage.upstream.let(10_000)
        if callers:
            await asyncio.wait(callers, timeout=20)
        assert all(caller.done() for caller in callers)
        for caller in callers:
            judge(caller, left, whole)
        faults = [kind for kind in kinds[: stage.calls] if kind != "good"]
        own = sum(
            controls in {PRIVATE, FRESH} for action, _, controls in actions if action == "start"
        )
        if not faults and bound > 10_000:
            assert stage.calls <= 1 + own
        await stage.settled()
        if (await stage.memory.stats()).entries:
            assert (await stage.get()).text in whole - {"<garbage>", "<incomplete>"}


def judge(caller: asyncio.Task[Got], left: set[asyncio.Task[Got]], whole: set[str]) -> None:
    """A caller got a whole answer, the engine's refusal, or an error that it knows."""
    if caller.cancelled():
        assert caller in left
        return
    error = caller.exception()
    if error is not None:
        assert isinstance(error, UpstreamError)
        return
    got = caller.result()
    assert got.status == 503 or got.text in whole


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(FAULTY, max_size=5), st.lists(ACTIONS, max_size=25), st.sampled_from([700, 100_000])
)
def test_any_schedule(
    kinds: list[Kind], actions: list[tuple[str, int, Controls | None]], bound: int
) -> None:
    """In any order of events every caller ends with a whole answer or an error of the engine's."""
    asyncio.run(play(kinds, actions, bound))
