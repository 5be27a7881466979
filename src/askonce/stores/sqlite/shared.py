"""A SQLite file that processes share, read and written by a thread and a connection each.

No read waits for a commit or a checkpoint. Reads take no lock that a writer could wait for, and
write nothing.
"""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, TypeVar

from askonce.errors import StoreError
from askonce.events import Evicted, HeldBytes
from askonce.stores.sqlite import writes
from askonce.stores.sqlite.file import ENTRIES, Broken, Schema, Session, StoreFile
from askonce.units import Bytes
from askonce.worker import Worker, WorkerBusy, WorkerClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from askonce.events import Event, Part
    from askonce.ports import Clock, Sink
    from askonce.stores.sqlite.keys import KeyRecord

T = TypeVar("T")


class SqliteShared:
    """What every store over such a file does; create it inside a running event loop."""

    part: Part
    schema: Schema = ENTRIES
    patience: float = writes.STUCK_SECONDS
    """As `writes.Bounds.patience`."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        sink: Sink,
        max_bytes: int,
        queue: int = 4096,
        linger: float = 0.0,
        keys: KeyRecord | None = None,
    ) -> None:
        """Start both threads; the file is opened by the first call.

        max_bytes: bound of the values and what they cost in the file; the file itself is kept
            within a half more, and within 16 MiB more than that under any load.
        queue: calls that may wait, for reads and writes each; one more raises StoreError.
        linger: seconds that a write waits for others to share its transaction.
        keys: told of all that is written.
        """
        self._clock = clock
        self._sink = sink
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._file = StoreFile(
            path, clock=clock, file_bytes=max_bytes + max_bytes // 2, schema=self.schema
        )
        self._reading = Session(self._file)
        self._writing = Session(self._file)
        self._writes = writes.Writes(
            self._writing,
            clock=clock,
            bounds=writes.Bounds(max_bytes, self._file.pages, self.patience),
            keys=keys,
            report=self._report,
            part=self.part,
        )
        thread = f"askonce-{self.part}"
        self._reader = Worker(f"{thread}-read", limit=queue)
        self._writer = Worker(
            f"{thread}-write", limit=queue, linger=linger, around=self._writes.batch
        )
        self._held = HeldBytes(part=self.part, size=Bytes(0), entries=0)
        self._evicted = 0
        self._closed = False

    async def close(self) -> None:
        """Write what waits, then release everything; idempotent; later calls raise StoreError."""
        self._closed = True
        await self._reader.close()
        await self._writer.close()
        await asyncio.to_thread(self._reading.close)
        await asyncio.to_thread(self._writing.close)

    def statistics(self) -> dict[str, float]:
        """See `Statistics`; entries and bytes are those of this process's last write."""
        return {
            "entries": self._held.entries,
            "bytes": self._held.size,
            "evicted": self._evicted,
            "files_set_aside": self._file.set_aside,
            "reads_waiting": self._reader.waiting,
            "writes_waiting": self._writer.waiting,
        }

    async def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._ask(self._reader, lambda: self._read_here(job))

    def _read_here(self, job: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._reading.connection()
            self._opened()
            return job(connection)
        except (sqlite3.Error, Broken) as error:
            raise self._reading.fault(error) from error

    def _opened(self) -> None:
        """The file is open for the read that comes; runs in the reading thread."""

    async def _write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._ask(self._writer, lambda: self._writes.run(job))

    async def _ask(self, worker: Worker, job: Callable[[], T]) -> T:
        if self._closed:
            raise StoreError("the store is closed")
        try:
            return await worker.run(job)
        except WorkerBusy:
            raise StoreError("too many calls wait for the store") from None
        except WorkerClosed:
            raise StoreError("the store is closed") from None

    def _report(self, events: Sequence[Event]) -> None:
        self._loop.call_soon_threadsafe(self._take, events)

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, HeldBytes):
                self._held = event
            elif isinstance(event, Evicted):
                self._evicted += event.entries
            self._sink.emit(event)
