"""Judged pairs through the verifier: cold, and learning as they come; and how long it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from askonce.lab import sets
from askonce.lab.verdicts import PairRecall, Timing, TrapRow
from askonce.ports import IndexedText, Neighbour, ReadText
from askonce.trust.account.asked import Place
from askonce.trust.account.ledger import Policy
from askonce.trust.alignment import to_bytes
from askonce.trust.desk import TrustDesk
from askonce.trust.kept import kept
from askonce.trust.logistic import probability
from askonce.trust.prior import shipped
from askonce.trust.sight import Manners
from askonce.trust.text.guards import veto
from askonce.trust.verifier import Learner, Look, Text, score, see
from askonce.units import Cosine, UnixTime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from askonce.canonical.request import Question

PRECISION = 0.9
_LIKELY = 2 / 3
"""Least P(same answer) of the shipped prior: docs/reference/prior.md says how it was chosen."""
_FLOORS = (0.85, 0.97)
_CANDIDATES = 5
_LONGEST = 20
"""Words of a text that is timed."""
_TIMED = 2000
_HERE = Place(b"lab", b"lab")


class PairRead(NamedTuple):
    """One pair, ready to be compared: `cached` answers `asked`, or must not."""

    asked: str
    cached: str
    one: Text
    other: Text
    same: bool
    kind: str
    comparable: bool
    """All around the two texts lets the tier compare them."""

    @property
    def cosine(self) -> float:
        """Of the two texts."""
        return float(self.one.vector @ self.other.vector)


def sides(
    labelled: sets.LabelledSet, *, by_meaning: bool = False
) -> list[tuple[Question, Question, sets.Pair]]:
    """What the tier compares of each pair; pairs that it never compares are left out."""
    found = []
    for pair in labelled.pairs:
        a, b = (sets.question(side, by_meaning=by_meaning) for side in (pair.a, pair.b))
        if a is not None and b is not None:
            found.append((a, b, pair))
    return found


def ready(
    labelled: sets.LabelledSet, read: Mapping[str, Text], *, by_meaning: bool = False
) -> list[PairRead]:
    """The pairs both of whose texts were read."""
    return [
        PairRead(
            asked=b.text,
            cached=a.text,
            one=read[b.text],
            other=read[a.text],
            same=bool(pair.same),
            kind=pair.kind,
            comparable=sets.comparable(a, b),
        )
        for a, b, pair in sides(labelled, by_meaning=by_meaning)
        if a.text in read and b.text in read
    ]


def look_at(pair: PairRead, learner: Learner) -> Look:
    """The pair as the verifier weighs it now."""
    cosines = np.array([pair.cosine], dtype=np.float32)
    return score(learner.coefficients, see(pair.one, [pair.other], cosines), [0])


def cold(name: str, pairs: Sequence[PairRead], floor: float) -> list[TrapRow]:
    """What is served with no evidence: where no guard speaks, from a cosine or a chance on."""
    learner = Learner(shipped(), len(pairs[0].one.vector))
    free = [pair.comparable and veto(pair.asked, pair.cached) is None for pair in pairs]
    rows = []
    for at in dict.fromkeys((floor, *_FLOORS)):
        passed = [each and pair.cosine >= at - 1e-6 for each, pair in zip(free, pairs, strict=True)]
        rows += tally(name, f"floor {at:g} and guards", pairs, passed)
    passed = [
        each and float(probability(look_at(pair, learner).logits.max())) >= _LIKELY
        for each, pair in zip(free, pairs, strict=True)
    ]
    return rows + tally(name, f"shipped prior, P >= {_LIKELY:.2f}, and guards", pairs, passed)


def tally(name: str, rule: str, pairs: Sequence[PairRead], passed: Sequence[bool]) -> list[TrapRow]:
    """Served and all, by kind; the kind "" is all together."""
    rows = []
    kinds = sorted({pair.kind for pair in pairs})
    for kind in ["", *(kinds if len(kinds) > 1 else ())]:
        counts = {True: [0, 0], False: [0, 0]}
        for pair, served in zip(pairs, passed, strict=True):
            if kind in {"", pair.kind}:
                counts[pair.same][0] += bool(served)
                counts[pair.same][1] += 1
        (no, nos), (yes, yeses) = counts[False], counts[True]
        rows.append(TrapRow(name, rule, kind, (no, nos), (yes, yeses)))
    return rows


def learning(name: str, pairs: Sequence[PairRead]) -> PairRecall:
    """Score each pair, then learn its label; recall over all of them, the first included."""
    learner = Learner(shipped(), len(pairs[0].one.vector))
    scores = []
    for pair in pairs:
        look = look_at(pair, learner)
        scores.append(float(look.logits.max()))
        learner.learn(look, [pair.same])
        if learner.due:
            learner.refit()
    same = np.array([pair.same for pair in pairs], dtype=np.bool_)
    cosines, learned = np.array([pair.cosine for pair in pairs]), np.array(scores)
    half = len(pairs) // 2
    return PairRecall(
        name=name,
        pairs=len(pairs),
        cosine=recall_at(cosines, same),
        askonce=recall_at(learned, same),
        later_cosine=recall_at(cosines[half:], same[half:]),
        later_askonce=recall_at(learned[half:], same[half:]),
    )


def recall_at(
    scores: NDArray[np.float64], same: NDArray[np.bool_], precision: float = PRECISION
) -> float:
    """Most of the same that a threshold on the score finds at this precision or better."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(same[order])
    ends = np.append(np.diff(scores[order]) != 0, True)
    good = ends & (right >= precision * np.arange(1, len(order) + 1))
    return float(right[good].max(initial=0) / max(1, same.sum()))


def time_decisions(
    read: Mapping[str, Text], clock: Callable[[], float] = time.perf_counter
) -> Timing | None:
    """`TrustDesk.judge` for questions beside their five nearest; None for too few short texts."""
    texts = [text for text in read if len(text.split()) <= _LONGEST][: 2 * _TIMED]
    half = len(texts) // 2
    cached, asked = texts[:half], texts[half:]
    if half < _CANDIDATES:
        return None
    matrix = np.stack([read[text].vector for text in cached])
    dim = matrix.shape[1]
    desk = TrustDesk(
        shipped(), dim, policy=Policy(), manners=Manners(floor=Cosine(0.97)), seed=b"0"
    )
    kept = [_indexed(text, read[text]) for text in cached]
    took = []
    for number, text in enumerate(asked):
        scores = matrix @ read[text].vector
        near = [
            Neighbour(Cosine(float(scores[row])), *kept[row])
            for row in np.argsort(-scores, kind="stable")[:_CANDIDATES].tolist()
        ]
        packed = ReadText(read[text].vector, to_bytes(read[text].tokens))
        start = clock()
        desk.judge(_HERE, text, packed, near, str(number))
        took.append(1000 * (clock() - start))
    return Timing(len(took), float(np.quantile(took, 0.5)), float(np.quantile(took, 0.99)))


def _indexed(text: str, read: Text) -> tuple[IndexedText, bytes]:
    key = text.encode()[:32].ljust(32)
    packed = kept(to_bytes(read.tokens), text)
    return IndexedText(key, text, UnixTime(1e12), packed), read.vector.tobytes()
