"""The plugs of the house: what the core asks of the world, and nothing else.

All methods that touch the world are asynchronous and must not block the event loop.
They raise the `CacheFault` of their kind on failure; the caller sets the deadline.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from askonce.units import Bytes, Cosine, Seconds, UnixTime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from askonce.events import Event

    Vector = NDArray[np.float32]
    """Shape (dim,), unit length."""


class Clock(Protocol):
    """Time; neither call blocks or mutates."""

    def now(self) -> UnixTime:
        """The wall clock, for ages and expiry."""
        ...

    def monotonic(self) -> Seconds:
        """A clock that never goes back, for durations and deadlines."""
        ...


class Sink(Protocol):
    """Where events go."""

    def emit(self, event: Event) -> None:
        """Take one event; must return at once and never raise."""
        ...


class StoreStats(msgspec.Struct, frozen=True):
    """What a store holds."""

    entries: int
    size: Bytes


class Store(Protocol):
    """Bytes by key, each with an absolute end of life.

    A key is at most 64 bytes. Every call is atomic. Values come back exactly as put or not at all.
    """

    async def get(self, key: bytes) -> bytes | None:
        """Return the live value, or None; never mutates, never extends a life."""
        ...

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """Set the value, its tags and its end of life, replacing all three; ttl <= 0 deletes."""
        ...

    async def delete(self, key: bytes) -> bool:
        """Remove one entry; returns whether a live one was there."""
        ...

    async def clear(self) -> int:
        """Remove every entry of this store's namespace; returns how many were live."""
        ...

    async def stats(self) -> StoreStats:
        """Count live entries and the bytes of their values."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent; later calls raise StoreError."""
        ...


@runtime_checkable
class SupportsTags(Protocol):
    """A store that can remove by tag."""

    async def delete_tag(self, tag: str) -> int:
        """Remove every entry that carries the tag; returns how many were live."""
        ...


@runtime_checkable
class SupportsEpoch(Protocol):
    """A store shared by processes that can tell them when entries were taken away."""

    async def epoch(self) -> int:
        """A number that grows with every delete, tag delete and clear by any process.

        Holders of copies drop them when it moves; puts do not move it.
        """
        ...


@runtime_checkable
class SupportsWatch(Protocol):
    """A store shared by processes that says at once what others change."""

    def watch(self, changed: Callable[[Sequence[bytes] | None], None]) -> None:
        """From now on tell keys that were put or taken away; None when any may have been.

        Own calls are told as well, those that take away before they return. While it cannot know
        what others do it says None at least once a second. One watcher; synchronous.
        """
        ...


@runtime_checkable
class SupportsAbsence(Protocol):
    """A store that can often tell without I/O that there is no entry."""

    def surely_absent(self, key: bytes) -> bool:
        """True when `get` would find nothing; False says nothing. Synchronous, never raises."""
        ...


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Whom an entry is counted for."""

    tenant: str
    """The caller's partition in hexadecimal digits, or the beginning of it."""
    namespace: str = ""


class Owned(msgspec.Struct, frozen=True):
    """What a store holds of one owner."""

    owner: Owner
    entries: int
    size: Bytes


class Put(msgspec.Struct, frozen=True):
    """One entry to be put."""

    key: bytes
    value: bytes
    ttl: Seconds
    """More than 0."""
    tags: tuple[str, ...] = ()
    owner: Owner | None = None
    """Whom it is counted for, where the store counts."""
    share: int = 0
    """Bytes that the owner's tenant may have; past it the oldest of its own leave. 0: any."""


@runtime_checkable
class SupportsPutMany(Protocol):
    """A store in which many puts at once cost less than each alone."""

    async def put_many(self, puts: Sequence[Put]) -> None:
        """Put all, in order, or none."""
        ...


@runtime_checkable
class Lead(Protocol):
    """An engine call that this process makes for all replicas."""

    def tell(self, piece: bytes) -> None:
        """Hand on one more piece, in order; synchronous, never raises."""
        ...

    def end(self, *, kept: bool) -> None:
        """Nothing more comes; idempotent, synchronous, never raises.

        kept: the answer is about to be put, and whoever asks before it is there may still follow.
        """
        ...


@runtime_checkable
class Followed(Protocol):
    """An engine call that another replica makes."""

    async def read(self) -> Sequence[bytes]:
        """Pieces that were not read before, from the first on; none when the leader has ended.

        Raises StoreError when the leader is gone or cannot be heard.
        """
        ...

    def leave(self) -> None:
        """Read no more; idempotent."""
        ...


@runtime_checkable
class SupportsFlights(Protocol):
    """A store shared by processes that lets one of them make an engine call for all."""

    async def board(
        self, key: bytes, flight: bytes, *, look: bool
    ) -> bytes | Lead | Followed | None:
        """Lead the flight, follow its leader, or go alone (None); atomic.

        flight: 32 bytes; those who may share an answer have the same. look: give the key's live
        value instead when there is one. A leader that dies is replaced within two seconds; a put
        of the key by one that was replaced is left out.
        """
        ...


@runtime_checkable
class SupportsOwners(Protocol):
    """A store that counts by owner, and keeps the shares of `Put`."""

    async def owned(self, limit: int) -> list[Owned]:
        """Owners with most bytes first; entries without an owner are not among them."""
        ...


V = TypeVar("V")


class HotCache(Protocol[V]):
    """A bounded cache inside the process, in front of a store; synchronous and without I/O."""

    def get(self, key: bytes, now: float) -> V | None:
        """The live value, or None; marks it as used."""

    def put(self, key: bytes, value: V, size: int, expires_at: float) -> int:
        """Keep a value of that many bytes; returns how many others had to leave."""

    def discard(self, key: bytes) -> None:
        """Drop one key; nothing happens when it is not there."""

    def clear(self) -> int:
        """Drop everything; returns how many entries there were."""


class Embedder(Protocol):
    """Text to unit vector."""

    id: str
    """Names model file, tokenizer and mode by digest: vectors of two ids never meet."""
    dim: int

    def expected_time(self, text: str) -> Seconds:
        """How long `embed` would take now, waiting included; an estimate, 0 while unknown."""
        ...

    async def embed(self, text: str) -> Vector:
        """Embed one text; raises TextTooLong, EmbedderBusy (queue full: shed), EmbedderError."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent."""
        ...


class ReadText(msgspec.Struct, frozen=True):
    """One text as an embedder has read it."""

    vector: Vector
    tokens: bytes
    """Its tokens' ids and directions, packed by `trust.alignment`."""


@runtime_checkable
class SupportsTokens(Protocol):
    """An embedder that also gives its tokens' vectors, out of the same pass."""

    async def read(self, text: str) -> ReadText:
        """Embed one text with its tokens; raises as `embed`."""
        ...


class IndexedText(msgspec.Struct, frozen=True):
    """One question in an index, and the key of the entry that answers it."""

    key: bytes
    """Exact key of the entry (32 bytes); unique in the index: a second add replaces the first."""
    text: str
    expires_at: UnixTime
    tokens: bytes = b""
    """As in `ReadText`; empty where the embedder gives none."""


class Neighbour(msgspec.Struct, frozen=True):
    """One search result."""

    score: Cosine
    item: IndexedText
    vector: bytes = b""
    """The item's own, as float32 in the machine's order; empty where an index keeps none."""


class VectorIndex(Protocol):
    """Nearest neighbours inside one hard partition; a partition never sees another's vectors.

    A partition is 32 bytes. The index is bound to one embedder id.
    """

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Insert or replace by item.key; visible to this process's next search at once."""
        ...

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """The k nearest live items, best first; an unknown partition gives an empty list."""
        ...

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remove items by entry key in any partition; returns how many were there."""
        ...

    async def clear(self) -> int:
        """Remove everything; returns how many items there were."""
        ...

    async def count(self) -> int:
        """How many live items there are, over all partitions."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent; later calls raise VectorIndexError."""
        ...


@runtime_checkable
class SupportsPartitionDrop(Protocol):
    """A vector index that can remove one partition at once."""

    async def drop_partition(self, partition: bytes) -> int:
        """Remove all its items; returns how many live ones there were."""
        ...


Headers = Sequence[tuple[bytes, bytes]]
"""Raw header pairs in order, names in lower case."""


class UpstreamRequest(msgspec.Struct, frozen=True):
    """One HTTP request to an engine; hop-by-hop headers are already gone."""

    method: str
    path: str
    """Raw path with query as the caller sent it, from `/v1` on."""
    headers: Headers
    body: bytes | AsyncIterator[bytes]


class UpstreamResponse(Protocol):
    """An answer that has begun; read it once, then close."""

    status: int
    headers: Headers

    def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they arrive; raises UpstreamBroken when they break off."""

    async def read(self) -> bytes:
        """The whole body; raises UpstreamBroken when it breaks off."""

    async def close(self) -> None:
        """Give the connection back, or drop it when the body was not read whole; idempotent."""


class Upstream(Protocol):
    """One engine or provider."""

    name: str
    revision: str
    """Operator's label for the model revision behind it; part of every key."""
    ask_usage: bool
    """Whether streams should be asked for usage, so that a hit can replay it."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send and wait for status and headers; raises UpstreamUnreachable or UpstreamTimeout."""
        ...

    async def close(self) -> None:
        """Drop all connections; idempotent."""
        ...


Agreement = Literal["same", "different", "unsure"]
"""Whether two answers say the same; `unsure` is no evidence either way."""


class Verdict(msgspec.Struct, frozen=True):
    """What a judge makes of two answers."""

    agreement: Agreement
    how: str
    """Which rule or guard decided, or why none could."""


class Judge(Protocol):
    """Says whether two answers to one question mean the same; off the request path."""

    async def judge(self, question: str, cached: str, fresh: str) -> Verdict:
        """Compare; never raises: a judge that cannot tell, or is not allowed to, is unsure."""

    async def close(self) -> None:
        """Release what it made itself; idempotent."""


class Verifier(Protocol):
    """A second, dearer opinion on whether the answer to a cached question is right for another."""

    def expected_time(self, question: str, cached: str) -> Seconds:
        """How long `verify` would take now, waiting included; an estimate, 0 while unknown."""

    async def verify(self, question: str, cached: str) -> float:
        """Log odds that it is; raises VerifierBusy (full: shed), TextTooLong, VerifierError."""

    async def close(self) -> None:
        """Release everything; idempotent."""


LabelSource = Literal["miss", "audit", "shadow", "operator", "caller", "hit"]
"""Who asked the engine, or who said so; a `hit` has no label yet."""
EvidenceSource = Literal[LabelSource, "asked"]
"""What was `asked` is no label: it carries the requests that the process named by its `request_id`
has decided."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One label: would this entry have answered, or did it answer, that question rightly."""

    at: UnixTime
    namespace: str
    partition: bytes
    """32 bytes, as in the vector index."""
    request_id: str
    question: bytes
    """Digest of the asked text; the text itself is kept nowhere but in the vector index."""
    entry: bytes
    """Key of the cached entry."""
    score: float
    """What the decision was made by."""
    features: bytes = b""
    """What the verifier saw: at most 64 little-endian float16."""
    verdict: Agreement
    how: str = ""
    source: EvidenceSource
    probability: float = 1.0
    """With which this one was drawn, in (0, 1]; its weight is the inverse."""
    mode: Literal["off", "shadow", "on"]
    look: bytes = b""
    """On the first of a request's records: all that was measured, for verifiers to learn from.
    On one that was `asked`: the requests, packed by `trust.asked`."""
    retracted: bool = False
    """The entry has been marked bad."""
    seq: int = 0
    """Place in the log, which gives it; 0 before."""


class EvidenceLog(Protocol):
    """Labels in the order they came, shared by processes; append only and bounded.

    Past its bound the oldest leave. Every call is atomic and raises StoreError on failure.
    """

    async def append(self, records: Sequence[Evidence]) -> int:
        """Add all or none in order; returns the last one's seq, or 0 for no records."""

    async def since(self, seq: int, limit: int) -> list[Evidence]:
        """Records after that seq, oldest first; seqs grow, even past a file that was lost."""

    async def of_request(self, request_id: str) -> list[Evidence]:
        """All records of one request, oldest first."""

    async def of_entry(self, entry: bytes) -> list[Evidence]:
        """All records about one entry, oldest first."""

    async def retract(self, entry: bytes) -> int:
        """Mark an entry's records; returns how many were not marked before.

        A record of its own says so to those who follow the log: `operator`, `different`,
        `retracted`, in the newest record's namespace and partition, empty where there is none.
        """

    async def stats(self) -> StoreStats:
        """Count records and their bytes."""

    async def close(self) -> None:
        """Release everything; idempotent; later calls raise StoreError."""


class Selector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries that match every field that is set; none set means all."""

    key: str | None = None
    """Exact key, 64 hexadecimal digits."""
    model: str | None = None
    upstream: str | None = None
    revision: str | None = None
    namespace: str | None = None
    tenant: str | None = None
    """The caller's partition, 64 hexadecimal digits."""
    prompt: str | None = None
    """Digest of the system prompt, as `canonical.request.prompt_digest` gives it."""
    tag: str | None = None
    older_than: UnixTime | None = None
    """Answers from before then alone."""


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that takes entries back."""

    what: Selector
    at: UnixTime
    by: str = ""
    """Who asked for it, as an operator named them."""
    why: str = ""
    seq: int = 0
    """Place in the log, which gives it; 0 before."""


class RevocationPage(msgspec.Struct, frozen=True):
    """Part of a revocation log."""

    birth: int
    """Rules up to this number are not known any more, or never were: older entries are dead."""
    last: int
    """The newest rule's number; `birth` when there is none."""
    rules: tuple[Revocation, ...]


class RevocationLog(Protocol):
    """Rules in the order they were made, shared by all replicas; append only.

    Every call is atomic and raises StoreError on failure. Numbers grow, even past a log that was
    lost: the new log's birth is then above every number that the old one gave.
    """

    async def append(self, rule: Revocation) -> int:
        """Add the rule; returns its number, which every later `read` knows."""
        ...

    async def read(self, after: int, limit: int) -> RevocationPage:
        """Up to `limit` rules after that number, oldest first."""
        ...

    async def close(self) -> None:
        """Release everything; idempotent; later calls raise StoreError."""
        ...


@runtime_checkable
class SupportsSearchAll(Protocol):
    """An index that can search all partitions at once, for an operator."""

    async def search_all(self, vector: Vector, *, floor: Cosine, limit: int) -> list[Neighbour]:
        """Live items of any partition at or above the floor, best first; may take seconds."""
        ...


class Statistics(Protocol):
    """Any part that can say how it is, for `stats` and `/metrics`."""

    def statistics(self) -> Mapping[str, float]:
        """Current figures by name; cheap and synchronous."""
