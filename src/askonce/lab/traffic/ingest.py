"""A log's calls as the product sees them: its own keys, partitions, controls and admission."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from askonce.cache.audits import text_of
from askonce.canonical.answer import read_with_facts
from askonce.canonical.key import Scope, exact_key, partition_key
from askonce.canonical.request import Question, parse_chat, question_of
from askonce.errors import AnswerUnusable, RequestError
from askonce.flow import Lives, plan
from askonce.lab.traffic.lines import LogFile
from askonce.lab.traffic.shapes import CHAT, Unreadable, read
from askonce.lab.traffic.spool import Spool
from askonce.policy.admission import refuse, wants_json
from askonce.policy.controls import read_controls
from askonce.trust.names import DEFAULT
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from askonce.canonical.request import Call
    from askonce.config import Config
    from askonce.lab.traffic.shapes import Logged
    from askonce.lab.vectors import Progress

_EXAMPLES = 5
"""Line numbers told for each reason."""
_LETTERS = 4.0
"""Of a token, where the log does not tell the tokens."""
_SAMPLE = 80
_EVERY = 2.0
"""Seconds between two lines of progress."""
_LIVES = Lives(Seconds(1.0), Seconds(1.0))
"""Both tiers on; what they live in truth is the replay's."""


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One call of the log; numbers point into `Traffic`."""

    time: float
    ends: float
    key: int
    shared: int
    """The key it would have if all tenants shared answers."""
    namespace: int
    tenant: int
    answer: int
    """Text of the answer, or -1 where there is none to compare."""
    size: int
    """Bytes that the entry takes in a store."""
    prompt: int
    completion: int
    ttl: float
    """The caller's own; below 0 where it has none."""
    max_age: float
    fresh: bool
    """The engine computed the answer for this call."""
    exact: bool
    semantic: bool
    stored: bool
    findable: bool
    """Stored, and to be found by meaning."""


class Partition(msgspec.Struct, frozen=True):
    """Questions that may be compared with each other."""

    digest: bytes
    namespace: int
    model: str
    sample: str


class Skipped:
    """Why lines were left out, and where the first of them stand."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.counts: Counter[str] = Counter()
        self.lines: dict[str, list[str]] = {}

    def add(self, reason: str, where: str) -> None:
        """Count one."""
        self.counts[reason] += 1
        shown = self.lines.setdefault(reason, [])
        if len(shown) < _EXAMPLES:
            shown.append(where)


class Traffic:
    """The calls in the order they came; texts lie on disk, a call takes some 250 bytes here."""

    def __init__(self) -> None:
        """No calls yet."""
        self.calls: list[Asked] = []
        self.keys: list[bytes] = []
        self.questions: list[int] = []
        """Of each key: its text in `texts`, or -1 when it has none to compare."""
        self.places: list[int] = []
        """Of each key: its partition, or -1."""
        self.partitions: list[Partition] = []
        self.namespaces: list[str] = []
        self.tenants: list[str] = []
        self.texts = Spool()
        self.skipped = Skipped()
        """Lines that are no calls, or none that is cached."""
        self.refused: Counter[str] = Counter()
        """Answers that are not stored."""
        self.unasked: Counter[str] = Counter()
        """Requests that are never answered by meaning."""
        self.lines = 0
        self.timed = False
        """The first call has a time; else no time is believed."""
        self.untimed = 0
        self.estimated = 0
        """Calls whose tokens are guessed from their length."""
        self.disordered = 0
        self.cut = False
        """There was more than the limit."""

    def text(self, key: int) -> str:
        """The question of a key."""
        return self.texts.get(self.questions[key])

    def close(self) -> None:
        """Release the file of texts."""
        self.texts.close()


class _Admitted(NamedTuple):
    """What is known of an answer."""

    stored: bool = False
    findable: bool = False
    text: str | None = None
    size: int = 0
    spoken: int = 0
    """Bytes of the answer's texts."""
    told: tuple[int, int] = (0, 0)
    """Prompt and completion tokens; 0 where the log does not say."""


def ingest(paths: Iterable[Path], config: Config, *, limit: int, progress: Progress) -> Traffic:
    """Read at most `limit` calls (0: all) of these files; raises ConfigError."""
    traffic = Traffic()
    reader = _Reader(traffic, config)
    try:
        for path in paths:
            _take_file(path, reader, traffic, limit, progress)
    except BaseException:
        traffic.close()
        raise
    times = [call.time for call in traffic.calls]
    traffic.disordered = sum(later < earlier for earlier, later in pairwise(times))
    if traffic.disordered:
        traffic.calls.sort(key=lambda call: call.time)
    return traffic


def _take_file(
    path: Path, reader: _Reader, traffic: Traffic, limit: int, progress: Progress
) -> None:
    for number, line, fault in _followed(path, traffic, progress):
        if limit and len(traffic.calls) >= limit:
            traffic.cut = True
            return
        traffic.lines += 1
        reader.take(line, fault, f"{path.name}:{number}")


def _followed(path: Path, traffic: Traffic, progress: Progress) -> Iterator[tuple[int, bytes, str]]:
    file = LogFile(path)
    begun = told = time.monotonic()
    try:
        for found in file:
            yield found
            now = time.monotonic()
            if now - told > _EVERY and file.done:
                told = now
                left = (now - begun) * (1 / file.done - 1)
                progress(f"{path.name}: {len(traffic.calls)} calls, about {left:.0f} s left")
    finally:
        file.close()


class _Reader:
    """Turns lines into calls."""

    def __init__(self, traffic: Traffic, config: Config) -> None:
        self._traffic = traffic
        self._config = config
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._last = 0.0
        self._told: dict[int, tuple[int, int]] = {}
        """Tokens of each key, as last told."""

    def take(self, line: bytes, fault: str, where: str) -> None:
        """Add one line's call, or count why it is none."""
        if not fault:
            try:
                self._add(read(line))
            except Unreadable as reason:
                fault = reason.reason
            except RequestError as refused:
                fault = refused.code or "bad_request"
        if fault:
            self._traffic.skipped.add(fault, where)

    def _add(self, logged: Logged) -> None:
        if logged.endpoint.partition("?")[0] != CHAT:
            raise Unreadable("endpoint_not_cached")
        call = parse_chat(logged.request)
        controls = read_controls(_raw(logged.headers), self._config.controls)
        namespace = logged.namespace or controls.namespace
        question = question_of(call, max_temperature=self._config.semantic.max_temperature)
        known = question if isinstance(question, Question) else None
        if known is None:
            self._traffic.unasked[str(question)] += 1
        may = plan(controls, _LIVES, has_question=known is not None)
        admitted = self._admit(logged, call)
        key, shared = self._keys(logged, call, known, namespace)
        began = self._time(logged.time)
        prompt, completion = self._tokens(key, call, admitted)
        self._traffic.calls.append(
            Asked(
                time=began,
                ends=began + logged.seconds,
                key=key,
                shared=shared,
                namespace=self._number("namespaces", namespace or DEFAULT),
                tenant=self._number("tenants", logged.tenant),
                answer=-1 if admitted.text is None else self._traffic.texts.add(admitted.text),
                size=admitted.size + (len(known.text) if known else 0),
                prompt=prompt,
                completion=completion,
                ttl=-1.0 if controls.ttl is None else controls.ttl,
                max_age=-1.0 if controls.max_age is None else controls.max_age,
                fresh=logged.served == "engine",
                exact=may.exact,
                semantic=may.semantic,
                stored=may.store and admitted.stored,
                findable=may.store and admitted.findable and may.semantic_ttl > 0,
            )
        )

    def _keys(
        self, logged: Logged, call: Call, question: Question | None, namespace: str
    ) -> tuple[int, int]:
        """Numbers of the exact key, as things are and if all tenants shared."""
        tenant = hashlib.sha256(logged.tenant.encode("utf-8", "surrogatepass")).digest()
        scope = Scope(logged.endpoint, "", "", tenant, namespace)
        traffic, digest = self._traffic, exact_key(scope, call)
        key = self._numbers.setdefault(("key", digest), len(traffic.keys))
        if key == len(traffic.keys):
            traffic.keys.append(digest)
            traffic.questions.append(traffic.texts.add(question.text) if question else -1)
            traffic.places.append(self._place(scope, call, question) if question else -1)
        together = exact_key(msgspec.structs.replace(scope, tenant=bytes(32)), call)
        return key, self._numbers.setdefault(("shared", together), len(self._numbers))

    def _place(self, scope: Scope, call: Call, question: Question) -> int:
        partitions, digest = self._traffic.partitions, partition_key(scope, question)
        place = self._numbers.setdefault(("place", digest), len(partitions))
        if place == len(partitions):
            namespace = self._number("namespaces", scope.namespace or DEFAULT)
            sample = " ".join(question.text[:_SAMPLE].split())
            partitions.append(Partition(digest, namespace, call.model, sample))
        return place

    def _number(self, kind: str, name: str) -> int:
        known: list[str] = getattr(self._traffic, kind)
        number = self._numbers.setdefault((kind, name.encode("utf-8", "replace")), len(known))
        if number == len(known):
            known.append(name)
        return number

    def _admit(self, logged: Logged, call: Call) -> _Admitted:
        """As live; an answer that the log lacks is taken for one that was stored."""
        traffic = self._traffic
        if logged.status != 200:
            traffic.refused["status"] += 1
            return _Admitted()
        if logged.broken:
            traffic.refused["broken"] += 1
            return _Admitted()
        if not logged.answer:
            traffic.refused["not_in_the_log"] += 1
            return _Admitted(stored=True, findable=True)
        try:
            answer, answered = read_with_facts(logged.answer)
        except AnswerUnusable as unusable:
            traffic.refused[unusable.reason] += 1
            return _Admitted()
        limit = self._config.exact.max_entry_bytes
        reason = refuse(answered, wants_json=wants_json(call.body), max_bytes=limit)
        if reason is not None:
            traffic.refused[reason] += 1
        return _Admitted(
            stored=reason is None,
            findable=reason is None and not answered.has_tool_calls,
            text=text_of(answer),
            size=len(answer.rest),
            spoken=sum(len(text.encode("utf-8", "replace")) for text in answered.texts),
            told=(answer.prompt_tokens, answer.completion_tokens),
        )

    def _tokens(self, key: int, call: Call, admitted: _Admitted) -> tuple[int, int]:
        """As told, here or for the same request before, else guessed from the length."""
        if any(admitted.told):
            self._told[key] = admitted.told
        known = self._told.get(key)
        if known is not None:
            return known
        self._traffic.estimated += 1
        return round(len(call.canonical) / _LETTERS), round(admitted.spoken / _LETTERS)

    def _time(self, told: float | None) -> float:
        """A call without a time comes a second after the one before; the first one decides."""
        traffic = self._traffic
        if not traffic.calls:
            traffic.timed = told is not None
        untimed = told is None or not traffic.timed
        traffic.untimed += untimed
        self._last = self._last + 1.0 if told is None or untimed else told
        return self._last


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
    ]
