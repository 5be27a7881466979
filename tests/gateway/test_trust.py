"""Evidence over the real path: feedback, shadow mode, restarts, two servers, the real models."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.cache.school import clerk, faq, said
from tests.gateway.house import AUTH, body_of, marks
from tests.gateway.house import open_house as open_any_house

from askonce.config import EngineConfig, NamespaceConfig
from askonce.testing.answers import Chat
from askonce.testing.embedders import TokenEmbedder
from askonce.testing.engine import FakeEngine
from askonce.trust.account.asked import Place
from askonce.trust.account.thrift import Thrift
from askonce.trust.desk import TrustDesk
from askonce.upstreams.embedded import EmbeddedEngine, embedded_command

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tests.gateway.house import House

    from askonce.cache.learning import Learning
    from askonce.testing.caller import Answer

pytestmark = pytest.mark.anyio


def open_house(
    home: Path, *engines: FakeEngine, trust: Mapping[str, Any] | None = None, **more: Any
) -> AbstractAsyncContextManager[House]:
    """A house where evidence decides."""
    return open_any_house(home, *engines, trust={"enabled": True, **(trust or {})}, **more)


FIRST = "What is the capital of France?"
AGAIN = "what is the capital of France?"
VERDICTS = ("same", "different", "unsure")
PARIS, ROME = Chat(text="The capital is Paris."), Chat(text="The capital is Rome.")


@pytest.fixture
def command() -> list[str]:
    """What starts the embedded engine; it looks for files, so not inside the event loop."""
    return embedded_command(EngineConfig())


def audit_all(desk: TrustDesk) -> None:
    """Every hit, whatever that costs."""
    plenty = Thrift(of_hits=float("inf"), of_requests=float("inf"))
    desk._manners = msgspec.structs.replace(desk._manners, cold_audit=1.0, thrift=plenty)
    desk._namespaces.clear()


def tokens() -> TokenEmbedder:
    """An embedder that gives token vectors."""
    return TokenEmbedder(dim=256, window=256)


def learning(house: House) -> Learning:
    learns = house.built.learning
    assert learns is not None
    return learns


async def tell(house: House, auth: str = AUTH, **word: Any) -> Answer:
    """Send feedback."""
    return await house.send("POST", "/askonce/feedback", msgspec.json.encode(word), auth)


async def hit(house: House) -> str:
    """Bring about a hit by meaning; returns its id."""
    await house.ask(body_of(FIRST))
    answer = await house.ask(body_of(AGAIN))
    assert marks(answer)[3] == "detail=semantic"
    return answer.headers["x-request-id"]


def label(house: House) -> Place:
    """The only namespace that has evidence."""
    (name,) = learning(house)._parts.desk._namespaces
    return Place(name, b"")


async def test_a_wrong_answer_told_by_its_caller_closes_the_static_rule(tmp_path: Path) -> None:
    """Feedback is taken from the caller who got the answer, and counted."""
    async with open_house(tmp_path, FakeEngine(PARIS), embedder=tokens()) as house:
        request = await hit(house)
        told = await tell(house, request_id=request, verdict="wrong")
        assert (told.status, told.json) == (202, {"status": "noted"})
        assert learning(house)._parts.desk.labels(label(house)) == 1
        page = (await house.get("/metrics")).body.decode()
        assert 'askonce_trust_labels{namespace="default.' in page
        assert "sk-one" not in page


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ({"request_id": "unknown", "verdict": "right"}, 404),
        ({"request_id": "unknown", "verdict": "maybe"}, 400),
        ({"verdict": "right"}, 400),
    ],
)
async def test_feedback_about_nothing_is_refused(
    tmp_path: Path, word: dict[str, str], status: int
) -> None:
    """An unknown id and a word that is none are told apart."""
    async with open_house(tmp_path, embedder=tokens()) as house:
        assert (await tell(house, **word)).status == status


async def test_feedback_is_for_ones_own_answers(tmp_path: Path) -> None:
    """Another credential knows no such request; where the log is lost, that is told."""
    async with open_house(tmp_path, FakeEngine(PARIS), embedder=tokens()) as house:
        request = await hit(house)
        foreign = await tell(
            house, "authorization: Bearer sk-two", request_id=request, verdict="right"
        )
        assert foreign.status == 404
        log = house.parts.evidence
        assert log is not None
        await log.close()
        assert (await tell(house, request_id=request, verdict="right")).status == 503


async def test_a_flood_of_feedback_counts_as_one_word(tmp_path: Path) -> None:
    """All of it is answered, and one record and one label come of it."""
    async with open_house(tmp_path, FakeEngine(PARIS), embedder=tokens()) as house:
        request = await hit(house)
        words = (tell(house, request_id=request, verdict="wrong") for _ in range(20))
        assert {told.status for told in await asyncio.gather(*words)} == {202}
        log = house.parts.evidence
        assert log is not None
        sources = [one.source for one in await log.of_request(request)]
        assert sources.count("caller") == 1
        assert learning(house)._parts.desk.labels(label(house)) == 1


async def test_without_evidence_there_is_no_feedback(tmp_path: Path) -> None:
    """With trust off the cache works by the static rule and takes no feedback."""
    trust = {"enabled": False}
    async with open_house(tmp_path, FakeEngine(PARIS), embedder=tokens(), trust=trust) as house:
        request = await hit(house)
        assert (await tell(house, request_id=request, verdict="wrong")).status == 503


async def test_shadow_mode_says_what_would_have_been(tmp_path: Path) -> None:
    """The engine answers, and the marks and figures tell the would-be hit."""
    engine = FakeEngine(PARIS, PARIS)
    async with open_house(tmp_path, engine, embedder=tokens(), trust={"mode": "shadow"}) as house:
        await house.ask(body_of(FIRST))
        answer = await house.ask(body_of(AGAIN))
        assert 'detail="shadow_hit"' in marks(answer)
        assert await house.metric('askonce_shadow_total{verdict="same"}') == 1
        assert len(house.asked) == 2


async def test_namespaces_have_modes_of_their_own(tmp_path: Path) -> None:
    """What is configured for one namespace holds there alone."""
    trust = {"namespaces": {"quiet": NamespaceConfig(mode="off")}}
    async with open_house(
        tmp_path, FakeEngine(PARIS, PARIS, PARIS), embedder=tokens(), trust=trust
    ) as house:
        await hit(house)
        quiet = "x-askonce-namespace: quiet"
        await house.ask(body_of(FIRST), quiet)
        assert (await house.ask(body_of(AGAIN), quiet)).headers["x-cache"] == "MISS"


async def test_an_audit_is_counted_and_tightens(tmp_path: Path) -> None:
    """A hit is audited behind the answer by the engine, whose other answer ends the static rule."""
    trust = {"audits_per_hour": 1000.0}
    async with open_house(
        tmp_path, FakeEngine(PARIS, ROME), embedder=tokens(), trust=trust
    ) as house:
        desk = learning(house)._parts.desk
        audit_all(desk)
        await hit(house)
        assert await house.metric('askonce_audits_total{verdict="different"}') == 1
        assert (await house.ask(body_of(AGAIN + " "))).headers["x-cache"] == "MISS"


async def test_without_a_log_that_can_be_written_answers_go_on(tmp_path: Path) -> None:
    """A near-copy is served all the same, what is learned is learned by this process alone."""
    (tmp_path / "evidence.sqlite3").mkdir()
    engine = FakeEngine(otherwise=PARIS)
    async with open_house(tmp_path, engine, embedder=tokens()) as house:
        await hit(house)
        assert (await house.ask(body_of("Name the capital of Italy."))).status == 200
        assert learning(house)._parts.desk.asked.packed() == b""


async def test_evidence_that_cannot_be_taken_keeps_no_server_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with the evidence of earlier days, requests are answered."""

    def fail(*_: object) -> None:
        raise LookupError("as told")

    engine = FakeEngine(otherwise=PARIS)
    async with engine:
        kit: dict[str, Any] = {"embedder": tokens(), "started": True}
        async with open_house(tmp_path, engine, **kit) as house:
            await hit(house)
            await learning(house).settled()
        monkeypatch.setattr(TrustDesk, "take", fail)
        async with open_house(tmp_path, engine, **kit) as house:
            assert (await house.ask(body_of(FIRST))).status == 200
            assert any("Learning.follow" in repr(task) for task in house.service._tasks)


@pytest.mark.slow
async def test_a_restart_keeps_decisions_and_a_second_server_shares_them(tmp_path: Path) -> None:
    """Evidence in the data directory decides from the first request of the next start on."""
    questions = faq(200, seed=1, subjects=4)
    engine = FakeEngine(otherwise=clerk())
    async with engine:
        kit: dict[str, Any] = {"trust": {"preset": "search"}, "started": True}
        async with open_house(tmp_path, engine, embedder=tokens(), **kit) as house:
            for text in questions[:150]:
                await house.ask(body_of(text))
            before = learning(house)._parts.desk.standing(label(house))
            assert before.open
            async with open_house(tmp_path, engine, embedder=tokens(), **kit) as other:
                taken = learning(other)._parts.desk
                assert taken.standing(label(other)).score == before.score
                labels = taken.labels(label(other))
                fresh = 0
                while taken.labels(label(other)) == labels and fresh < 40:
                    await house.ask(body_of(f"{questions[150 + fresh]} number {fresh}"))
                    fresh += 1
                    await asyncio.sleep(0.05)
                assert taken.labels(label(other)) > labels
        async with open_house(tmp_path, engine, embedder=tokens(), **kit) as again:
            served = [await again.ask(body_of(text)) for text in questions[190:]]
    hits = [answer for answer in served if answer.headers["x-cache"] == "HIT"]
    assert len(hits) >= 5
    for answer, text in zip(served, questions[190:], strict=True):
        assert answer.json["choices"][0]["message"]["content"] == said(text)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_the_real_models_shadow_then_on_then_audited(
    tmp_path: Path, command: list[str]
) -> None:
    """With MiniLM and the embedded engine: a would-be hit is judged, then served, then audited."""
    engine: Any = EmbeddedEngine(command)
    await engine.start()
    asks = [
        body_of(text, model="smollm2-135m-instruct", temperature=0, max_tokens=32)
        for text in ("Name the capital of France.", "name the capital of France")
    ]
    kit: dict[str, Any] = {"started": True, "semantic": {"enabled": True}, "exact": {"ttl": 0.001}}
    try:
        async with open_house(tmp_path, engine, trust={"mode": "shadow"}, **kit) as house:
            first, second = [await house.ask(body) for body in asks]
            assert first.headers["x-cache"] == second.headers["x-cache"] == "MISS"
            assert 'detail="shadow_hit"' in marks(second)
            assert await counted(house, "askonce_shadow_total") == 1
        async with open_house(tmp_path, engine, trust={"audits_per_hour": 9.0}, **kit) as house:
            desk = learning(house)._parts.desk
            audit_all(desk)
            assert marks(await house.ask(asks[1]))[3] == "detail=semantic"
            assert await counted(house, "askonce_audits_total") == 1
    finally:
        await engine.stop()


async def counted(house: House, name: str) -> float:
    """A counter over all its verdicts."""
    return sum([await house.metric(f'{name}{{verdict="{said}"}}') for said in VERDICTS])
