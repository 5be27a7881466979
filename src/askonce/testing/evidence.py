"""What every evidence log must do, as a suite that any author can run, and a fake that does it.

    await check_evidence_log(lambda: MyEvidenceLog(...))

It raises AssertionError with the broken promise in plain words.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import StoreError
from askonce.ports import Evidence, EvidenceLog, StoreStats
from askonce.trust.labels import checked, is_retraction, retraction, said_before
from askonce.units import Bytes, UnixTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Clock

MakeLog = Callable[[], EvidenceLog | Awaitable[EvidenceLog]]
"""Makes a new log, open and empty."""


class MemoryEvidenceLog:
    """A fake `EvidenceLog` in one process's memory."""

    def __init__(self, *, clock: Clock, max_records: int = 100_000) -> None:
        """max_records: past it the oldest leave."""
        self._clock = clock
        self._max = max_records
        self._records: list[Evidence] = []
        self._last = 0
        self._closed = False

    async def append(self, records: Sequence[Evidence]) -> int:
        """See `EvidenceLog`."""
        self._check_open()
        for record in [checked(record) for record in records]:
            self._last += 1
            self._records.append(msgspec.structs.replace(record, seq=self._last))
        del self._records[: -self._max]
        return self._last if records else 0

    async def say(self, word: Evidence) -> int:
        """See `EvidenceLog`."""
        known = said_before(word, await self.of_request(word.request_id))
        return known.seq if known else await self.append([word])

    async def since(self, seq: int, limit: int) -> list[Evidence]:
        """See `EvidenceLog`."""
        self._check_open()
        return [record for record in self._records if record.seq > seq][: max(limit, 0)]

    async def of_request(self, request_id: str) -> list[Evidence]:
        """See `EvidenceLog`."""
        self._check_open()
        return [record for record in self._records if record.request_id == request_id]

    async def of_entry(self, entry: bytes) -> list[Evidence]:
        """See `EvidenceLog`."""
        self._check_open()
        return [record for record in self._records if record.entry == entry]

    async def retract(self, entry: bytes) -> int:
        """See `EvidenceLog`."""
        about = await self.of_entry(entry)
        marked = {record.seq for record in about if not record.retracted}
        self._records = [
            msgspec.structs.replace(record, retracted=True) if record.seq in marked else record
            for record in self._records
        ]
        last = about[-1] if about else None
        if marked or not is_retraction(last):
            await self.append([retraction(entry, last, self._clock.now())])
        return len(marked)

    async def stats(self) -> StoreStats:
        """See `EvidenceLog`."""
        self._check_open()
        size = sum(len(msgspec.msgpack.encode(record)) for record in self._records)
        return StoreStats(entries=len(self._records), size=Bytes(size))

    async def close(self) -> None:
        """Refuse later calls; idempotent."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the log is closed")


def example_evidence(number: int = 0, *, request_id: str = "", entry: bytes = b"") -> Evidence:
    """A label like real ones; the number makes it its own."""
    return Evidence(
        at=UnixTime(1_700_000_000.25 + number),
        namespace="support",
        partition=bytes(32),
        request_id=request_id or f"request-{number}",
        question=number.to_bytes(32, "big"),
        entry=entry or number.to_bytes(32, "big"),
        score=0.75,
        features=bytes(range(128)),
        verdict="same",
        how="equal",
        source="miss",
        probability=0.125,
        mode="on",
    )


async def check_evidence_log(make_log: MakeLog) -> None:
    """Hold a log against every sentence of `EvidenceLog`."""
    for check in _CHECKS:
        log = await _made(make_log)
        try:
            await check(log)
        finally:
            await log.close()
    await _check_close(await _made(make_log))


async def _made(make_log: MakeLog) -> EvidenceLog:
    made = make_log()
    return await made if inspect.isawaitable(made) else made


def _expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not kept:
        raise AssertionError(promise)


def _placed(records: Sequence[Evidence], seqs: Sequence[int]) -> list[Evidence]:
    pairs = zip(records, seqs, strict=True)
    return [msgspec.structs.replace(record, seq=seq) for record, seq in pairs]


async def _seqs(log: EvidenceLog) -> list[int]:
    return [record.seq for record in await log.since(0, 1000)]


async def _records_come_back(log: EvidenceLog) -> None:
    records = [example_evidence(number) for number in range(5)]
    last = await log.append(records)
    seqs = await _seqs(log)
    _expect(await log.since(0, 10) == _placed(records, seqs), "records come back as appended")
    _expect(last == seqs[-1], "append returns the last record's seq")
    _expect(seqs == sorted(set(seqs)) and seqs[0] > 0, "seqs grow, and are above 0")
    _expect(await log.append([]) == 0, "append of nothing is 0")


async def _can_be_followed(log: EvidenceLog) -> None:
    await log.append([example_evidence(number) for number in range(3)])
    first = await log.since(0, 2)
    _expect([r.entry[-1] for r in first] == [0, 1], "since gives the oldest, up to the limit")
    rest = await log.since(first[-1].seq, 10)
    _expect([r.entry[-1] for r in rest] == [2], "since goes on after the seq")
    _expect(await log.since(rest[-1].seq, 10) == [], "since gives nothing after the last")
    _expect(await log.since(0, 0) == [], "a limit of 0 gives nothing")
    later = await log.append([example_evidence(9)])
    _expect(later > rest[-1].seq, "what is appended later has a later seq")


async def _can_be_looked_up(log: EvidenceLog) -> None:
    await log.append([example_evidence(1, request_id="r", entry=b"e" * 32)])
    await log.append([example_evidence(2, request_id="r"), example_evidence(3, entry=b"e" * 32)])
    by_request = [record.question[-1] for record in await log.of_request("r")]
    by_entry = [record.question[-1] for record in await log.of_entry(b"e" * 32)]
    _expect(by_request == [1, 2], "of_request finds all of one request, oldest first")
    _expect(by_entry == [1, 3], "of_entry finds all about one entry, oldest first")
    _expect(await log.of_request("other") == [], "an unknown request has no records")
    _expect(await log.of_entry(b"other") == [], "an unknown entry has no records")


async def _retraction_marks(log: EvidenceLog) -> None:
    entry = b"e" * 32
    await log.append([example_evidence(n, entry=entry) for n in range(2)])
    last = await log.append([example_evidence(7)])
    _expect(await log.retract(entry) == 2, "retract returns how many it marked")
    about = await log.of_entry(entry)
    _expect(all(record.retracted for record in about), "retract marks all records of the entry")
    _expect(not (await log.since(0, 10))[2].retracted, "retract marks no other entry's records")
    told = await log.since(last, 10)
    _expect(len(told) == 1 and told[0].entry == entry, "a retraction is told to followers, once")
    _expect(
        (told[0].source, told[0].verdict, told[0].namespace)
        == ("operator", "different", "support"),
        "a retraction is an operator's word, where the entry's last record was",
    )
    _expect(await log.retract(entry) == 0, "a second retraction marks nothing")


async def _retraction_counts_once(log: EvidenceLog) -> None:
    entry = b"e" * 32
    await log.append([example_evidence(1, entry=entry)])
    await log.retract(entry)
    await log.retract(entry)
    _expect(len(await log.of_entry(entry)) == 2, "a retraction that marks nothing new is not told")
    await log.append([example_evidence(2, entry=entry)])
    await log.retract(entry)
    _expect(len(await log.of_entry(entry)) == 4, "one of an entry that came back is told again")


async def _words_count_once(log: EvidenceLog) -> None:
    word = msgspec.structs.replace(example_evidence(1), source="caller")
    first, *others = await asyncio.gather(*(log.say(word) for _ in range(8)))
    _expect(others == [first] * 7, "say gives the seq of the word that is there")
    await log.say(msgspec.structs.replace(word, verdict="different"))
    _expect(len(await log.of_request(word.request_id)) == 1, "a caller's first word is its last")
    told = msgspec.structs.replace(word, source="operator")
    for verdict in ("same", "same", "different", "same"):
        await log.say(msgspec.structs.replace(told, verdict=verdict))
    found = [record.verdict for record in await log.of_request(word.request_id)]
    _expect(found == ["same", "same", "different", "same"], "an operator's latest word stands")


async def _unknown_can_be_retracted(log: EvidenceLog) -> None:
    _expect(await log.retract(b"unknown") == 0, "an entry without records marks none")
    told = await log.since(0, 10)
    _expect([record.entry for record in told] == [b"unknown"], "and is told all the same")
    _expect(told[0].partition == b"", "with no partition, for none is known")


async def _stats_count(log: EvidenceLog) -> None:
    _expect((await log.stats()).entries == 0, "a new log is empty")
    await log.append([example_evidence(1), example_evidence(2)])
    stats = await log.stats()
    _expect(stats.entries == 2 and stats.size > 256, "stats count records and bytes")


async def _refuses_poison(log: EvidenceLog) -> None:
    bad = [
        msgspec.structs.replace(example_evidence(), probability=0.0),
        msgspec.structs.replace(example_evidence(), probability=float("nan")),
        msgspec.structs.replace(example_evidence(), score=float("inf")),
        msgspec.structs.replace(example_evidence(), features=bytes(130)),
    ]
    for record in bad:
        _expect(await _raises(ValueError, log, record), "a record that is none raises ValueError")
    _expect((await log.stats()).entries == 0, "append adds all records or none")


async def _calls_together(log: EvidenceLog) -> None:
    lasts = await asyncio.gather(*(log.append([example_evidence(n)]) for n in range(32)))
    _expect(len(set(lasts)) == 32, "each record has a seq of its own")
    _expect(sorted(lasts) == await _seqs(log), "appends at one time all take effect")


async def _check_close(log: EvidenceLog) -> None:
    await log.close()
    await log.close()
    _expect(await _raises(StoreError, log, example_evidence()), "append raises after close")
    for call in (log.since(0, 1), log.of_request("r"), log.of_entry(b"e"), log.retract(b"e")):
        _expect(await _refused(call), "a call after close raises StoreError")
    _expect(await _refused(log.stats()), "stats raises after close")


async def _refused(call: Awaitable[object]) -> bool:
    try:
        await call
    except StoreError:
        return True
    return False


async def _raises(error: type[Exception], log: EvidenceLog, record: Evidence) -> bool:
    try:
        await log.append([example_evidence(1), record])
    except error:
        return True
    return False


_CHECKS = (
    _records_come_back,
    _can_be_followed,
    _can_be_looked_up,
    _retraction_marks,
    _retraction_counts_once,
    _words_count_once,
    _unknown_can_be_retracted,
    _stats_count,
    _refuses_poison,
    _calls_together,
)
