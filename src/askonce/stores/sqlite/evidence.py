"""The evidence log: one SQLite file of labels, shared by worker processes, that outlives them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from askonce.ports import Evidence, StoreStats
from askonce.stores.sqlite.log import insert, log_schema, record_of, row_of
from askonce.stores.sqlite.shared import SqliteShared
from askonce.trust.labels import checked, is_retraction, retraction, said_before
from askonce.units import Bytes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from askonce.events import Part
    from askonce.ports import Clock, Sink

ROW_BYTES = 96
"""What a record costs in the file besides its value: two index slots, half-filled pages."""

LINGER = 0.02
"""Seconds that a record waits for others to share its transaction; nobody waits for it."""

SCHEMA = log_schema(
    0x41736B65,
    columns="subject BLOB NOT NULL, request TEXT NOT NULL, retracted INTEGER NOT NULL,",
    indexes=(
        "CREATE INDEX entry_subject ON entry (subject)",
        "CREATE INDEX entry_request ON entry (request)",
    ),
)

_COLUMNS = "SELECT retracted, id, checksum, value FROM entry"
_OF_REQUEST = "WHERE request = ? ORDER BY id"

_decoder = msgspec.msgpack.Decoder(Evidence)


class SqliteEvidence(SqliteShared):
    """An `EvidenceLog`; create it inside a running event loop.

    A file that is broken is set aside and a new one takes its place; the call that found it raises
    StoreError. A locked database raises StoreError after 20 ms.
    """

    part: Part = "evidence"
    schema = SCHEMA
    patience = math.inf
    """What is known of wrong answers is worth more than a log that can be written again."""

    async def append(self, records: Sequence[Evidence]) -> int:
        """See `EvidenceLog`."""
        rows = [_row(checked(record)) for record in records]

        def job(connection: sqlite3.Connection) -> int:
            last = max([insert(connection, row) for row in rows], default=0)
            self._file.saw_epoch(last)
            return last

        return await self._write(job)

    async def say(self, word: Evidence) -> int:
        """See `EvidenceLog`."""
        row = _row(checked(word))

        def job(connection: sqlite3.Connection) -> int:
            rows = connection.execute(f"{_COLUMNS} {_OF_REQUEST}", (word.request_id,))
            known = said_before(word, [_record(each) for each in rows])
            seq = known.seq if known else insert(connection, row)
            self._file.saw_epoch(seq)
            return seq

        return await self._write(job)

    async def since(self, seq: int, limit: int) -> list[Evidence]:
        """See `EvidenceLog`."""
        return await self._select("WHERE id > ? ORDER BY id LIMIT ?", seq, max(limit, 0))

    async def of_request(self, request_id: str) -> list[Evidence]:
        """See `EvidenceLog`."""
        return await self._select(_OF_REQUEST, request_id)

    async def of_entry(self, entry: bytes) -> list[Evidence]:
        """See `EvidenceLog`."""
        return await self._select("WHERE subject = ? ORDER BY id", entry)

    async def retract(self, entry: bytes) -> int:
        """See `EvidenceLog`."""
        now = self._clock.now()

        def job(connection: sqlite3.Connection) -> int:
            row = connection.execute(
                f"{_COLUMNS} WHERE subject = ? ORDER BY id DESC LIMIT 1", (entry,)
            ).fetchone()
            last = _record(row) if row else None
            marked = connection.execute(
                "UPDATE entry SET retracted = 1 WHERE subject = ? AND NOT retracted", (entry,)
            ).rowcount
            if marked or not is_retraction(last):
                insert(connection, _row(retraction(entry, last, now)))
            return marked

        return await self._write(job)

    async def stats(self) -> StoreStats:
        """See `EvidenceLog`."""

        def job(connection: sqlite3.Connection) -> StoreStats:
            entries, size = connection.execute("SELECT entries, size FROM held").fetchone()
            return StoreStats(entries=entries, size=Bytes(size))

        return await self._read(job)

    async def _select(self, where: str, *values: object) -> list[Evidence]:
        def job(connection: sqlite3.Connection) -> list[Evidence]:
            rows = connection.execute(f"{_COLUMNS} {where}", values)
            records = [_record(row) for row in rows]
            self._file.saw_epoch(records[-1].seq if records else 0)
            return records

        return await self._read(job)


def _row(record: Evidence) -> dict[str, object]:
    return row_of(
        record,
        ROW_BYTES + len(record.entry) + len(record.request_id),
        subject=record.entry,
        request=record.request_id,
        retracted=record.retracted,
    )


def _record(row: tuple[int, int, int, bytes]) -> Evidence:
    return msgspec.structs.replace(record_of(_decoder, row[1:]), retracted=bool(row[0]))


def open_evidence(path: Path, *, clock: Clock, sink: Sink, max_bytes: int) -> SqliteEvidence:
    """Open the log; records are written behind the request, some together."""
    return SqliteEvidence(path, clock=clock, sink=sink, max_bytes=max_bytes, linger=LINGER)
