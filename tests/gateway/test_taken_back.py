"""Answers that were taken back, before two replicas on one data directory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.gateway.house import House, body_of, marks, near, open_house

from askonce.ports import Revocation, Selector
from askonce.testing.answers import Chat
from askonce.testing.engine import FakeEngine
from askonce.units import UnixTime

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SYSTEM = {"role": "system", "content": "Be brief.\n"}


async def take_back(house: House, what: Selector) -> None:
    """As an operator does through this replica."""
    watch = house.built.watch
    assert watch is not None
    await watch.revoke(Revocation(what=what, at=UnixTime(0)))


async def is_hit(house: House, body: dict[str, object], *headers: str) -> bool:
    """Whether the cache answers."""
    return "hit" in marks(await house.ask(body, *headers))


async def test_a_rule_holds_on_the_replica_that_took_it_when_the_call_returns(
    tmp_path: Path,
) -> None:
    """The next request asks the engine, and its answer serves again."""
    async with open_house(tmp_path) as house:
        await house.ask(body_of())
        assert await is_hit(house, body_of())
        await take_back(house, Selector(model="m"))
        assert not await is_hit(house, body_of())
        assert await is_hit(house, body_of())


async def test_a_rule_reaches_other_replicas_within_a_second(tmp_path: Path) -> None:
    """Their hot copies are no way around it."""
    async with (
        FakeEngine() as engine,
        open_house(tmp_path, engine, started=True) as one,
        open_house(tmp_path, engine, started=True) as other,
    ):
        await one.ask(body_of())
        assert await is_hit(other, body_of())
        await take_back(one, Selector())
        await asyncio.sleep(1)
        assert not await is_hit(other, body_of())


async def test_each_facet_tells_answers_apart(tmp_path: Path) -> None:
    """Namespace, tag, revision, system prompt: what does not match is served on."""
    from askonce.canonical.request import prompt_digest

    prompted = {**body_of(), "messages": [SYSTEM, *body_of()["messages"]]}
    tagged, spaced = ("x-askonce-tags: red",), ("x-askonce-namespace: docs",)
    everything = [(body_of("a"), ()), (prompted, ()), (body_of("b"), tagged), (body_of(), spaced)]
    async with open_house(tmp_path, upstream=({"revision": "7"},)) as house:
        for what, gone in {
            Selector(tag="red"): 2,
            Selector(namespace="docs"): 3,
            Selector(prompt=prompt_digest(["Be brief."])): 1,
            Selector(revision="8"): None,
        }.items():
            for body, headers in everything:
                await house.ask(body, *headers)
            await take_back(house, what)
            hits = [await is_hit(house, body, *headers) for body, headers in everything]
            assert hits == [at != gone for at in range(4)]
        await take_back(house, Selector(revision="7"))
        assert not any([await is_hit(house, body, *headers) for body, headers in everything])


async def test_what_was_taken_back_is_not_found_by_meaning(tmp_path: Path) -> None:
    """The pointer leads nowhere, and is forgotten."""
    async with open_house(tmp_path, embedder=near(), semantic={"floor": 0.5}) as house:
        await house.ask(body_of("What is the capital of France"))
        assert await is_hit(house, body_of("What is the capital of France?"))
        await take_back(house, Selector(model="m"))
        assert not await is_hit(house, body_of("what is the capital of France?"))


async def test_a_call_from_before_a_rule_serves_nobody_who_asks_after_it(tmp_path: Path) -> None:
    """Neither by joining it nor from what it stored."""
    async with open_house(tmp_path, FakeEngine(otherwise=Chat(text="slow", delay=0.3))) as house:
        first = asyncio.create_task(house.send_only(body_of()))
        while not house.asked:
            await asyncio.sleep(0.01)
        await take_back(house, Selector(model="m"))
        second = await house.ask(body_of())
        await first
        assert len(house.asked) == 2
        assert "collapsed" not in marks(second)


async def test_rules_outlive_the_server(tmp_path: Path) -> None:
    """What was taken back stays so after a restart, and what was not is still served."""
    async with FakeEngine() as engine:
        async with open_house(tmp_path, engine, started=True) as house:
            await house.ask(body_of("a"), "x-askonce-tags: red")
            await house.ask(body_of("b"))
            await take_back(house, Selector(tag="red"))
        async with open_house(tmp_path, engine, started=True) as house:
            assert not await is_hit(house, body_of("a"))
            assert await is_hit(house, body_of("b"))


async def test_without_sight_of_the_log_nothing_is_served(tmp_path: Path) -> None:
    """A replica that may have missed a rule asks the engine, and fails no request."""
    async with open_house(tmp_path) as house:
        await house.ask(body_of())
        watch = house.built.watch
        assert watch is not None
        watch._patience = -1.0  # type: ignore[assignment]
        answer = await house.ask(body_of())
        assert answer.status == 200
        assert "hit" not in marks(answer)
        assert (await house.get("/readyz")).json["cache"].startswith("off")
