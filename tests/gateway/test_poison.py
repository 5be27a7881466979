"""What one caller plants, others are not served; what they find out by themselves, they share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.gateway.house import body_of, marks, near, open_house

from askonce.testing.answers import Chat
from askonce.testing.embedders import TokenEmbedder
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.house import House

    from askonce.testing.answers import Asked

pytestmark = pytest.mark.anyio

EVE, BOB, ANN, DAN = (f"authorization: Bearer sk-{name}" for name in ("eve", "bob", "ann", "dan"))
TRUE, FALSE = "The office opens at 9.", "Send your password to eve.example."
PLAIN = "When does the office in Bern open its doors on weekdays?"
PLANTED = "When does the office in Bern open its doors on weekdays??"
AGAIN = "when does the office in Bern open its doors on weekdays?"
ONCE_MORE = "When does the office in Bern open its doors on weekdays"
SHARED = {"scope": "shared"}


def engine(**more: Any) -> FakeEngine:
    """One that can be made to say anything by who words a question cleverly."""

    def answer(asked: Asked) -> Any:
        text = asked.json["messages"][-1]["content"]
        return Chat(text=FALSE if text == PLANTED else TRUE, **more)(asked)

    return FakeEngine(otherwise=answer)


async def ask(house: House, text: str, auth: str, *more: str) -> tuple[str, str]:
    """What was answered, and who did."""
    answer = await house.ask(body_of(text), *more, auth=auth)
    status = marks(answer)
    told = answer.json["choices"][0]["message"]["content"]
    hit = status[1] == "hit"
    return told, (status[3] if hit else status[-1]).removeprefix("detail=").strip('"')


async def outcomes(house: House, outcome: str) -> float:
    return await house.metric(f'askonce_confirmations_total{{outcome="{outcome}"}}')


async def test_a_planted_answer_reaches_nobody_else(tmp_path: Path) -> None:
    """However often its author asks for it, others get the engine's answer to their own words."""
    async with open_house(tmp_path, engine(), embedder=near(), tenants=SHARED) as house:
        assert (await ask(house, PLANTED, EVE))[0] == FALSE
        for text in (PLANTED.replace("When", "when"), PLANTED.replace("office", "Office")):
            assert await ask(house, text, EVE) == (FALSE, "semantic")
        assert await ask(house, AGAIN, BOB) == (TRUE, "unconfirmed")
        assert await ask(house, ONCE_MORE, ANN) == (TRUE, "unconfirmed")
        assert await outcomes(house, "same") == 1  # Ann's, with what Bob was told
        assert await ask(house, PLAIN, DAN) == (TRUE, "semantic")
        assert await outcomes(house, "withheld") >= 2


async def test_an_answer_that_two_found_serves_all(tmp_path: Path) -> None:
    """The first other caller asks the engine, and what it said then serves a third one."""
    async with open_house(tmp_path, engine(), embedder=near(), tenants=SHARED) as house:
        assert (await ask(house, PLAIN, BOB))[0] == TRUE
        assert await ask(house, AGAIN, BOB) == (TRUE, "semantic")
        assert await ask(house, AGAIN, ANN) == (TRUE, "unconfirmed")
        assert await outcomes(house, "same") == 1
        assert await ask(house, ONCE_MORE, DAN) == (TRUE, "semantic")
        assert len(house.asked) == 2


async def test_a_confirmation_outlives_the_server(tmp_path: Path) -> None:
    """It is kept with the entry."""
    running = engine()
    async with running:
        for questions in (((PLAIN, BOB), (AGAIN, ANN)), ((ONCE_MORE, DAN),)):
            async with open_house(
                tmp_path, running, embedder=near(), tenants=SHARED, started=True
            ) as house:
                got = [await ask(house, *question) for question in questions]
    assert got == [(TRUE, "semantic")]


async def test_two_may_be_asked_to_confirm(tmp_path: Path) -> None:
    """With `confirmations = 2` an accomplice is not enough."""
    tenants = {**SHARED, "confirmations": 2}
    async with open_house(tmp_path, engine(), embedder=near(), tenants=tenants) as house:
        told = [(await ask(house, PLAIN, BOB))[1]]
        for text, who in ((AGAIN, ANN), (ONCE_MORE, DAN), (PLAIN + "!", EVE)):
            told.append((await ask(house, text, who))[1])
    assert told[1:] == ["unconfirmed", "unconfirmed", "semantic"]


async def test_exact_answers_wait_where_that_is_asked_for(tmp_path: Path) -> None:
    """By default the very same request is answered to all; with `all` it waits as well."""
    async with open_house(tmp_path / "one", engine(), tenants=SHARED) as house:
        assert [(await ask(house, PLAIN, who))[1] for who in (BOB, ANN)][1] == "exact"
    tenants = {**SHARED, "confirm": "all"}
    async with open_house(tmp_path / "two", engine(), tenants=tenants) as house:
        told = [(await ask(house, PLAIN, who))[1] for who in (BOB, BOB, ANN, DAN)]
        assert told[1:] == ["exact", "unconfirmed", "exact"]


async def test_a_flight_lands_others_elsewhere(tmp_path: Path) -> None:
    """Who asks the same as the author at the same time is not served the author's own hit."""
    embedder = near()
    async with open_house(tmp_path, engine(), embedder=embedder, tenants=SHARED) as house:
        await ask(house, PLANTED, EVE)
        both = await asyncio.gather(
            *(ask(house, AGAIN, who) for who in (EVE, BOB, ANN, DAN, BOB, ANN))
        )
    assert both[0] == (FALSE, "semantic")
    assert {told for told, _ in both[1:]} == {TRUE}


async def test_evidence_does_not_stand_in_for_confirmation(tmp_path: Path) -> None:
    """Where evidence decides, an author's own audits open nothing to others."""
    trust = {"enabled": True, "audits_per_hour": 1e6}
    async with open_house(
        tmp_path, engine(), embedder=TokenEmbedder(dim=256, window=256), trust=trust, tenants=SHARED
    ) as house:
        await ask(house, PLANTED, EVE)
        for number in range(6):
            await ask(house, PLANTED + " " * (number + 1), EVE)
        assert (await ask(house, AGAIN, BOB))[0] == TRUE
        assert (await ask(house, PLAIN, ANN))[0] == TRUE


@pytest.mark.parametrize("name", ["threshold", "floor", "score", "budget", "debug"])
async def test_callers_move_no_threshold_and_see_no_score(tmp_path: Path, name: str) -> None:
    """No header or member of theirs makes the cache serve more or tell more."""
    async with open_house(tmp_path, engine(), embedder=near()) as house:
        far = "Where can one park near the office in Bern?"
        await house.ask(body_of(PLAIN))
        for value in ("0", "true"):
            answer = await house.ask(body_of(far + value), f"x-askonce-{name}: {value}")
            assert answer.headers["x-cache"] == "MISS"
            assert "x-askonce-score" not in answer.headers
        answer = await house.ask(body_of(far, **{name: 0, "askonce": {name: 0}}))
        assert answer.headers["x-cache"] == "MISS"
        answer = await house.ask(body_of(AGAIN))
        assert answer.headers["x-cache"] == "HIT"
        assert not [header for header in answer.headers if header.startswith("x-askonce")]
        assert "key=" not in answer.headers["cache-status"]


async def test_scores_are_told_while_debugging_alone(tmp_path: Path) -> None:
    """With `controls.debug` the operator sees them, and nobody sees them otherwise."""
    debug = {"debug": True}
    async with open_house(tmp_path, engine(), embedder=near(), controls=debug) as house:
        await house.ask(body_of(PLAIN))
        answer = await house.ask(body_of(AGAIN))
        assert 0.97 <= float(answer.headers["x-askonce-score"]) <= 1
        assert msgspec.json.decode(answer.body)["object"] == "chat.completion"
