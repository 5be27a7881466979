"""The decision for one question beside its neighbours, and what is learned from verdicts.

Cold, a namespace is decided by a static rule: a high cosine and no guard against it. It is warm
once its own evidence has opened a level, has shown the static rule wrong, or is plenty. Then the
learned score decides alone, by the budget. All that changes a decision comes in through `take`,
`study` and the requests themselves, so decisions are the same wherever the same evidence was taken
in the same order.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from askonce.trust.account.asked import Asked, Place, Step, What, unpacked
from askonce.trust.account.budget import Decision, chance
from askonce.trust.account.evidence import Label, cell_of, odds_of_cosine
from askonce.trust.account.ledger import Ledger, Policy, Standing
from askonce.trust.account.thrift import UNWATCHED, Spending
from askonce.trust.alignment import from_bytes
from askonce.trust.answers import SameAnswers
from askonce.trust.kept import parted
from askonce.trust.labels import LOST
from askonce.trust.looks import Seen, pack, unpack
from askonce.trust.names import question_digest
from askonce.trust.namespace import SIGHTED, Namespace, Scars
from askonce.trust.sight import Lesson, Manners, Sight, Verdict
from askonce.trust.text.guards import veto
from askonce.trust.text.reading import analyse
from askonce.trust.verifier import Learner, Text, score, see

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from askonce.ports import Evidence, Neighbour, ReadText
    from askonce.trust.account.evidence import Source
    from askonce.trust.prior import Prior

_SOURCES: dict[str, Source] = {
    "miss": "miss",
    "shadow": "miss",
    "audit": "audit",
    "operator": "operator",
    "caller": "caller",
}
_HEAVIEST = 5.0
"""What one label may weigh for the verifier, however seldom its kind is seen."""
_WHOLE = 8
"""Namespaces whose verifiers may remember all they can; each further one has less than the last."""
_OF_HITS = frozenset({"audit", "caller", "operator"})
"""Who speaks of answers that were served."""


class TrustDesk:
    """A verifier for each namespace and one ledger; bounded in memory.

    All but `study` is to be called from one thread; `study` from one other.
    """

    def __init__(
        self, prior: Prior, dim: int, *, policy: Policy, manners: Manners, seed: bytes
    ) -> None:
        """Start without evidence; dim: of the embedder. seed: see `Ledger`."""
        self._prior = prior
        self._dim = dim
        self._manners = manners
        self._seed = seed
        self._ledger = Ledger(policy, seed)
        self._answers = SameAnswers()
        self._namespaces: OrderedDict[bytes, Namespace] = OrderedDict()
        self._scars = Scars()
        self.asked = Asked()
        """Requests decided here that the log does not know of yet."""

    def judge(
        self, place: Place, text: str, read: ReadText, near: Sequence[Neighbour], request: str
    ) -> Verdict:
        """Look and decide; near: best first."""
        return self.decide(self.look(place, text, read, near), request)

    def look(self, place: Place, text: str, read: ReadText, near: Sequence[Neighbour]) -> Sight:
        """Measure; counts nothing."""
        if not near:
            return Sight(place, text, near)
        seen = self._see(place, text, read, near)
        odds = odds_of_cosine(near[0].score) if seen is None else float(seen.look.logits.max())
        return Sight(place, text, near, seen, odds)

    def in_doubt(self, sight: Sight) -> bool:
        """Whether a second opinion may change the decision: the score is near the threshold."""
        if sight.seen is None or sight.odds is None or self.cold(sight.place):
            return False
        return abs(sight.odds - self._ledger.threshold(sight.place)) <= self._manners.band

    def advised(self, sight: Sight, odds: float) -> Sight:
        """With a second opinion: half way towards it, and no further than the doubt was wide.

        The account is kept by the score that comes of it, so an opinion that is worth nothing
        costs hits and not the budget.
        """
        own, band = sight.odds or 0.0, self._manners.band
        return sight._replace(odds=own + min(band, max(-band, (odds - own) / 2)))

    def decide(self, sight: Sight, request: str, *, hold: bool = False) -> Verdict:
        """Decide, and count the request; hold: serve nothing, since an opinion is missing."""
        place, seen, best = sight.place, sight.seen, sight.best
        decision = self._decide(place, sight.odds, request)
        if sight.odds is None:
            return Verdict()
        verdict = Verdict((), best, sight.odds, seen=seen, counted=decision.serve)
        if self.cold(place):
            cold = self._static(verdict, sight.text, sight.near)
            return self._audited(place, cold, self._manners.cold_audit, request)
        if hold or self.told(place) < SIGHTED:
            self.withdraw(place, verdict)
            return verdict._replace(counted=False)
        if not decision.serve:
            return verdict
        if seen is None:  # only the cosine is known: evidence and the static rule must both agree
            verdict = self._static(verdict, sight.text, sight.near)
        else:
            verdict = verdict._replace(order=self._alike(seen, best))
        return self._audited(place, verdict, decision.chance, request)

    def _alike(self, seen: Seen, best: int) -> tuple[int, ...]:
        """The best place, and those of the same answer after it."""
        answers = [self._answers.of(question, question) for question in seen.questions]
        others = (at for at, one in enumerate(answers) if one == answers[best] and at != best)
        return (best, *others)

    def _audited(self, place: Place, verdict: Verdict, wanted: float, request: str) -> Verdict:
        """Draw whether a hit is audited, as likely as is wanted and can be afforded."""
        if not verdict.order:
            return verdict
        spending = self._namespace(place.namespace).spending
        share = spending.chance(wanted, cold=self.cold(place))
        if not share:
            return verdict._replace(watched=False)
        drawn = chance(self._seed, request.encode(), b"audit")
        return verdict._replace(audit=drawn < share, chance=share)

    def withdraw(self, place: Place, verdict: Verdict) -> None:
        """Nothing was served after all: the entries were gone, not confirmed, or only a shadow."""
        self._add(place, verdict, "withdrawn")

    def unwatch(self, place: Place, verdict: Verdict) -> None:
        """What was served could not be audited: of such hits the bound says nothing."""
        self._add(place, verdict, "unwatched")

    def take(self, records: Sequence[Evidence]) -> list[Lesson]:
        """Take evidence in the order of the log; returns what `study` is to learn.

        Of records of requests it wants those alone that were decided elsewhere.
        """
        lessons = (
            self._take_request(list(group))
            for _, group in groupby(records, key=lambda one: (one.request_id, one.source))
        )
        return [lesson for lesson in lessons if lesson is not None]

    @staticmethod
    def packed(verdict: Verdict) -> bytes:
        """What a verdict's record carries for `take` to learn from; empty without vectors."""
        return b"" if verdict.seen is None else pack(verdict.seen)

    @staticmethod
    def study(lessons: Sequence[Lesson]) -> Iterator[None]:
        """Learn piece by piece; each ends where another thread may have its turn.

        A lesson takes 0.1 ms, a fit now and then 50 ms, of which it holds up others for little.
        """
        for lesson in lessons:
            lesson.learner.learn(lesson.look, lesson.same, lesson.weight)
            yield
            if lesson.learner.due:
                lesson.learner.refit()
                yield

    def since(self, place: Place) -> float:
        """When the last drift was noticed here; 0 if there was none."""
        known = self._namespaces.get(place.namespace)
        return 0.0 if known is None else known.since

    def cold(self, place: Place) -> bool:
        """Whether the static rule decides here."""
        known = self._namespaces.get(place.namespace)
        if known is None:
            return True
        if known.mistaken:
            return False
        return known.blind or not (known.open or known.labels >= self._manners.enough)

    def standing(self, place: Place) -> Standing:
        """How far this place may go now, and on what evidence."""
        return self._ledger.standing(place)

    def told(self, place: Place) -> float:
        """How often the judge can tell in this place's namespace."""
        known = self._namespaces.get(place.namespace)
        return 1.0 if known is None else known.told

    def labels(self, place: Place) -> float:
        """How many verdicts this place's namespace has seen."""
        known = self._namespaces.get(place.namespace)
        return 0.0 if known is None else known.labels

    def _see(
        self, place: Place, text: str, read: ReadText, near: Sequence[Neighbour]
    ) -> Seen | None:
        """Measure and score; None where the vectors that this takes are not kept."""
        if not read.tokens or not all(each.vector and each.item.tokens for each in near):
            return None
        asked = Text(analyse(text), from_bytes(read.tokens, self._dim), read.vector)
        cached = [self._text(each) for each in near]
        cosines = np.array([each.score for each in near], dtype=np.float32)
        questions = tuple(question_digest(place.partition, each.item.text) for each in near)
        answers = [self._answers.of(question, question) for question in questions]
        by = self._namespace(place.namespace).learner.coefficients
        look = score(by, see(asked, cached, cosines), answers)
        return Seen(look, tuple(each.item.key for each in near), questions)

    def _text(self, near: Neighbour) -> Text:
        vector = np.frombuffer(near.vector, dtype=np.float32)
        tokens, reading = parted(near.item.tokens, near.item.text, self._dim)
        return Text(reading, tokens, vector)

    def _static(self, verdict: Verdict, text: str, near: Sequence[Neighbour]) -> Verdict:
        vetoes: list[str] = []
        order: list[int] = []
        for at, each in enumerate(near):
            if not each.score >= self._manners.floor:  # not even one that is no number
                break
            guard = veto(text, each.item.text)
            if guard is None:
                order.append(at)
            else:
                vetoes.append(guard)
        seen = verdict.seen
        return verdict._replace(
            order=tuple(order),
            seen=seen._replace(static=order[0]) if seen is not None and order else seen,
            vetoes=tuple(vetoes),
        )

    def _take_request(self, records: list[Evidence]) -> Lesson | None:
        """Records of one request from one source."""
        first = records[0]
        place = Place(first.namespace.encode(), first.partition)
        if first.source == "asked":
            self._count(records)
        if first.source == "hit":
            self._plan(place, first)
        if first.source in {"asked", "hit"}:
            return None
        if first.source == "audit":
            self._note_audit(place, first)
        elif first.source in {"miss", "shadow"}:
            self._note_miss(place, first)
        seen = self._seen(first)
        served = first.entry if seen is None else seen.keys[seen.look.best]
        said = {one.entry: one.verdict for one in records if one.verdict != "unsure"}
        self._learn_place(place, first, said, served)
        if seen is None:
            wrong = first.source in _OF_HITS and said.get(served) == "different"
            self._namespace(place.namespace).mistaken |= wrong
            return None
        if not said:
            return None
        self._learn_static(place, seen, said)
        same = tuple(None if key not in said else said[key] == "same" for key in seen.keys)
        asked = zip(seen.questions, same, strict=True)
        self._answers.place(
            first.question, {one: label for one, label in asked if label is not None}
        )
        learner = self._namespace(place.namespace).learner
        return Lesson(learner, seen.look, same, min(1 / first.probability, _HEAVIEST))

    def _seen(self, record: Evidence) -> Seen | None:
        """The look that came with a record, if it can be learned from: not of another release."""
        if not record.look:
            return None
        try:
            seen = unpack(record.look)
        except (msgspec.MsgspecError, ValueError):
            return None
        learner = self._namespace(record.namespace.encode()).learner
        return seen if learner.fits(seen.look) else None

    def _plan(self, place: Place, hit: Evidence) -> None:
        planned = 0.0 if hit.how == UNWATCHED else hit.probability
        self._namespace(place.namespace).spending.hit(planned, cold=self.cold(place))

    def _note_miss(self, place: Place, miss: Evidence) -> None:
        """Only of what might have been a hit, and not of an audit's other neighbours."""
        if not miss.score >= 0 or miss.how == LOST or miss.probability < 1.0:
            return
        namespace, told = self._namespace(place.namespace), miss.verdict != "unsure"
        namespace.missed(told=told, would=miss.score >= self._ledger.threshold(place))

    def _note_audit(self, place: Place, audit: Evidence) -> None:
        """An audit without a verdict: so many hits like it say nothing for the bound."""
        told = audit.verdict != "unsure"
        namespace = self._namespace(place.namespace)
        if audit.how != LOST:
            namespace.spending.audits.note(told=told)
        if not told and namespace.open:
            for _ in range(round(1 / audit.probability)):
                self._ledger.repeat(Step(*place, cell_of(audit.score), "unwatched"))

    def _learn_place(
        self, place: Place, first: Evidence, said: Mapping[bytes, str], served: bytes
    ) -> None:
        if served not in said or not first.partition:
            return
        namespace = self._namespace(place.namespace)
        namespace.labels += 1
        wrong = said[served] == "different"
        label = Label(first.score, wrong, _SOURCES[first.source], first.probability)
        if self._ledger.learn(place, label):
            namespace.since = first.at
            namespace.labels = max(namespace.labels, self._manners.enough)
        namespace.open = self._ledger.opened(Place(place.namespace, b""))

    def _learn_static(self, place: Place, seen: Seen, said: Mapping[bytes, str]) -> None:
        if 0 <= seen.static < len(seen.keys) and said.get(seen.keys[seen.static]) == "different":
            self._namespace(place.namespace).mistaken = True

    def _namespace(self, name: bytes) -> Namespace:
        known = self._namespaces.get(name)
        if known is None:
            most = self._manners.remembered
            limit = min(most, _WHOLE * most // (len(self._namespaces) + 1))
            learner = Learner(self._prior, self._dim, limit=limit)
            known = Namespace(learner, Spending(self._manners.thrift))
            self._scars.restore(name, known)
            self._namespaces[name] = known
            if len(self._namespaces) > self._manners.namespaces:
                gone, lost = self._namespaces.popitem(last=False)
                self._scars.keep(gone, lost)
                self._ledger.reset(Place(gone, b""), whole=True)
        self._namespaces.move_to_end(name)
        return known

    def _decide(self, place: Place, score: float | None, request: str) -> Decision:
        decision = self._ledger.decide(place, score, request.encode())
        known = place if self._ledger.knows(place) else Place(place.namespace, b"")
        cell = None if score is None else cell_of(score)
        self.asked.note(known, cell, "served" if decision.serve else "asked")
        self._earn(place.namespace)
        return decision

    def _earn(self, namespace: bytes) -> None:
        known = self._namespaces.get(namespace)
        if known is not None:
            known.spending.requests += 1

    def _add(self, place: Place, verdict: Verdict, what: What) -> None:
        if verdict.counted:
            known = place if self._ledger.knows(place) else Place(place.namespace, b"")
            step = Step(*known, cell_of(verdict.score), what)
            self._ledger.repeat(step)
            self.asked.note(known, step.cell, what)

    def _count(self, records: Sequence[Evidence]) -> None:
        """Requests that were decided elsewhere; let be where they cannot be read."""
        for record in records:
            try:
                steps = list(unpacked(record.look))
            except (msgspec.MsgspecError, ValueError):
                continue
            for one in steps:
                self._ledger.repeat(one)
                if one.what in {"asked", "served"}:
                    self._earn(one.namespace)
