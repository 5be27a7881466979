"""What a pool has done, in numbers; and what they are called in Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from askonce.kv.audit import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from askonce.events import BreakerState

Operation = Literal["lookup", "load", "store", "renew"]

METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "askonce_kv_blocks_total": (
        "operation, outcome",
        "Blocks by what became of them; an outcome other than `done` is a miss or not stored.",
    ),
    "askonce_kv_flaws_total": (
        "flaw",
        "Blocks that were received and refused, by what was wrong with them.",
    ),
    "askonce_kv_bytes_total": (
        "operation",
        "Payload bytes that were verified and delivered, or sealed and stored.",
    ),
    "askonce_kv_seconds_total": ("operation", "Time from submission to the end of calls."),
    "askonce_kv_calls_total": ("operation", "Lookups, load jobs and store jobs that ended."),
    "askonce_kv_pinned_views": ("", "Buffers of the engine that jobs hold."),
    "askonce_kv_open_lookups": ("", "Lookups without an answer."),
    "askonce_kv_epoch_age_seconds": ("", "Time since the epoch was last read from the store."),
    "askonce_kv_breaker_open": ("", "1 while the store is left alone after failures."),
    "askonce_kv_audited_blocks_total": (
        "verdict",
        "Stored blocks held against computed ones: `agrees`, `disagrees`, or `undone`.",
    ),
    "askonce_kv_audit_error_total": ("", "Sum of the errors of audited blocks."),
    "askonce_kv_audit_error_max": ("", "The largest of them."),
}
"""Name to labels and meaning."""


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool at one moment; totals since it was made."""

    blocks: Mapping[tuple[Operation, str], int]
    """By operation and outcome."""
    flaws: Mapping[str, int]
    bytes: Mapping[Operation, int]
    seconds: Mapping[Operation, float]
    calls: Mapping[Operation, int]
    pinned: int
    """Views that jobs hold."""
    open_lookups: int
    breaker: BreakerState
    epoch: int | None
    """None while it is not known, and nothing is served."""
    epoch_age: float
    audit: Record

    def samples(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Every metric as name, values of its labels in order, and value."""
        for (operation, outcome), count in sorted(self.blocks.items()):
            yield "askonce_kv_blocks_total", (operation, outcome), count
        for flaw, count in sorted(self.flaws.items()):
            yield "askonce_kv_flaws_total", (flaw,), count
        for name, table in (
            ("bytes", self.bytes),
            ("seconds", self.seconds),
            ("calls", self.calls),
        ):
            for operation, value in sorted(table.items()):
                yield f"askonce_kv_{name}_total", (operation,), value
        yield "askonce_kv_pinned_views", (), self.pinned
        yield "askonce_kv_open_lookups", (), self.open_lookups
        yield "askonce_kv_epoch_age_seconds", (), self.epoch_age
        yield "askonce_kv_breaker_open", (), float(self.breaker != "closed")
        told = self.audit
        for verdict, count in (
            ("agrees", told.agreed),
            ("disagrees", told.disagreed),
            ("undone", told.undone),
        ):
            yield "askonce_kv_audited_blocks_total", (verdict,), count
        yield "askonce_kv_audit_error_total", (), told.errors
        yield "askonce_kv_audit_error_max", (), told.worst


class Tally:
    """Counts from many threads."""

    def __init__(self) -> None:
        """All zero."""
        self._lock = threading.Lock()
        self._blocks: Counter[tuple[Operation, str]] = Counter()
        self._flaws: Counter[str] = Counter()
        self._bytes: Counter[Operation] = Counter()
        self._calls: Counter[Operation] = Counter()
        self._seconds: dict[Operation, float] = {}
        self._audit = Record()

    def count(
        self, operation: Operation, outcomes: Iterable[str], *, size: int, seconds: float
    ) -> None:
        """One call ended; size: payload bytes of what was done."""
        with self._lock:
            for outcome in outcomes:
                self._blocks[operation, outcome] += 1
            self._bytes[operation] += size
            self._calls[operation] += 1
            self._seconds[operation] = self._seconds.get(operation, 0.0) + seconds

    def flawed(self, flaws: Iterable[str]) -> None:
        """Blocks were received and refused."""
        with self._lock:
            self._flaws.update(flaws)

    def audited(self, error: float, tolerance: float) -> None:
        """A stored block was held against one that the engine computed."""
        with self._lock:
            self._audit = self._audit.heard(error, tolerance)

    def unaudited(self, count: int) -> None:
        """So many should have been."""
        with self._lock:
            self._audit = self._audit.missed(count)

    def figures(
        self,
        *,
        pinned: int,
        open_lookups: int,
        breaker: BreakerState,
        epoch: int | None,
        epoch_age: float,
    ) -> PoolFigures:
        """A copy, with what is not counted here."""
        with self._lock:
            return PoolFigures(
                blocks=dict(self._blocks),
                flaws=dict(self._flaws),
                bytes=dict(self._bytes),
                seconds=dict(self._seconds),
                calls=dict(self._calls),
                pinned=pinned,
                open_lookups=open_lookups,
                breaker=breaker,
                epoch=epoch,
                epoch_age=epoch_age,
                audit=self._audit,
            )
