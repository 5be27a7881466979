"""A whole cache over fakes, and callers that read like the gateway does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
import numpy as np

from askonce.cache.ask import Ask, Collapsed, Limits, Live
from askonce.cache.driver import Cache
from askonce.cache.fleet import Fleet
from askonce.cache.late import LateIndex
from askonce.cache.parts import Parts
from askonce.cache.steps import Steps
from askonce.canonical.answer import Answer, StreamReader, facts, read_completion
from askonce.canonical.key import Scope, exact_key
from askonce.canonical.request import Question, parse_chat, question_of
from askonce.canonical.sse import EventSplitter, data_of
from askonce.config import BreakerConfig
from askonce.errors import AnswerUnusable, VectorIndexError
from askonce.events import AdmissionRefused
from askonce.flow import GiveUp, Hit, Lives, plan
from askonce.policy.controls import Controls
from askonce.ports import Embedder, HotCache, IndexedText, Neighbour, Store, UpstreamRequest
from askonce.stores.hot import HotEntries
from askonce.stores.memory import MemoryStore
from askonce.testing.clock import FakeClock
from askonce.testing.embedders import HashingEmbedder
from askonce.testing.sink import RecordingSink
from askonce.testing.upstreams import ScriptedUpstream
from askonce.tiers.exact import ExactTier
from askonce.tiers.semantic import SemanticTier
from askonce.units import Cosine, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.cache.learning import Learning
    from askonce.canonical.entry import Entry
    from askonce.ports import SupportsFlights, VectorIndex
    from askonce.testing.answers import Script

LIVES = Lives(exact=Seconds(60), semantic=Seconds(600))
PATH = "/v1/chat/completions"
CAT = "What is a cat?"


class PlainIndex:
    """A vector index that compares everything; `faulty` makes every call fail."""

    def __init__(self, clock: FakeClock) -> None:
        self.rows: dict[bytes, tuple[bytes, IndexedText, Any]] = {}
        self.faulty = False
        self._clock = clock

    async def add(self, partition: bytes, item: IndexedText, vector: Any) -> None:
        """Set the row of a key."""
        self._check()
        self.rows[item.key] = partition, item, vector

    async def search(self, partition: bytes, vector: Any, *, k: int) -> list[Neighbour]:
        """Scan."""
        self._check()
        near = [
            Neighbour(Cosine(float(np.clip(vector @ other, 0, 1))), item, other.tobytes())
            for place, item, other in self.rows.values()
            if place == partition and item.expires_at > self._clock.now()
        ]
        return sorted(near, key=lambda neighbour: -neighbour.score)[:k]

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Drop rows."""
        self._check()
        return sum(self.rows.pop(key, None) is not None for key in keys)

    async def clear(self) -> int:
        """Drop all rows."""
        count = len(self.rows)
        self.rows.clear()
        return count

    async def count(self) -> int:
        """Rows."""
        return len(self.rows)

    async def close(self) -> None:
        """Nothing to release."""

    def _check(self) -> None:
        if self.faulty:
            raise VectorIndexError("as told")


class Got(NamedTuple):
    """What one caller got."""

    how: str
    """`exact`, `semantic`, `engine`, `collapsed`, `rendered`, or `nothing`."""
    text: str
    status: int
    raw: bytes
    reply: Hit | Live | Collapsed | GiveUp


class Stage:
    """Everything in reach; leave it to check that no task is left behind."""

    name = "request"

    def __init__(
        self,
        *scripts: Script,
        store: Store | None = None,
        hot: HotCache[Entry] | None = None,
        embedder: Embedder | None = None,
        index: VectorIndex | None = None,
        semantic: bool = True,
        deadline: float = 30.0,
        max_entry_bytes: int = 100_000,
        failures: int = 5,
        patient: bool = False,
        floor: float = 0.6,
        learning: Callable[[Stage, SemanticTier, Steps], Learning] | None = None,
        flights: SupportsFlights | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.sink = RecordingSink()
        self.memory = MemoryStore(clock=self.clock, sink=self.sink, max_bytes=10_000_000)
        self.store = store or self.memory
        self.hot: HotCache[Entry] = hot if hot is not None else HotEntries(10_000_000)
        self.plain_index = PlainIndex(self.clock)
        self.embedder = HashingEmbedder()
        self.upstream = ScriptedUpstream(*scripts, patient=patient)
        self.exact = ExactTier(self.store, self.hot, clock=self.clock, sink=self.sink)
        tier = SemanticTier(
            embedder or self.embedder,
            index or self.plain_index,
            sink=self.sink,
            floor=Cosine(floor),
            neighbours=8,
            budget=Seconds(1.0),
            tokens=True,
        )
        limits = Limits(Seconds(deadline), Seconds(deadline), Seconds(deadline), max_entry_bytes)
        steps = Steps(BreakerConfig(failures=failures), clock=self.clock, sink=self.sink)
        self.learning = learning(self, tier, steps) if learning else None
        self.cache = Cache(
            Parts(
                exact=self.exact,
                semantic=tier if semantic else None,
                steps=steps,
                limits=limits,
                clock=self.clock,
                sink=self.sink,
                learning=self.learning,
                fleet=Fleet(flights, steps, Seconds(deadline)) if flights else None,
                late=LateIndex(tier, steps, clock=self.clock, sink=self.sink),
            )
        )
        self._requests = 0
        self._others: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Remember which tasks are not ours."""
        self._others = asyncio.all_tasks()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close; nothing may still run."""
        self.upstream.open.set()
        await self.cache.close(5.0)
        if self.learning is not None:
            await self.learning.close(5.0)
        assert asyncio.all_tasks() <= self._others
        assert self.upstream.live == 0

    def ask(
        self,
        text: str = CAT,
        *,
        stream: bool = False,
        usage: bool = False,
        controls: Controls | None = None,
        lives: Lives = LIVES,
        **fields: Any,
    ) -> Ask:
        """A request as the gateway would ask it."""
        content: dict[str, Any] = {
            "model": "fake",
            "messages": [{"role": "user", "content": text}],
            "stream": stream,
            **fields,
        }
        if usage:
            content["stream_options"] = {"include_usage": True}
        body = msgspec.json.encode(content)
        call = parse_chat(body)
        question = question_of(call, max_temperature=1.0)
        known = None if isinstance(question, str) else question
        wishes = controls or Controls()
        scope = Scope(PATH, "scripted", "", bytes(32), wishes.namespace)
        request = UpstreamRequest("POST", PATH, [], body)
        return Ask(
            call=call,
            question=known,
            scope=scope,
            key=exact_key(scope, call),
            plan=plan(wishes, lives, has_question=known is not None),
            send=lambda: self.upstream.send(request),
            request_id=self._next_id(),
        )

    def talk(self, earlier: Sequence[dict[str, str]], text: str, *, by_meaning: bool = True) -> Ask:
        """A question after these turns, as a gateway asks it that compares them by meaning."""
        ask = self.ask(messages=[*earlier, {"role": "user", "content": text}])
        question = question_of(ask.call, max_temperature=1.0, by_meaning=by_meaning)
        assert isinstance(question, Question)
        return msgspec.structs.replace(ask, question=question)

    def _next_id(self) -> str:
        self._requests += 1
        return f"{self.name}-{self._requests}"

    async def get(self, text: str | Ask = CAT, **wishes: Any) -> Got:
        """Ask and read to the end."""
        ask = self.ask(text, **wishes) if isinstance(text, str) else text
        looked = self.cache.peek(ask.key, ask.plan) or await self.cache.look(ask.key, ask.plan)
        if isinstance(looked, Hit):
            return await read(looked)
        async with self.cache.answering(msgspec.structs.replace(ask, looked=looked)) as reply:
            return await read(reply, usage=ask.call.wants_usage)

    def start(self, count: int = 1, **wishes: Any) -> list[asyncio.Task[Got]]:
        """So many callers at once."""
        return [asyncio.create_task(self.get(**wishes)) for _ in range(count)]

    async def settled(self) -> None:
        """Let write-backs land."""
        await self.cache.settled()
        if self.learning is not None:
            await self.learning.settled()

    @property
    def calls(self) -> int:
        """How often the engine was asked."""
        return len(self.upstream.asked)

    @property
    def refusals(self) -> list[str]:
        """Why answers were not stored."""
        return [event.reason for event in self.sink.of(AdmissionRefused)]

    async def stored(self) -> int:
        """How many entries the store in memory holds, once all has landed."""
        await self.settled()
        return (await self.memory.stats()).entries


async def settle(done: Any = lambda: False, turns: int = 200) -> None:
    """Let the loop turn until done, or so many times."""
    for _ in range(turns):
        if done():
            return
        await asyncio.sleep(0)


async def read(reply: Hit | Live | Collapsed | GiveUp, *, usage: bool = False) -> Got:
    """Read a reply to its end; raises what its stream raises."""
    match reply:
        case Hit():
            return Got(reply.tier, text_of(reply.entry.answer), 200, b"", reply)
        case Collapsed():
            return Got("rendered", text_of(reply.answer), 200, b"", reply)
        case GiveUp():
            return Got("nothing", "", 504, b"", reply)
    raw = reply.head.body
    if reply.head.streamed:
        raw = b"".join([piece async for piece in reply.flight.pieces(usage=usage)])
    how = "collapsed" if reply.collapsed else "engine"
    return Got(how, _text(raw, streamed=not raw.startswith(b"{")), reply.head.status, raw, reply)


def text_of(answer: Answer) -> str:
    """The first choice's text."""
    return facts(answer).texts[0]


def _text(raw: bytes, *, streamed: bool) -> str:
    try:
        return text_of(read_events(raw) if streamed else read_completion(raw))
    except AnswerUnusable as unusable:
        return f"<{unusable.reason}>"


def read_events(raw: bytes) -> Answer:
    """The answer in a stream."""
    reader = StreamReader()
    for event in EventSplitter().feed(raw):
        data = data_of(event)
        if data is not None:
            reader.feed(data)
    return reader.finish()
