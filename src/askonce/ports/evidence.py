"""Who says whether two answers are the same, and where that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from askonce.units import Seconds, UnixTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports.stores import StoreStats

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
    embedder: str = ""
    """Id of what measured: scores and looks of another one say nothing."""
    seq: int = 0
    """Place in the log, which gives it; 0 before."""


class EvidenceLog(Protocol):
    """Labels in the order they came, shared by processes; append only and bounded.

    Past its bound the oldest leave. Every call is atomic and raises StoreError on failure.
    """

    async def append(self, records: Sequence[Evidence]) -> int:
        """Add all or none in order; returns the last one's seq, or 0 for no records."""

    async def say(self, word: Evidence) -> int:
        """Add what a caller or an operator says of a request, if it is new; returns its seq.

        A caller's second word on a request is not, nor one of an operator's who said so last.
        """

    async def since(self, seq: int, limit: int) -> list[Evidence]:
        """Records after that seq, oldest first; seqs grow, even past a file that was lost."""

    async def of_request(self, request_id: str) -> list[Evidence]:
        """All records of one request, oldest first."""

    async def of_entry(self, entry: bytes) -> list[Evidence]:
        """All records about one entry, oldest first."""

    async def retract(self, entry: bytes) -> int:
        """Mark an entry's records; returns how many were not marked before.

        A record of its own says so to those who follow the log: `operator`, `different`,
        `retracted`, in the newest record's namespace and partition, empty where there is none. One
        that follows another and marks nothing is not told again.
        """

    async def stats(self) -> StoreStats:
        """Count records and their bytes."""

    async def close(self) -> None:
        """Release everything; idempotent; later calls raise StoreError."""
