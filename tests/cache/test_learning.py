"""The live path learns: from misses, audits, shadow mode and words of callers."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.cache.school import DIM, School, clerk, faq, flights, said
from tests.cache.stage import CAT

from askonce.cache import learning
from askonce.cache.ask import Live
from askonce.errors import StoreError, VerifierBusy
from askonce.events import Judged, Paid, StepSkipped, TrustMoved
from askonce.flow import Hit
from askonce.policy.controls import Controls
from askonce.ports import Verdict
from askonce.testing.answers import Chat, Reply
from askonce.testing.clock import FakeClock
from askonce.testing.embedders import HashingEmbedder, TokenEmbedder
from askonce.testing.evidence import MemoryEvidenceLog
from askonce.testing.verifiers import ScriptedVerifier
from askonce.trust.account.asked import Place
from askonce.trust.account.thrift import Thrift
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Evidence

pytestmark = pytest.mark.anyio

GOOD = Chat(text="A cat is an animal.")
OTHER = Chat(text="It is 12.")
LIKE_CAT = "what is a cat?"
HERE = Place(b"default", b"")


async def attend(school: School, questions: Sequence[str], version: str = "2024") -> list[str]:
    """Ask them all; `right`, `wrong` or `engine` for each."""
    told = []
    for text in questions:
        school.clock.advance(0.01)
        got = await school.get(text)
        await school.settled()
        right = "right" if got.text == said(text, version) else "wrong"
        told.append(right if got.how == "semantic" else "engine")
    return told


def judged(school: School, source: str) -> list[str]:
    """Verdicts from one source, in order."""
    return [event.verdict for event in school.sink.of(Judged) if event.source == source]


async def records(school: School) -> list[Evidence]:
    """The whole log."""
    assert school.log is not None
    return await school.log.since(0, 10_000)


async def test_cold_the_static_rule_decides() -> None:
    """Without evidence a near-copy is a hit at once, and a one with another number is none."""
    async with School() as school:
        school.upstream.script(GOOD, OTHER)
        assert await school.go(CAT) == "engine"
        assert await school.go(LIKE_CAT) == "semantic"
        assert await school.go("Convert 100 USD to EUR") == "engine"
        assert await school.go("convert 900 USD to EUR") == "engine"


@pytest.mark.slow
async def test_evidence_opens_a_faq_stream() -> None:
    """The same questions in other words are found far below the floor, within the budget."""
    async with School() as school:
        school.upstream.otherwise = clerk()
        told = await attend(school, faq(400, seed=1))
        assert school.desk.standing(HERE).open
        assert not school.desk.cold(HERE)
        assert told[200:].count("right") > 150
        assert told.count("wrong") <= 0.03 * 400
        assert school.sink.of(TrustMoved)[-1].namespace == "default"


@pytest.mark.slow
async def test_what_is_not_served_in_the_end_is_no_hit() -> None:
    """An answer too old for its caller, or gone from the store, counts as asked alone."""
    async with School() as school:
        school.upstream.otherwise = clerk()
        questions = faq(260, seed=1)
        await attend(school, questions[:240])
        hits = school.desk.standing(HERE).hits
        assert hits > 50
        for text in questions[240:250]:
            assert await school.go(text, controls=Controls(max_age=Seconds(1e-6))) == "engine"
        assert school.desk.standing(HERE).hits == hits
        await school.store.clear()
        school.exact.cool()
        assert await school.go(questions[250]) == "engine"
        assert school.desk.standing(HERE).hits == hits


@pytest.mark.slow
async def test_look_alikes_stay_apart() -> None:
    """Questions that differ in the one word that counts hardly ever get each other's answers."""
    async with School(budget=0.01) as school:
        school.upstream.otherwise = clerk()
        told = await attend(school, flights(300, seed=1))
        assert told.count("wrong") <= 3


@pytest.mark.slow
async def test_shadow_mode_tells_and_serves_nothing() -> None:
    """In shadow mode the engine answers all, and would-be hits are judged against it."""
    async with School(mode="shadow") as school:
        school.upstream.otherwise = clerk()
        questions = faq(260, seed=2)
        assert set(await attend(school, questions[:250])) == {"engine"}
        assert school.calls == 250
        assert judged(school, "shadow").count("same") > 50
        got = await school.get(questions[250])
        assert isinstance(got.reply, Live)
        assert got.reply.head.details == ("shadow_hit",)


@pytest.mark.slow
async def test_what_shadow_mode_learned_serves_when_it_is_on() -> None:
    """A log from shadow mode opens the cache of the next start from its first request."""
    log = MemoryEvidenceLog(clock=FakeClock())
    async with School(mode="shadow", log=log) as school:
        school.upstream.otherwise = clerk()
        await attend(school, faq(300, seed=2))
    async with School(mode="on", log=log) as school:
        school.upstream.otherwise = clerk()
        await school.learns.catch_up()
        assert school.desk.standing(HERE).open
        told = await attend(school, faq(500, seed=2)[300:420])
        assert told.count("right") > 80
        assert told.count("wrong") <= 3


@pytest.mark.slow
async def test_drift_tightens_within_200_requests() -> None:
    """When the engine's answers change, audits find out, and serving ends."""
    async with School() as school:
        school.upstream.otherwise = clerk()
        questions = faq(700, seed=1)
        assert (await attend(school, questions[:400]))[200:].count("right") > 150
        school.upstream.otherwise = clerk("2025")
        told = await attend(school, questions[400:700], "2025")
        assert told[200:].count("wrong") <= 3
        assert "different" in judged(school, "audit")


async def test_a_long_life_outlives_no_drift() -> None:
    """An entry that its caller gave a longer life is out of date after a drift as others are."""
    async with School() as school:
        school.upstream.script(GOOD, OTHER)
        await school.go(CAT, controls=Controls(ttl=Seconds(86_400.0)))
        assert await school.go(LIKE_CAT) == "semantic"
        drifted = school.clock.now() + 1.0
        school.desk._namespace(HERE.namespace).since = drifted
        school.clock.advance(2.0)
        assert await school.go(LIKE_CAT) == "engine"


async def test_a_short_life_is_no_age() -> None:
    """An entry that was stored after a drift serves, however soon it ends."""
    async with School() as school:
        school.upstream.script(GOOD, OTHER)
        school.desk._namespace(HERE.namespace).since = school.clock.now()
        school.clock.advance(1.0)
        await school.go(CAT, controls=Controls(ttl=Seconds(30.0)))
        assert await school.go(LIKE_CAT) == "semantic"


@pytest.mark.slow
async def test_a_restart_keeps_the_evidence() -> None:
    """A second start over the same log stands exactly where the first one ended."""
    log = MemoryEvidenceLog(clock=FakeClock())
    async with School(log=log) as school:
        school.upstream.otherwise = clerk()
        await attend(school, faq(300, seed=3))
        before = school.desk.standing(HERE)
        first = school.desk._ledger._root.node.cells
    async with School(log=log) as again:
        await again.learns.catch_up()
        assert before.open
        assert again.desk.standing(HERE) == before
        assert again.desk._ledger._root.node.cells == first


@pytest.mark.slow
async def test_another_embedder_learns_anew() -> None:
    """What was measured with one says nothing of another's scores; requests are no exception."""
    log = MemoryEvidenceLog(clock=FakeClock())
    async with School(log=log) as school:
        school.upstream.otherwise = clerk()
        await attend(school, faq(150, seed=3))
        assert school.desk.standing(HERE).open
    async with School(log=log, embedder=TokenEmbedder(dim=DIM, window=99)) as other:
        await other.learns.catch_up()
        assert other.desk.labels(HERE) == 0
        assert not other.desk._namespaces
    async with School(log=log) as again:
        await again.learns.catch_up()
        assert again.desk.standing(HERE).open


async def test_two_workers_share_their_evidence() -> None:
    """What one learns from, the other takes within a turn of its follower."""
    log = MemoryEvidenceLog(clock=FakeClock())
    async with School(log=log) as one, School(log=log) as other:
        one.upstream.otherwise = clerk()
        await attend(one, flights(40, seed=4))
        follower = asyncio.create_task(other.learns.follow())
        async with asyncio.timeout(60):
            while other.desk.labels(HERE) < one.desk.labels(HERE):
                await asyncio.sleep(0.01)  # a thread learns meanwhile
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
        assert one.desk.labels(HERE) > 10
        assert other.desk.standing(HERE) == one.desk.standing(HERE)


async def test_requests_without_neighbours_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave no evidence of their own, but a follower counts them; at most now and then."""
    log = MemoryEvidenceLog(clock=FakeClock())
    async with School(log=log) as one, School(log=log) as other:
        one.upstream.otherwise = GOOD
        for number in range(3):
            await one.go(CAT, controls=Controls(namespace=f"space {number}"))
        assert await records(one) == []
        follower = asyncio.create_task(one.learns.follow())
        for _ in range(20):
            await asyncio.sleep(0)
        assert await records(one) == []
        monkeypatch.setattr(learning, "FOLLOW_INTERVAL", 0)
        follower.cancel()
        one.clock.advance(learning.ASKED_INTERVAL)
        follower = asyncio.create_task(one.learns.follow())
        async with asyncio.timeout(60):
            while not await records(one):
                await asyncio.sleep(0.01)
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
        await other.learns.catch_up()
        counted = [each.desk._ledger._root.node.cells for each in (one, other)]
        assert counted[0] == counted[1]
        assert [each.source for each in await records(one)] == ["asked"]


async def test_records_of_one_request_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a page of the log ends, what one request taught is taught at once."""
    log = MemoryEvidenceLog(clock=FakeClock())
    async with School(log=log) as one:
        one.upstream.otherwise = clerk()
        await attend(one, faq(30, seed=7))
    for page in (1, 2, 3, 5, 64):
        monkeypatch.setattr(learning, "_AT_ONCE", page)
        async with School(log=log) as other:
            await other.learns.catch_up()
            assert other.desk.labels(HERE) >= one.desk.labels(HERE)
            if page > 4:
                assert other.desk.labels(HERE) == one.desk.labels(HERE)


async def test_a_miss_labels_its_neighbours() -> None:
    """The fresh answer is compared with those of the nearest; the look is kept once."""
    async with School() as school:
        school.upstream.script(GOOD, OTHER, GOOD)
        for text in (CAT, "When does the shop open?", "Say, what is a cat, please?"):
            await school.go(text)
        first, *others = [one for one in await records(school) if one.verdict != "unsure"][-2:]
        assert {one.verdict for one in (first, *others)} == {"same", "different"}
        assert first.look
        assert not any(one.look for one in others)
        assert first.request_id == others[0].request_id
        assert CAT.encode() not in first.look


async def test_an_audit_asks_behind_the_answer_and_takes_a_wrong_entry_away() -> None:
    """The caller has its answer before the engine is asked; a wrong one answers no other again."""
    async with School(cold_audit=1.0) as school:
        school.upstream.script(GOOD)
        await school.go(CAT)
        school.upstream.script(OTHER)
        school.upstream.open.clear()
        got = await school.get(LIKE_CAT)
        assert (got.how, got.text) == ("semantic", "A cat is an animal.")
        await school.upstream.asked_times(2)
        school.upstream.open.set()
        await school.settled()
        assert judged(school, "audit") == ["different"]
        assert school.plain_index.rows == {}
        assert not any(event.part == "audit" for event in school.sink.of(StepSkipped))


@pytest.mark.parametrize(
    "fault", [Reply(fault="refuse"), Reply(status=500, pieces=(b"{}",)), Chat(text="x" * 200_000)]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_failed_audit_says_nothing(fault: Reply, *, stream: bool) -> None:
    """An engine that fails an audit costs the hit nothing and is no evidence."""
    async with School(cold_audit=1.0) as school:
        school.upstream.script(GOOD)
        await school.go(CAT)
        school.upstream.script(fault)
        assert await school.go(LIKE_CAT, stream=stream) == "semantic"
        assert judged(school, "audit") == ["unsure"]
        assert await school.go(LIKE_CAT) == "semantic"


async def test_audits_thin_out_with_their_allowance() -> None:
    """The less is left of the hour's allowance, the fewer audits, each with its probability."""
    async with School(audits=12.0, cold_audit=1.0) as school:
        school.upstream.otherwise = GOOD
        await school.go(CAT)
        for number in range(40):
            await school.go(f"{LIKE_CAT}{' ' * number}")
        assert 2 <= len(judged(school, "audit")) <= 6
        told = [one.probability for one in await records(school) if one.source == "audit"]
        assert told == sorted(told, reverse=True)
        assert told[-1] < 1


async def test_without_an_allowance_there_are_no_audits() -> None:
    """Audits end where their budget ends."""
    async with School(audits=0.0, cold_audit=1.0) as school:
        school.upstream.script(GOOD)
        await school.go(CAT)
        await school.go(LIKE_CAT)
        assert school.calls == 1


async def test_audits_end_with_the_hours_money() -> None:
    """What is spent is told; past it no hit is audited, and none counts for the bound."""
    async with School(usd=200.0, cold_audit=1.0) as school:
        school.upstream.otherwise = GOOD
        await school.go(CAT)
        for number in range(40):
            await school.go(f"{LIKE_CAT}{' ' * number}")
        told = [one.probability for one in await records(school) if one.source == "audit"]
        paid = [event.cost for event in school.sink.of(Paid)]
        assert 3 < len(paid) == len(told) < 40
        assert 100 < sum(paid) < 200 + paid[-1]
        assert told[0] == 1 > told[-1]
        school.clock.advance(3600)
        await school.go("Say, what is a cat?")
        await school.go("say, what is a cat?")
        assert len(school.sink.of(Paid)) == len(paid) + 1


async def test_hits_that_no_audit_could_see_prove_nothing() -> None:
    """Without audits the bound of an open namespace stays where it was."""
    async with School(audits=0.0) as school:
        school.upstream.otherwise = clerk()
        told = await attend(school, faq(150, seed=1))
        assert told.count("right") > 50
        assert school.desk.standing(HERE).bound == 1.0


async def test_a_failed_audit_is_paid_by_its_question() -> None:
    """The engine may well have charged for it; what it does not count is told by size."""
    async with School(usd=1e9, cold_audit=1.0) as school:
        school.upstream.script(GOOD, Reply(status=500, pieces=(b"{}",)))
        await school.go(CAT)
        ask = school.ask(LIKE_CAT)
        await school.get(ask)
        await school.settled()
        (paid,) = school.sink.of(Paid)
        assert paid.cost == float(len(ask.call.canonical) // 3)


async def test_an_audit_ended_by_its_deadline_is_paid_by_its_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine works on, and charges for it."""
    monkeypatch.setattr(learning, "_DEADLINE", Seconds(0.05))
    async with School(usd=1e9, cold_audit=1.0) as school:
        school.upstream.script(GOOD)
        await school.go(CAT)
        school.upstream.open.clear()
        assert await school.go(LIKE_CAT) == "semantic"
        assert judged(school, "audit") == ["unsure"]
        assert len(school.sink.of(Paid)) == 1


async def test_a_caller_says_whether_an_answer_was_right() -> None:
    """The first word on a hit counts, in the caller's own partition alone."""
    async with School(audits=0.0) as school:
        school.upstream.script(GOOD)
        await school.go(CAT)
        ask = school.ask(LIKE_CAT)
        assert (await school.get(ask)).how == "semantic"
        await school.settled()
        assert not await school.learns.hear("unknown", "different", bytes(32))
        assert not await school.learns.hear(ask.request_id, "different", b"t" * 32)
        assert await school.learns.hear(ask.request_id, "different", bytes(32))
        assert await school.learns.hear(ask.request_id, "same", bytes(32))
        said_so = [one.verdict for one in await records(school) if one.source == "caller"]
        assert said_so == ["different"]


async def test_no_store_leaves_no_evidence() -> None:
    """A caller who wants nothing kept is not learned from."""
    async with School() as school:
        school.upstream.script(GOOD, OTHER)
        await school.go(CAT)
        await school.go("Is it so, what is a cat?", controls=Controls(no_store=True))
        assert await records(school) == []


async def test_an_off_namespace_is_left_alone() -> None:
    """With the mode off nothing is looked up by meaning, and nothing indexed."""
    async with School(mode="off") as school:
        school.upstream.script(GOOD, OTHER)
        await school.go(CAT)
        assert await school.go(LIKE_CAT) == "engine"
        assert school.plain_index.rows == {}


class DeadLog(MemoryEvidenceLog):
    """A log that fails."""

    async def append(self, records: Sequence[Evidence]) -> int:
        """Fail."""
        raise StoreError("as told")

    async def since(self, seq: int, limit: int) -> list[Evidence]:
        """Fail."""
        raise StoreError("as told")


class DeadJudge:
    """A judge with a fault."""

    async def judge(self, question: str, cached: str, fresh: str) -> Verdict:
        """Fail."""
        raise LookupError("as told")

    async def close(self) -> None:
        """Nothing to release."""


async def test_a_dead_log_costs_nothing_but_memory() -> None:
    """Requests are served as ever, and this process still learns for itself."""
    async with School(log=DeadLog(clock=FakeClock()), failures=10_000) as school:
        school.upstream.otherwise = clerk()
        told = await attend(school, flights(40, seed=4))
        assert "wrong" not in told
        assert school.desk.labels(HERE) > 10


async def test_a_dead_log_ends_no_audits() -> None:
    """However long the log is dead, hits are audited, and a wrong entry answers no other again."""
    async with School(log=DeadLog(clock=FakeClock()), cold_audit=1.0) as school:
        school.upstream.otherwise = GOOD
        told = [await school.go(f"{LIKE_CAT}{' ' * number}") for number in range(30)]
        assert judged(school, "audit") == ["same"] * told.count("semantic")
        assert told.count("semantic") > 15
        school.upstream.otherwise = OTHER
        known = set(school.plain_index.rows)
        while judged(school, "audit")[-1] == "same":
            told.append(await school.go(f"{LIKE_CAT}{' ' * len(told)}"))
        assert not known <= set(school.plain_index.rows)


@pytest.mark.slow
async def test_hits_whose_audits_were_skipped_prove_nothing() -> None:
    """While audits are left alone the hits for which the drawn ones stand are not counted."""
    async with School(audit=1.0) as school:
        school.upstream.otherwise = clerk()
        await attend(school, faq(200, seed=1))
        hits = school.desk.standing(HERE).hits
        parts = school.learns._parts
        school.learns._parts = dataclasses.replace(parts, judge=DeadJudge())
        told = await attend(school, faq(300, seed=1)[200:])
        assert told.count("right") > 30
        assert abs(school.desk.standing(HERE).hits - hits) < 10


async def test_a_faulty_judge_costs_nothing_but_labels() -> None:
    """Requests are served by the static rule."""
    async with School(judge=DeadJudge()) as school:
        school.upstream.script(GOOD, OTHER)
        await school.go(CAT)
        assert await school.go("Is it so, what is a cat?") == "engine"
        assert await school.go(LIKE_CAT) == "semantic"
        assert [one for one in await records(school) if one.verdict != "unsure"] == []


@pytest.mark.slow
@pytest.mark.parametrize("says", ["yes", "no", "late", "busy", "fault"])
async def test_a_second_opinion_decides_in_doubt(says: str) -> None:
    """One that is given goes into the account; one that is missing costs a hit and nothing else."""

    def opinion(_question: str, _cached: str) -> float:
        if says == "busy":
            raise VerifierBusy("as told")
        if says == "fault":
            raise LookupError("as told")
        return 15.0 if says == "yes" else -15.0

    second = ScriptedVerifier(opinion, takes=99.0 if says == "late" else 0.0)
    async with School(second=second) as school:
        school.upstream.otherwise = clerk()
        questions = faq(260, seed=1)
        told = await attend(school, questions[:200])
        assert "wrong" not in told
        desk = school.desk
        desk._manners = msgspec.structs.replace(desk._manners, band=100.0)
        told = await attend(school, questions[200:])
        assert told.count("wrong") <= 3
        assert (told.count("right") > 30) is (says in {"yes", "no"})  # a level is found for either
        assert bool(second.asked) is (says != "late")
        skipped = [one.cause for one in school.sink.of(StepSkipped) if one.part == "verifier"]
        assert set(skipped) <= {"late": {"busy"}, "busy": {"busy"}}.get(says, {"error", "breaker"})
        assert bool(skipped) is (says in {"late", "busy", "fault"})


async def test_a_faulty_desk_leaves_the_static_rule() -> None:
    """When the decision itself fails, floor and guards decide, and the fault is counted."""
    async with School() as school:
        school.desk.look = None  # type: ignore[method-assign, assignment] # a fault of any kind
        school.upstream.script(GOOD)
        await school.go(CAT)
        got = await school.get(LIKE_CAT)
        assert isinstance(got.reply, Hit)
        assert any(event.part == "trust" for event in school.sink.of(StepSkipped))


async def test_without_token_vectors_the_static_rule_stays() -> None:
    """An embedder that gives no token vectors works as before, and its labels still count."""
    async with School(embedder=HashingEmbedder(dim=128)) as school:
        school.upstream.script(GOOD)
        await school.go(CAT)
        assert await school.go(LIKE_CAT) == "semantic"


async def test_too_many_cases_are_let_go() -> None:
    """A slow judge holds up no more than so many cases."""

    class Slow(DeadJudge):
        async def judge(self, question: str, cached: str, fresh: str) -> Verdict:
            """Wait for ever."""
            await asyncio.Event().wait()
            raise AssertionError

    async with School(judge=Slow()) as school:
        school.upstream.otherwise = clerk()
        for text in flights(learning._WAITING + 20, seed=5):
            await school.get(text)
            while school.cache._leads:
                await asyncio.sleep(0)
        assert len(school.learns._cases) == learning._WAITING
        await school.learns.close(0.0)


async def test_only_questions_of_one_context_teach_about_each_other() -> None:
    """The same words after another history are no neighbour; what is gone is forgotten."""
    rent = [{"role": "user", "content": "My landlord wants to raise the rent."}]
    chatty = [{"role": "user", "content": "Hi! My landlord wants to raise the rent."}]
    pay = [{"role": "user", "content": "My employer wants to cut my pay."}]
    async with School() as school:
        school.upstream.script(GOOD, OTHER, OTHER)
        for history in (rent, pay):
            await school.get(school.talk(history, "Is that legal?"))
            await school.settled()
        assert await records(school) == []
        got = await school.get(school.talk(chatty, "is that legal?"))
        assert (got.how, got.text) == ("semantic", "A cat is an animal.")
        await school.settled()
        assert {one.source for one in await records(school)} == {"asked", "hit"}
        for key in list(school.plain_index.rows):
            await school.store.delete(key)
        school.exact.cool()
        assert (await school.get(school.talk(chatty, "Is this legal?"))).how == "engine"
        await school.settled()
        assert len(school.plain_index.rows) == 1


class Mute:
    """A judge that cannot tell."""

    def __init__(self) -> None:
        self.asked = 0

    async def judge(self, question: str, cached: str, fresh: str) -> Verdict:
        """Whatever it is, it is not sure."""
        self.asked += 1
        return Verdict("unsure", "wording")

    async def close(self) -> None:
        """Nothing to close."""


async def test_a_judge_that_cannot_tell_costs_few_audits() -> None:
    """Near-copies are served on, audits get rare, and the share of verdicts is told."""
    async with School(judge=Mute(), thrift=Thrift(of_hits=0.2, of_requests=0.2)) as school:
        school.upstream.otherwise = GOOD
        await school.go(CAT)
        hows = [await school.go(f"{LIKE_CAT}{' ' * number}") for number in range(120)]
        assert hows.count("semantic") > 100
        told = [one.probability for one in await records(school) if one.source == "audit"]
        assert 2 < len(told) < 20
        assert told[-1] <= 0.1
        assert school.sink.of(TrustMoved)[-1].told < 0.6
        assert school.desk.cold(HERE)


async def test_that_a_judge_cannot_tell_of_misses_is_told_as_well() -> None:
    """Where nothing is audited, as in shadow mode, the share of verdicts is seen to fall."""
    async with School(judge=Mute(), mode="shadow") as school:
        school.upstream.otherwise = GOOD
        await school.go(CAT)
        for number in range(12):
            await school.go(f"{LIKE_CAT}{' ' * number}")
        assert school.sink.of(TrustMoved)[-1].told == school.desk.told(HERE) < 0.5


async def test_an_audit_teaches_of_the_other_neighbours_as_well() -> None:
    """The engine's answer is there, so it is compared with theirs: labels of the same chance."""
    async with School(cold_audit=1.0) as school:
        school.upstream.script(GOOD, OTHER, GOOD)
        for text in (CAT, "When does the shop open?", LIKE_CAT):
            await school.go(text)
        found = [one for one in await records(school) if one.probability < 1 or one.seq > 4]
        sources = [(one.source, one.verdict) for one in found][-2:]
        assert sources == [("audit", "same"), ("miss", "different")]
        assert found[-1].look


async def test_audits_that_wait_for_a_slow_engine_hold_up_no_learning() -> None:
    """Past a few of them hits are not audited, and misses teach on."""
    async with School(cold_audit=1.0) as school:
        school.upstream.script(GOOD)
        await school.go(CAT)
        school.upstream.otherwise = GOOD
        school.upstream.open.clear()
        for _ in range(30):
            assert (await asyncio.wait_for(school.get(LIKE_CAT), 5.0)).how == "semantic"
        assert len(school.learns._cases) < 15
        school.upstream.open.set()
        await school.settled()
        assert 5 < len(judged(school, "audit")) < 15
