"""The desk decides by rule while cold and by evidence when warm, the same for the same evidence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from askonce.ports import Evidence, IndexedText, Neighbour, ReadText
from askonce.testing.embedders import TokenEmbedder
from askonce.trust.account.asked import Place, Step, unpacked
from askonce.trust.account.budget import Budget, Caution
from askonce.trust.account.ledger import Policy
from askonce.trust.account.thrift import UNWATCHED, Thrift
from askonce.trust.desk import TrustDesk
from askonce.trust.labels import requests
from askonce.trust.looks import pack, unpack
from askonce.trust.names import question_digest
from askonce.trust.prior import shipped
from askonce.trust.sight import Lesson, Manners, Verdict
from askonce.units import Cosine, UnixTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Agreement, EvidenceSource

DIM = 64
PLACE = Place(b"default", b"p" * 32)
EMBEDDER = TokenEmbedder(dim=DIM)


def read(text: str) -> ReadText:
    """As the embedder reads it."""
    return asyncio.run(EMBEDDER.read(text))


PLENTY = Thrift(of_hits=float("inf"), of_requests=float("inf"))
"""Audits cost nothing."""


def made(thrift: Thrift = PLENTY, **manners: float) -> TrustDesk:
    """A desk without evidence."""
    return TrustDesk(
        shipped(),
        DIM,
        policy=Policy(budget=Budget(0.05), caution=Caution(forced=0.0)),
        manners=Manners(floor=Cosine(0.9), thrift=thrift, **manners),  # type: ignore[arg-type] # numbers by name
        seed=b"seed",
    )


def near(asked: str, *cached: str, bare: bool = False) -> list[Neighbour]:
    """Cached questions as an index finds them; bare: one that keeps no vectors."""
    vector = read(asked).vector
    found = []
    for text in cached:
        known = read(text)
        tokens, kept = (b"", b"") if bare else (known.tokens, known.vector.tobytes())
        item = IndexedText(question_digest(b"", text), text, UnixTime(9e9), tokens)
        found.append(Neighbour(Cosine(float(known.vector @ vector)), item, kept))
    return sorted(found, key=lambda one: -one.score)


def judged(desk: TrustDesk, asked: str, *cached: str, request: str = "r") -> Verdict:
    """A decision."""
    return desk.judge(PLACE, asked, read(asked), near(asked, *cached), request)


def record(
    verdict: Verdict,
    said: Agreement,
    *,
    asked: str = "q",
    entry: bytes = b"",
    source: EvidenceSource = "miss",
    request: str = "r",
    look: bool = True,
    probability: float = 1.0,
) -> Evidence:
    """What the live path would log."""
    best = verdict.seen.keys[verdict.best] if verdict.seen is not None else b"e" * 32
    return Evidence(
        at=UnixTime(0),
        namespace="default",
        partition=PLACE.partition,
        request_id=request,
        question=question_digest(PLACE.partition, asked),
        entry=entry or best,
        score=verdict.score,
        verdict=said,
        source=source,
        probability=probability,
        mode="on",
        look=TrustDesk.packed(verdict) if look else b"",
    )


def teach(desk: TrustDesk, count: int, said: Agreement, seed: int = 0) -> None:
    """So many misses whose best neighbour was the same, or different."""
    for number in range(count):
        request = f"{seed}-{number}"
        asked = f"how do i reset password number {number}"
        verdict = judged(desk, asked, "how do i reset my password number", request=request)
        lessons = desk.take([record(verdict, said, asked=asked, request=request)])
        list(TrustDesk.study(lessons))


def test_cold_a_near_copy_is_served() -> None:
    """Without evidence the floor and the guards decide."""
    desk = made()
    assert desk.cold(PLACE)
    verdict = judged(desk, "What is a cat?", "what is a cat?", "Something else entirely")
    assert verdict.serve
    assert verdict.order == (0,)
    assert verdict.seen is not None
    assert verdict.seen.static == 0
    assert judged(desk, "What is a cat?", "Something else entirely").order == ()


def test_cold_a_veto_holds() -> None:
    """A guard refuses a near-copy, which is told; another near-copy may still pass."""
    verdict = judged(made(), "Is 12 prime?", "is 13 prime?", "is 12 prime?")
    assert verdict.order != ()
    assert near("Is 12 prime?", "is 13 prime?", "is 12 prime?")[verdict.order[0]].item.text == (
        "is 12 prime?"
    )
    texts = [f"Is the number {n} prime in the sense that my teacher gave it?" for n in (12, 13)]
    refused = judged(made(), *texts)
    assert refused.order == ()
    assert len(refused.vetoes) == 1


def test_no_neighbours_no_answer() -> None:
    """An empty partition is counted and answered by the engine."""
    assert judged(made(), "What is a cat?") == Verdict()


def test_a_score_that_is_no_number_is_not_served() -> None:
    """A broken vector is no proof."""
    (one,) = near("a cat", "a cat")
    broken = Neighbour(Cosine(float("nan")), one.item, b"")
    assert not made().judge(PLACE, "a cat", read("a cat"), [broken], "r").serve


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_cold_hits_are_audited_by_share(share: float) -> None:
    """The cold audit share is kept, and tells its probability."""
    verdict = judged(made(cold_audit=share), "What is a cat?", "what is a cat?")
    assert verdict.audit is (share == 1.0)
    assert (verdict.watched, verdict.chance) == (share == 1.0, 1.0)


def test_without_vectors_the_static_rule_stays() -> None:
    """An index or an embedder that keeps no token vectors is decided by floor and guards."""
    desk = made()
    asked = "What is a cat?"
    verdict = desk.judge(PLACE, asked, read(asked), near(asked, "what is a cat?", bare=True), "r")
    assert verdict.order == (0,)
    assert verdict.seen is None
    assert desk.take([record(verdict, "same")]) == []
    assert desk.labels(PLACE) == 1
    bare = ReadText(read(asked).vector, b"")
    assert desk.judge(PLACE, asked, bare, near(asked, "what is a cat?"), "s").seen is None


@pytest.mark.parametrize("source", ["audit", "caller", "operator"])
def test_without_token_vectors_a_wrong_answer_closes_as_well(source: EvidenceSource) -> None:
    """Then evidence on the cosine must agree with the floor and the guards."""
    desk = made()
    asked, cached = "What is a cat?", "what is a cat?"
    bare = ReadText(read(asked).vector, b"")

    def decided(request: str) -> Verdict:
        return desk.judge(PLACE, asked, bare, near(asked, cached, bare=True), request)

    verdict = decided("one")
    assert verdict.serve
    desk.take([record(verdict, "different", source=source, request="one")])
    assert not desk.cold(PLACE)
    assert not decided("two").serve
    for number in range(90):
        seen = decided(f"{number}")
        desk.take([record(seen, "same", asked=f"{number}", request=f"{number}")])
    assert desk.standing(PLACE).open
    assert decided("three").serve


def test_evidence_opens() -> None:
    """Enough right verdicts open a level, and then the score decides, without a floor."""
    desk = made()
    teach(desk, 120, "same")
    assert desk.standing(PLACE).open
    assert not desk.cold(PLACE)
    verdict = judged(desk, "how do i reset password nr 7", "how do i reset my password number")
    assert verdict.serve
    assert verdict.best == verdict.order[0]


def test_evidence_closes() -> None:
    """A namespace with enough labels and no level serves nothing, near-copies neither."""
    desk = made(enough=30)
    teach(desk, 30, "different")
    assert not desk.standing(PLACE).open
    assert not desk.cold(PLACE)
    text = "how do i reset my password number"
    assert not judged(desk, text + "?", text).serve


def test_one_wrong_static_answer_ends_the_static_rule() -> None:
    """A static hit that a judge calls different closes the namespace until evidence opens it."""
    desk = made()
    verdict = judged(desk, "What is a cat?", "what is a cat?", request="one")
    desk.take([record(verdict, "different", source="audit", request="one")])
    assert not desk.cold(PLACE)
    assert not judged(desk, "What is a cat?", "what is a cat?", request="two").serve


def test_neighbours_with_the_same_answer_stand_in_for_one_another() -> None:
    """A serving order holds the best and those whose answers were judged the same as its own."""
    desk = made()
    teach(desk, 120, "same")
    asked, one, other = "how to reset it", "how do i reset password number 3", "reset password"
    verdict = judged(desk, "x " + one, one, other, request="join")
    both = [
        record(verdict, "same", asked=asked, entry=question_digest(b"", text), request="join")
        for text in (one, other)
    ]
    for number in range(3):
        desk.take([msgspec.structs.replace(each, request_id=f"join-{number}") for each in both])
    order = judged(desk, one + " please", one, other, request="then").order
    assert sorted(order) == [0, 1]


def test_unsure_is_no_evidence() -> None:
    """A verdict that is none teaches nothing."""
    desk = made()
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    assert desk.take([record(verdict, "unsure")]) == []
    assert desk.labels(PLACE) == 0
    assert desk.labels(Place(b"elsewhere", b"")) == 0


def test_a_hit_is_no_label() -> None:
    """A hit's own record only says what was served."""
    desk = made()
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    assert desk.take([record(verdict, "unsure", source="hit", look=False)]) == []
    assert desk.labels(PLACE) == 0


def told(desk: TrustDesk) -> Evidence:
    """The record of the requests that the desk has decided."""
    return requests(desk.asked.packed(), "process", UnixTime(0))


def test_requests_that_cannot_be_read_are_let_be() -> None:
    """What another release wrote of requests costs nothing."""
    desk = made()
    for strange in (b"strange", b"\x90", b""):
        assert desk.take([requests(strange, "process", UnixTime(0))]) == []


@pytest.mark.parametrize("source", ["operator", "caller"])
def test_words_count_without_a_look(source: EvidenceSource) -> None:
    """What people say of an answer is evidence for the level, if not for the verifier."""
    desk = made()
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    assert desk.take([record(verdict, "different", source=source, look=False)]) == []
    assert desk.labels(PLACE) == 1


def test_a_retraction_without_a_place_is_let_be() -> None:
    """An entry that was never seen tells nothing when it is retracted."""
    desk = made()
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    gone = msgspec.structs.replace(
        record(verdict, "different", source="operator", look=False), partition=b"", retracted=True
    )
    assert desk.take([gone]) == []
    assert desk.labels(PLACE) == 0


def test_looks_of_another_release_are_let_be() -> None:
    """A look that cannot be read still gives its label."""
    desk = made()
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    for strange in (b"strange", b"\x90"):
        odd = msgspec.structs.replace(record(verdict, "same"), look=strange)
        assert desk.take([odd]) == []
    assert desk.labels(PLACE) == 2


def test_looks_of_another_width_are_let_be() -> None:
    """A look of other features or another embedder costs its lesson alone; its verdict counts."""
    desk = made()
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    assert verdict.seen is not None
    look = verdict.seen.look
    for other in (
        look._replace(rows=look.rows[:, 1:]),
        look._replace(products=look.products[:, 1:]),
        look._replace(answers=look.answers[:, 1:]),
    ):
        packed = pack(verdict.seen._replace(look=other))
        strange = msgspec.structs.replace(record(verdict, "same"), look=packed)
        assert desk.take([strange]) == []
    assert desk.labels(PLACE) == 3


def test_the_same_evidence_decides_the_same() -> None:
    """A desk that takes another's records stands where that one stands, all requests counted."""
    one, other = made(), made()
    records: list[Evidence] = []
    for number in range(60):
        request = f"r{number}"
        asked = f"how do i reset password number {number}"
        verdict = judged(one, asked, "how do i reset my password number", request=request)
        judged(one, "and now for something else", request=f"alone {number}")
        records += [told(one), record(verdict, "same", asked=asked, request=request)]
        list(TrustDesk.study(one.take(records[-1:])))
    list(TrustDesk.study(other.take(records)))
    assert one.standing(PLACE) == other.standing(PLACE)
    asked, text = "how do i reset password nr 99", "how do i reset my password number"
    ours, theirs = (judged(each, asked, text, request="x") for each in (one, other))
    assert ours.order == theirs.order
    assert ours.score == pytest.approx(theirs.score, abs=0.5)


def test_hits_that_came_to_nothing_are_taken_back() -> None:
    """Here and wherever the log is followed, whether the place is known or not."""
    one, other = made(), made()
    teach(one, 150, "same")
    for number in range(60):
        asked, text = f"how do i reset password nr {number}", "how do i reset my password number"
        verdict = judged(one, asked, text, request=f"then {number}")
        if verdict.counted and number % 2:
            one.withdraw(PLACE, verdict)
        one.withdraw(PLACE, Verdict())
    elsewhere = Place(b"default", b"q" * 32)
    seen = one.judge(elsewhere, text, read(text), near(text, text), "elsewhere")
    assert seen.counted
    hits = one.standing(PLACE).hits
    one.withdraw(elsewhere, seen)
    one.unwatch(PLACE, judged(one, asked, text, request="unwatched"))
    steps = list(unpacked(one.asked.packed()))
    assert {step.what for step in steps} == {"asked", "served", "withdrawn", "unwatched"}
    assert steps[-3].partition == b""
    assert one.standing(PLACE).hits == hits
    for step in steps:
        other._ledger.repeat(step)
    taken_back = {"withdrawn", "unwatched"}
    served = sum((step.what == "served") - (step.what in taken_back) for step in steps)
    assert other._ledger._root.node.checked.hits == served
    other._ledger.repeat(Step(b"default", b"", None, "withdrawn"))
    assert other._ledger._root.node.checked.hits == served


def test_a_second_opinion_counts_in_doubt_alone() -> None:
    """Near the threshold of a warm namespace, and it moves the score by no more than the doubt."""
    desk = made(band=1.0)
    asked, text = "how do i reset password nr 7", "how do i reset my password number"
    sight = desk.look(PLACE, asked, read(asked), near(asked, text))
    assert not desk.in_doubt(sight)
    teach(desk, 150, "same")
    sight = desk.look(PLACE, asked, read(asked), near(asked, text))
    assert sight.best == 0
    level = desk._ledger.threshold(PLACE)
    assert desk.in_doubt(sight._replace(odds=level + 0.9))
    assert not desk.in_doubt(sight._replace(odds=level + 1.1))
    assert not desk.in_doubt(desk.look(PLACE, asked, read(asked), []))
    own = sight._replace(odds=level + 0.5)
    assert desk.advised(own, level - 0.5).odds == pytest.approx(level)
    assert desk.advised(own, -15.0).odds == pytest.approx(level - 0.5)
    assert desk.advised(own, 15.0).odds == pytest.approx(level + 1.5)
    assert desk.decide(own, "one").order == (0,)
    assert desk.decide(desk.advised(own, -15.0), "two").score == pytest.approx(level - 0.5)


def test_a_missing_opinion_serves_nothing() -> None:
    """Nor does it count as served; the score stays the desk's own."""
    desk = made()
    teach(desk, 150, "same")
    asked, text = "how do i reset password nr 7", "how do i reset my password number"
    sight = desk.look(PLACE, asked, read(asked), near(asked, text))
    hits = desk.standing(PLACE).hits
    verdict = desk.decide(sight, "one", hold=True)
    assert (verdict.order, verdict.counted, verdict.chance) == ((), False, 1.0)
    assert verdict.score == sight.odds
    assert desk.standing(PLACE).hits == hits


def test_a_seldom_seen_label_weighs_more_up_to_a_bound() -> None:
    """Audits teach the verifier by the inverse of their probability, five at most."""
    desk = made()
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    lessons: Sequence[Lesson] = desk.take(
        [
            record(verdict, "same", source="audit", request="a", probability=0.5),
            record(verdict, "same", source="audit", request="b", probability=0.01),
        ]
    )
    assert [lesson.weight for lesson in lessons] == [2.0, 5.0]


def test_namespaces_are_bounded() -> None:
    """The namespace longest unused forgets what it learned."""
    desk = made(namespaces=2)
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    for name in ("default", "b", "c"):
        one = msgspec.structs.replace(record(verdict, "same", request=name), namespace=name)
        desk.take([one])
    assert desk.labels(PLACE) == 0
    assert desk.labels(Place(b"c", b"")) == 1


def test_a_forgotten_namespace_does_not_repeat_its_mistake() -> None:
    """Who brings many others cannot have the fixed rule that was wrong there decide again."""
    desk = made(namespaces=1)
    verdict = judged(desk, "What is a cat?", "what is a cat?", request="one")
    desk.take([record(verdict, "different", source="audit", request="one")])
    other = msgspec.structs.replace(record(verdict, "same", request="two"), namespace="other")
    desk.take([other])
    assert desk.labels(PLACE) == 0
    assert not judged(desk, "What is a cat?", "what is a cat?", request="three").serve


def test_a_look_comes_back_as_packed() -> None:
    """Packing loses nothing that is learned from."""
    verdict = judged(made(), "What is a cat?", "what is a cat?", "what is a dog?")
    assert verdict.seen is not None
    back = unpack(pack(verdict.seen))
    assert back.keys == verdict.seen.keys
    for name, kept in back.look._asdict().items():
        ours = getattr(verdict.seen.look, name)
        pairs = zip(kept, ours, strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs), name


def test_what_is_no_look_is_refused() -> None:
    """Lengths that do not fit each other are an error."""
    verdict = judged(made(), "What is a cat?", "what is a cat?")
    assert verdict.seen is not None
    for wrong in (verdict.seen._replace(questions=()), verdict.seen._replace(keys=())):
        with pytest.raises(ValueError, match="not a look"):
            unpack(pack(wrong))


def test_drift_makes_a_namespace_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the ledger tells of a drift, the static rule does not come back."""
    desk = made()
    teach(desk, 3, "same")
    learn = desk._ledger.learn
    monkeypatch.setattr(desk._ledger, "learn", lambda *told: learn(*told) or True)
    teach(desk, 1, "same", seed=1)
    assert not desk.cold(PLACE)
    desk._namespaces[PLACE.namespace].since = 0.5
    assert desk.since(PLACE) == 0.5
    assert desk.since(Place(b"else", b"")) == 0.0


def hit(verdict: Verdict, request: str, how: str = "") -> Evidence:
    """What the live path logs of a hit."""
    record_of = record(verdict, "unsure", source="hit", request=request, look=False)
    return msgspec.structs.replace(record_of, how=how, probability=verdict.chance)


def test_cold_audits_cost_a_share_of_the_requests() -> None:
    """However many near-copies come, one request in fifty is audited, by a known chance."""
    desk = made(thrift=Thrift())
    audits = 0
    for number in range(400):
        request = f"r{number}"
        verdict = judged(desk, "What is a cat?", "what is a cat?", request=request)
        assert verdict.serve
        audits += verdict.audit
        desk.take([hit(verdict, request, "" if verdict.watched else UNWATCHED)])
    assert 2 <= audits <= 16
    assert made(thrift=Thrift()).told(PLACE) == 1.0


def test_what_an_audit_says_of_other_neighbours_is_not_of_a_hit() -> None:
    """That the judge cannot tell those apart is no reason to distrust the evidence."""
    desk = made()
    for number in range(60):
        verdict = judged(desk, "What is a cat?", "what is a cat?", request=f"u{number}")
        other = record(verdict, "unsure", request=f"u{number}", look=False, probability=0.2)
        desk.take([other])
    assert desk.told(PLACE) == 1.0


def test_audits_without_a_verdict_get_rare() -> None:
    """A judge that is always unsure costs few audits, and the record says so."""
    desk = made(thrift=Thrift(of_hits=1.0, of_requests=1.0))
    chances = []
    for number in range(80):
        verdict = judged(desk, "What is a cat?", "what is a cat?", request=f"r{number}")
        chances.append(verdict.chance)
        desk.take([hit(verdict, f"r{number}")])
        desk.take([record(verdict, "unsure", source="audit", request=f"r{number}", look=False)])
    assert chances[0] == 0.3
    assert chances[-1] < 0.05
    assert desk.told(PLACE) < 0.2


def test_hits_whose_audits_say_nothing_prove_nothing() -> None:
    """As many hits leave the bound as an audit without a verdict stood for."""
    desk = made(enough=1.0)
    teach(desk, 300, "same")
    served = []
    for number in range(200):
        request = f"again-{number}"
        asked = f"how do i reset password number {number}"
        verdict = judged(desk, asked, "how do i reset my password number", request=request)
        if verdict.serve:
            served.append((request, verdict))
    before = desk.standing(PLACE)
    assert len(served) > 50
    for request, verdict in served[:3]:
        known = record(verdict, "unsure", source="audit", request=request, look=False)
        desk.take([msgspec.structs.replace(known, probability=0.25)])
    assert desk.standing(PLACE).hits == before.hits - 12
    assert desk.standing(PLACE).bound >= before.bound


def test_requests_decided_elsewhere_earn_as_well() -> None:
    """Another process's requests, told by the log, pay for cold audits here."""
    one, other = made(thrift=Thrift()), made(thrift=Thrift())
    for number in range(20):
        judged(one, "What is a cat?", "what is a cat?", request=f"r{number}")
        one.asked.note(PLACE, 3, "withdrawn")  # of an earlier one, and no request
    judged(other, "What is a cat?", "what is a cat?", request="first")
    other.take([requests(one.asked.packed(), "elsewhere", UnixTime(0))])
    verdict = judged(other, "What is a cat?", "what is a cat?", request="second")
    assert verdict.chance == pytest.approx(0.2)


def test_where_only_the_cosine_is_known_a_warm_hit_is_audited_as_the_account_says() -> None:
    """The share of the cold rule ends with it."""
    desk = made(enough=1.0, cold_audit=1.0)
    for number in range(400):
        verdict = desk.judge(PLACE, "a b c", read("a b c"), near("a b c", "a b c", bare=True), "r")
        desk.take([record(verdict, "same", request=f"m{number}", look=False)])
    verdict = desk.judge(PLACE, "a b c", read("a b c"), near("a b c", "a b c", bare=True), "r")
    assert verdict.serve
    assert verdict.counted
    assert verdict.chance < 0.6


def unsure(desk: TrustDesk, count: int) -> None:
    """So many misses beside a likely candidate of whose answer the judge could not tell."""
    for number in range(count):
        verdict = judged(desk, "What is a cat?", "what is a cat?", request=f"u{number}")
        desk.take([record(verdict, "unsure", request=f"u{number}", look=False)])


def test_a_judge_that_mostly_cannot_tell_opens_nothing() -> None:
    """The verdicts that there are may be the rosy ones: near-copies alone are served again."""
    desk = made(enough=1.0)
    teach(desk, 300, "same")
    asked = "how do i reset password number 7"
    cached = "how do i reset my password number"
    assert not desk.cold(PLACE)
    assert judged(desk, asked, cached).serve
    unsure(desk, 60)
    assert desk.told(PLACE) < 0.5
    assert desk.cold(PLACE)
    teach(desk, 60, "same", seed=1)
    assert not desk.cold(PLACE)


def test_blind_and_mistaken_serves_nothing() -> None:
    """Where the static rule was wrong and the judge cannot tell, there is nothing to go by."""
    desk = made(enough=1.0)
    teach(desk, 300, "same")
    wrong = judged(desk, "What is a cat?", "what is a cat?", request="w")
    desk.take([record(wrong, "different", entry=b"x" * 32, source="audit", look=False)])
    assert judged(desk, "What is a cat?", "what is a cat?").serve
    unsure(desk, 60)
    verdict = judged(desk, "What is a cat?", "what is a cat?")
    assert not desk.cold(PLACE)
    assert (verdict.serve, verdict.counted) == (False, False)


def test_blind_and_mistaken_is_not_for_ever() -> None:
    """Nothing is served, so nothing is audited: the judge shows at what would be served."""
    desk = made(enough=1.0)
    teach(desk, 300, "same")
    wrong = judged(desk, "What is a cat?", "what is a cat?", request="w")
    desk.take([record(wrong, "different", entry=b"x" * 32, source="audit", look=False)])
    asked, cached = "how do i reset password number 7", "how do i reset my password number"
    for number in range(60):
        verdict = judged(desk, asked, cached, request=f"a{number}")
        desk.take([record(verdict, "unsure", source="audit", request=f"a{number}", look=False)])
    assert not judged(desk, asked, cached).serve
    teach(desk, 100, "same", seed=1)
    assert not desk.cold(PLACE)
    assert judged(desk, asked, cached).serve


def test_an_answer_that_was_lost_says_nothing_of_the_judge() -> None:
    """Entries that have left are no reason to distrust the evidence."""
    desk = made()
    for number in range(60):
        verdict = judged(desk, "What is a cat?", "what is a cat?", request=f"u{number}")
        known = record(verdict, "unsure", request=f"u{number}", look=False)
        desk.take([msgspec.structs.replace(known, how="lost")])
    assert desk.told(PLACE) == 1.0


def test_audits_that_the_engine_failed_say_nothing_of_the_judge() -> None:
    """An engine that is down behind the hits closes nothing."""
    desk = made()
    for number in range(60):
        verdict = judged(desk, "What is a cat?", "what is a cat?", request=f"u{number}")
        known = record(verdict, "unsure", source="audit", request=f"u{number}", look=False)
        desk.take([msgspec.structs.replace(known, how="lost")])
    assert desk.told(PLACE) == 1.0
