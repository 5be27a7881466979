"""The stream of a log through the cache: exact first, then one of the rules, then the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from askonce.lab.stream import Near, Neighbourhood
from askonce.lab.traffic.rules import Found
from askonce.trust.account.bound import Tally, upper
from askonce.trust.text.judge import compare
from askonce.wiring import RULES_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from askonce.lab.traffic.ingest import Asked, Traffic
    from askonce.lab.traffic.readings import KeptReadings
    from askonce.lab.traffic.rules import Rule
    from askonce.ports import Agreement, ReadText, Vector

    Alive = Callable[[NDArray[np.int64]], NDArray[np.bool_]]

_ALPHA = 0.05
_Z = 2.0


class Count(msgspec.Struct, kw_only=True):
    """What became of the calls of one part of the log."""

    calls: int = 0
    exact: int = 0
    semantic: int = 0
    verbatim: int = 0
    """Semantic hits by the same words, whose exact entry had ended."""
    reworded_same: int = 0
    """Verdicts on semantic hits in other words."""
    reworded_different: int = 0
    same: int = 0
    """Semantic hits whose answer says the same as the one in the log, by the judge."""
    different: int = 0
    unsure: int = 0
    """The judge could not tell."""
    unjudged: int = 0
    """The log has no fresh answer to compare with."""
    audits: int = 0
    prompt: int = 0
    """Tokens saved."""
    completion: int = 0
    audit_prompt: int = 0
    """Tokens that audits cost."""
    audit_completion: int = 0

    @property
    def judged(self) -> int:
        """Semantic hits with a verdict."""
        return self.same + self.different

    @property
    def reworded(self) -> int:
        """Semantic hits in other words."""
        return self.semantic - self.verbatim

    @property
    def reworded_judged(self) -> int:
        """Of those with a verdict."""
        return self.reworded_same + self.reworded_different

    @property
    def hits(self) -> int:
        """Calls that the engine did not have to answer."""
        return self.exact + self.semantic

    @property
    def hit_share(self) -> float:
        """Of the calls."""
        return self.hits / self.calls if self.calls else 0.0

    @property
    def wrong_share(self) -> float:
        """Of the judged semantic hits."""
        return self.different / self.judged if self.judged else 0.0

    @property
    def bound(self) -> float:
        """The wrong share is below this at 95 %, the judge's own error included; 1 unjudged."""
        return _bound(self.same, self.different)

    @property
    def reworded_bound(self) -> float:
        """The same of the semantic hits in other words."""
        return _bound(self.reworded_same, self.reworded_different)

    def add(self, other: Count) -> None:
        """Take another part in."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def _bound(same: int, different: int) -> float:
    seen = upper(Tally(float(same), ((1.0, float(different)),)), _ALPHA)
    return RULES_ERROR.ceiling(seen, _Z)


class Lives(NamedTuple):
    """Seconds that answers live where their callers do not say otherwise."""

    exact: float
    semantic: float


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One rule at one setting."""

    rule: str
    setting: float
    total: Count
    namespaces: dict[int, Count]
    places: dict[int, Count]
    ages: list[float]
    """Of the answers of semantic hits, in seconds."""
    steps: list[tuple[int, int, int]]
    """Calls, exact and semantic hits so far, at some 60 points."""


class Stage:
    """What all replays of one log share: vectors, neighbourhoods, and verdicts."""

    def __init__(
        self, traffic: Traffic, calls: Sequence[Asked], readings: KeptReadings | None
    ) -> None:
        """calls: those to replay; without readings nothing is near anything."""
        self.traffic = traffic
        self.calls = calls
        self._readings = readings
        self._verdicts: dict[tuple[int, int, int], Agreement] = {}
        self._row: dict[int, tuple[int, int]] = {}
        """Of a key with a vector: its partition and its row there."""
        self.hoods: dict[int, Neighbourhood] = {}
        self.members: dict[int, NDArray[np.int64]] = {}
        """Of a partition: its keys in the order of the rows."""
        self._gather()

    def near(self, key: int, alive: Alive, k: int) -> Near | None:
        """The nearest of the key's partition that are alive; None for a key without a vector."""
        at = self._row.get(key)
        if at is None:
            return None
        members = self.members[at[0]]
        found = self.hoods[at[0]].near(at[1], alive(members), k)
        return Near(members[found.rows], found.cosines)

    def judge(self, question: int, cached: int, fresh: int) -> Agreement:
        """The product's rules on two answers; numbers of texts."""
        if cached == fresh:
            return "same"
        case = (question, cached, fresh)
        known = self._verdicts.get(case)
        if known is None:
            get = self.traffic.texts.get
            known = compare(get(cached), get(fresh), get(question)).agreement
            self._verdicts[case] = known
        return known

    def read(self, key: int) -> ReadText:
        """What the embedder makes of a key's question."""
        found = self._reading(key)
        if found is None:
            raise KeyError(key)
        return found

    def _reading(self, key: int) -> ReadText | None:
        if self._readings is None or self.traffic.questions[key] < 0:
            return None
        return self._readings.get(self.traffic.text(key))

    def _gather(self) -> None:
        rows: dict[int, list[int]] = {}
        vectors: dict[int, list[Vector]] = {}
        for key in dict.fromkeys(call.key for call in self.calls):
            place = self.traffic.places[key]
            found = self._reading(key) if place >= 0 else None
            if found is not None:
                self._row[key] = place, len(rows.setdefault(place, []))
                rows[place].append(key)
                vectors.setdefault(place, []).append(found.vector)
        for place, keys in rows.items():
            self.members[place] = np.array(keys, dtype=np.int64)
            self.hoods[place] = Neighbourhood(np.stack(vectors.pop(place)))


class _Store:
    """What the cache holds: one entry a key."""

    def __init__(self, keys: int) -> None:
        self.since = np.zeros(keys)
        self.exact_until = np.full(keys, -np.inf)
        self.until = np.full(keys, -np.inf)
        self.answer = np.full(keys, -1, dtype=np.int64)

    def hit(self, call: Asked) -> bool:
        """Whether the very same request has an answer, or one on its way."""
        if not call.exact or self.exact_until[call.key] <= call.time:
            return False
        return call.max_age < 0 or call.time - self.since[call.key] <= call.max_age

    def keep(self, call: Asked, lives: Lives) -> None:
        own = call.ttl >= 0
        self.since[call.key] = call.ends
        self.exact_until[call.key] = call.ends + (call.ttl if own else lives.exact)
        semantic = call.ttl if own else lives.semantic
        self.until[call.key] = call.ends + semantic if call.findable else -np.inf
        self.answer[call.key] = call.answer

    def alive(self, call: Asked, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the keys may answer this call by meaning now."""
        there = (self.since[keys] <= call.time) & (self.until[keys] > call.time)
        if call.max_age >= 0:
            there &= call.time - self.since[keys] <= call.max_age
        return np.asarray(there, dtype=np.bool_)


class Replay:
    """One pass of the calls under one rule."""

    def __init__(self, stage: Stage, rule: Rule, lives: Lives, neighbours: int) -> None:
        """Take the rule fresh."""
        self._stage = stage
        self._rule = rule
        self._lives = lives
        self._k = neighbours
        self._store = _Store(len(stage.traffic.keys))
        self._ages: list[float] = []
        self._namespaces: dict[int, Count] = {}
        self._places: dict[int, Count] = {}

    def run(self, rule: str, setting: float) -> Played:
        """Send all calls through; rule and setting: what to call it."""
        steps: list[tuple[int, int, int]] = []
        exact = semantic = 0
        every = max(1, len(self._stage.calls) // 60)
        for number, call in enumerate(self._stage.calls, 1):
            count = self._one(number, call)
            exact, semantic = exact + count.exact, semantic + count.semantic
            self._namespaces.setdefault(call.namespace, Count()).add(count)
            place = self._stage.traffic.places[call.key]
            if place >= 0:
                self._places.setdefault(place, Count()).add(count)
            if number % every == 0:
                steps.append((number, exact, semantic))
        total = Count()
        for each in self._namespaces.values():
            total.add(each)
        return Played(
            rule=rule,
            setting=setting,
            total=total,
            namespaces=self._namespaces,
            places=self._places,
            ages=self._ages,
            steps=steps,
        )

    def _one(self, number: int, call: Asked) -> Count:
        count = Count(calls=1)
        if self._store.hit(call):
            count.exact = 1
            count.prompt, count.completion = call.prompt, call.completion
            return count
        served = call.semantic and self._by_meaning(number, call, count)
        if call.stored and not served:
            self._store.keep(call, self._lives)
        return count

    def _by_meaning(self, number: int, call: Asked, count: Count) -> bool:
        """Whether the semantic tier answers; judged, counted and learned from."""
        near = self._stage.near(call.key, lambda keys: self._store.alive(call, keys), self._k)
        if near is None:
            return False
        found = self._found(number, call, near)
        choice = self._rule.choose(found)
        if choice.serve >= 0:
            self._serve(call, int(near.rows[choice.serve]), count)
        places = self._rule.to_judge(found, choice)
        told = choice.audited or (choice.serve < 0 and call.stored)
        said = [self._verdict(call, int(near.rows[at])) for at in places] if told else []
        self._rule.learn(found, said, choice)
        if choice.audited:
            count.audits = 1
            count.audit_prompt, count.audit_completion = call.prompt, call.completion
            if said and said[0] == "different":
                self._store.until[near.rows[choice.serve]] = -np.inf
        return choice.serve >= 0

    def _serve(self, call: Asked, key: int, count: Count) -> None:
        self._ages.append(max(0.0, call.time - float(self._store.since[key])))
        count.semantic = 1
        count.verbatim = int(key == call.key)
        count.prompt, count.completion = call.prompt, call.completion
        if not call.fresh or call.answer < 0 or self._store.answer[key] < 0:
            count.unjudged = 1
            return
        said = self._verdict(call, key)
        setattr(count, said, 1)
        if key != call.key and said != "unsure":
            setattr(count, f"reworded_{said}", 1)

    def _verdict(self, call: Asked, key: int) -> Agreement:
        cached = int(self._store.answer[key])
        if not call.fresh or call.answer < 0 or cached < 0:
            return "unsure"
        return self._stage.judge(self._stage.traffic.questions[call.key], cached, call.answer)

    def _found(self, number: int, call: Asked, near: Near) -> Found:
        traffic = self._stage.traffic
        place = traffic.partitions[traffic.places[call.key]]
        return Found(
            number=number,
            now=call.time,
            namespace=traffic.namespaces[call.namespace],
            partition=place.digest,
            near=near,
            until=self._store.until[near.rows].tolist(),
            stored=self._store.since[near.rows].tolist(),
            text=traffic.text,
            read=self._stage.read,
            key=call.key,
            digest=traffic.keys.__getitem__,
        )
