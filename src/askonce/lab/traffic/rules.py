"""What decides about answers by meaning, each with the same face: thresholds, curves, the desk."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import numpy as np

from askonce.lab.stream import Choice
from askonce.ports import Evidence, IndexedText, Neighbour
from askonce.trust.account.allowance import Allowance
from askonce.trust.account.asked import Place
from askonce.trust.account.budget import chance
from askonce.trust.account.thrift import UNWATCHED
from askonce.trust.names import question_digest
from askonce.trust.text.guards import veto
from askonce.units import Cosine, UnixTime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.lab.players import PerEntry
    from askonce.lab.stream import Near
    from askonce.ports import Agreement, EvidenceSource, ReadText
    from askonce.trust.desk import TrustDesk
    from askonce.trust.names import Mode
    from askonce.trust.sight import Verdict

JUDGED = 4
"""Candidates whose answers are compared with a fresh one, as live."""


class Found(NamedTuple):
    """One question and the nearest stored ones."""

    number: int
    """Of the call."""
    now: float
    namespace: str
    partition: bytes
    near: Near
    """Rows are keys, best first."""
    until: Sequence[float]
    """When each of the near ends."""
    stored: Sequence[float]
    """When each of them was stored."""
    text: Callable[[int], str]
    """The question of a key."""
    read: Callable[[int], ReadText]
    """What the embedder makes of it."""
    key: int
    digest: Callable[[int], bytes]
    """The 32 bytes of a key."""


class Rule(Protocol):
    """Decides, and learns from verdicts where it can."""

    def choose(self, found: Found) -> Choice:
        """Serve one of the near or none."""
        ...

    def learn(self, found: Found, verdicts: Sequence[Agreement], choice: Choice) -> None:
        """Verdicts on the first of the near, after a miss or an audited hit; may be fewer."""
        ...

    def to_judge(self, found: Found, choice: Choice) -> Sequence[int]:
        """Places among the near whose verdicts `learn` is to get."""
        ...


class Never:
    """No answers by meaning at all."""

    def choose(self, found: Found) -> Choice:  # noqa: ARG002 - a Rule's face
        """Serve nothing."""
        return Choice()

    def learn(self, found: Found, verdicts: Sequence[Agreement], choice: Choice) -> None:
        """Nothing to learn."""

    def to_judge(self, found: Found, choice: Choice) -> Sequence[int]:  # noqa: ARG002 - a Rule's face
        """Nothing."""
        return ()


class Bare(Never):
    """The nearest at or above a cosine."""

    def __init__(self, floor: float) -> None:
        """floor: least cosine."""
        self._floor = floor

    def choose(self, found: Found) -> Choice:
        """The nearest, or a miss."""
        near = found.near
        return Choice(0 if len(near.rows) and near.cosines[0] >= self._floor else -1)


class Guarded(Bare):
    """The nearest at or above a cosine that no guard speaks against: `[trust]` switched off."""

    def choose(self, found: Found) -> Choice:
        """The first that passes."""
        text = found.text(found.key)
        for at, (row, cosine) in enumerate(zip(found.near.rows, found.near.cosines, strict=True)):
            if not cosine >= self._floor:
                break
            if veto(text, found.text(int(row))) is None:
                return Choice(at)
        return Choice()


class OnePerEntry(Never):
    """One curve for each stored question, on rows that are keys."""

    def __init__(self, player: PerEntry) -> None:
        """Take the player fresh."""
        self._player = player

    def choose(self, found: Found) -> Choice:
        """As the player does."""
        return self._player.choose(found.key, found.near)

    def learn(self, found: Found, verdicts: Sequence[Agreement], choice: Choice) -> None:
        """Only a verdict on the nearest tells something."""
        if verdicts and verdicts[0] != "unsure":
            same = np.array([verdicts[0] == "same"])
            self._player.learn(found.key, found.near, same, choice)

    def to_judge(self, found: Found, choice: Choice) -> Sequence[int]:  # noqa: ARG002 - a Rule's face
        """The nearest."""
        return (0,) if len(found.near.rows) else ()


class ByDesk:
    """The product's desk, fed with evidence as the gateway feeds it."""

    def __init__(
        self, desk: TrustDesk, mode: Callable[[str], Mode], audits_per_hour: float, seed: bytes
    ) -> None:
        """Take the desk fresh."""
        self._desk = desk
        self._mode = mode
        self._seed = seed
        burst = min(audits_per_hour, max(1.0, audits_per_hour / 6))
        self._allowance = Allowance(per_hour=audits_per_hour, burst=burst) if burst else None
        self._verdict: Verdict | None = None
        self._near: list[Neighbour] = []
        self._share = 1.0

    def choose(self, found: Found) -> Choice:
        """As `Learning.weigh`, and the draw whether a hit is audited."""
        self._verdict = None
        mode = self._mode(found.namespace)
        if mode == "off":
            return Choice()
        place, request = _place(found), _request(found)
        known = self._neighbours(found)
        since = self._desk.since(place)
        aged = zip(known, found.stored, strict=True)
        self._near = [each for each, stored in aged if stored >= since]
        text, read = found.text(found.key), found.read(found.key)
        self._verdict = verdict = self._desk.judge(place, text, read, self._near, request)
        if mode == "shadow" or not verdict.serve:
            return Choice()
        kept = [each.item.key for each in known]
        at = kept.index(self._near[verdict.order[0]].item.key)
        return Choice(at, verdict.audit and self._allowed(found.now, request))

    def to_judge(self, found: Found, choice: Choice) -> Sequence[int]:
        """On a miss the best and the nearest, on an audit what was served."""
        verdict = self._verdict
        if verdict is None or verdict.best < 0:
            return ()
        if choice.serve >= 0:
            return (choice.serve,)
        others = [at for at in range(len(self._near)) if at != verdict.best]
        wanted = [self._near[at].item.key for at in [verdict.best, *others][:JUDGED]]
        keys = [found.digest(int(row)) for row in found.near.rows]
        return [keys.index(key) for key in wanted]

    def learn(self, found: Found, verdicts: Sequence[Agreement], choice: Choice) -> None:
        """As `Learning` writes evidence and the desk takes it."""
        verdict = self._verdict
        if verdict is None or verdict.best < 0:
            return
        shadow = self._mode(found.namespace) == "shadow"
        if choice.serve >= 0:
            self._take([self._record(found, choice.serve, "unsure", "hit")])
        source: EvidenceSource = "audit" if choice.serve >= 0 else "miss"
        if shadow and verdict.serve:
            source = "shadow"
        places = self.to_judge(found, choice)
        records = [
            self._record(found, at, said, source)
            for at, said in zip(places, verdicts, strict=False)
        ]
        if records:
            look = b""
            if any(one.verdict != "unsure" for one in records):
                look = self._desk.packed(verdict)
            records[0] = msgspec.structs.replace(records[0], look=look)
            self._take(records)

    def _allowed(self, now: float, request: str) -> bool:
        if self._allowance is None:
            return False
        self._share = max(0.02, self._allowance.share(now))
        if chance(b"allowance", request.encode(), b"allowance") >= self._share:
            return False
        self._allowance.settle(1.0)
        return True

    def _take(self, records: list[Evidence]) -> None:
        for _ in self._desk.study(self._desk.take(records)):
            pass

    def _neighbours(self, found: Found) -> list[Neighbour]:
        known = []
        for row, cosine, until in zip(
            found.near.rows, found.near.cosines, found.until, strict=True
        ):
            read = found.read(int(row))
            text = found.text(int(row))
            item = IndexedText(found.digest(int(row)), text, UnixTime(until), read.tokens)
            score = Cosine(min(1.0, max(0.0, float(cosine))))
            known.append(Neighbour(score, item, read.vector.tobytes()))
        return known

    def _record(self, found: Found, at: int, said: Agreement, source: EvidenceSource) -> Evidence:
        verdict = self._verdict
        if verdict is None:
            raise RuntimeError("nothing was decided")
        mode = self._mode(found.namespace)
        seen = verdict.chance if mode == "on" else 1.0
        return Evidence(
            at=UnixTime(found.now),
            namespace=found.namespace,
            partition=found.partition,
            request_id=_request(found),
            question=question_digest(found.partition, found.text(found.key)),
            entry=found.digest(int(found.near.rows[at])),
            score=verdict.score,
            verdict=said,
            how="" if verdict.watched else UNWATCHED,
            source=source,
            probability=seen * (self._share if source == "audit" else 1.0),
            mode=mode,
        )


def _place(found: Found) -> Place:
    return Place(found.namespace.encode(), found.partition)


def _request(found: Found) -> str:
    return f"log-{found.number}"
