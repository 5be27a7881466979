"""The embedded store: one SQLite file, shared by worker processes, that outlives them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from askonce.errors import ConfigError, StoreError
from askonce.events import Evicted
from askonce.ports import Owned, Put, StoreStats
from askonce.stores.sqlite import writes
from askonce.stores.sqlite.file import Broken
from askonce.stores.sqlite.keys import KeyRecord, KnownKeys
from askonce.stores.sqlite.shared import SqliteShared
from askonce.units import Bytes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from askonce.events import Part
    from askonce.ports import Clock, Sink
    from askonce.units import Seconds

WAITING_BYTES = 64 * 1024 * 1024
"""Bytes of values that may wait to be written."""


class SqliteStore(SqliteShared):
    """A `Store` with tags and epoch; create it inside a running event loop.

    Past `max_bytes` expired entries leave first, then those that were put longest ago. A file that
    is broken is set aside as `<name>.corrupt-N`, of another version as `<name>.version-N`, and a
    new one takes its place; the call that found it raises StoreError. A locked database raises
    StoreError after 20 ms. Another program's database is never touched.
    """

    part: Part = "store"

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        sink: Sink,
        max_bytes: int,
        queue: int = 4096,
        linger: float = 0.0,
    ) -> None:
        """As `SqliteShared`."""
        self._known = KnownKeys(path)
        self._keys = KeyRecord(path, max_bytes=max_bytes)
        self._waiting_bytes = 0
        super().__init__(
            path,
            clock=clock,
            sink=sink,
            max_bytes=max_bytes,
            queue=queue,
            linger=linger,
            keys=self._keys,
        )

    async def get(self, key: bytes) -> bytes | None:
        """See `Store`."""
        now = self._clock.now()

        def job(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(
                "SELECT value, checksum FROM entry WHERE key = ? AND expires > ?", (key, now)
            ).fetchone()
            if row is None:
                return None
            value: bytes = row[0]
            if writes.checksum(key, value) != row[1]:
                raise Broken("a value is not what was put")
            return value

        return await self._read(job)

    def surely_absent(self, key: bytes) -> bool:
        """See `SupportsAbsence`."""
        return self._known.lacks(key)

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """See `Store`; a value larger than the bound is not kept."""
        if not ttl > 0:
            await self.delete(key)
            return
        await self.put_many([Put(key, value, ttl, tuple(tags))])

    async def put_many(self, puts: Sequence[Put]) -> None:
        """See `SupportsPutMany`; one transaction."""
        now = self._clock.now()
        size = sum(len(each.value) for each in puts)
        if self._waiting_bytes + size > WAITING_BYTES:
            raise StoreError("too many bytes wait to be written")
        self._waiting_bytes += size
        try:
            dropped, past = await self._write(
                lambda connection: self._put_here(connection, puts, now)
            )
        finally:
            self._waiting_bytes -= size
        if dropped:
            self._take([Evicted(part="store", cause="capacity", entries=dropped)])
        if past:
            self._take([Evicted(part="store", cause="tenant", entries=past)])

    def _put_here(
        self, connection: sqlite3.Connection, puts: Sequence[Put], now: float
    ) -> tuple[int, int]:
        """Returns how many had no room at all, and how many left for their tenants' shares."""
        dropped = past = 0
        shares: dict[str, int] = {}
        for each in puts:
            names = [tag.encode("utf-8", "surrogatepass") for tag in each.tags]
            if writes.cost_of(each.value, names) > self._max_bytes:
                writes.forget(connection, each.key)
                dropped += 1
                continue
            if each.owner is not None and each.share:
                shares[each.owner.tenant] = each.share
                if len(each.value) > each.share:
                    writes.forget(connection, each.key)
                    past += 1
                    continue
            self._keys.add(each.key)
            writes.put(connection, each, now + each.ttl, names)
        past += sum(writes.keep_share(connection, *each) for each in shares.items())
        return dropped, past

    async def delete(self, key: bytes) -> bool:
        """See `Store`."""
        now = self._clock.now()
        return await self._write(lambda connection: writes.delete(connection, key, now)) > 0

    async def delete_tag(self, tag: str) -> int:
        """See `SupportsTags`."""
        now = self._clock.now()
        name = tag.encode("utf-8", "surrogatepass")
        return self._cleared(
            await self._write(lambda connection: writes.delete_tag(connection, name, now))
        )

    async def clear(self) -> int:
        """See `Store`."""
        now = self._clock.now()
        return self._cleared(await self._write(lambda connection: writes.clear(connection, now)))

    async def owned(self, limit: int) -> list[Owned]:
        """See `SupportsOwners`."""
        return await self._read(lambda connection: writes.owned(connection, limit))

    async def epoch(self) -> int:
        """See `SupportsEpoch`; one read of one row."""

        def job(connection: sqlite3.Connection) -> int:
            epoch: int = connection.execute("SELECT epoch FROM held").fetchone()[0]
            self._file.saw_epoch(epoch)
            return epoch

        return await self._read(job)

    async def stats(self) -> StoreStats:
        """See `Store`; its time grows with the expired entries alone."""
        now = self._clock.now()

        def job(connection: sqlite3.Connection) -> StoreStats:
            entries, size = connection.execute(
                "SELECT entries - count(entry.id), held.size - coalesce(sum(entry.size), 0)"
                " FROM held LEFT JOIN entry ON expires <= ?",
                (now,),
            ).fetchone()
            return StoreStats(entries=entries, size=Bytes(size))

        return await self._read(job)

    async def close(self) -> None:
        """See `Store`; what was put before is written first."""
        self._known.close()
        await super().close()
        self._known.close()  # which the last read may have opened again

    def statistics(self) -> dict[str, float]:
        """See `Statistics`; entries and bytes are those of this process's last write."""
        return {**super().statistics(), "bytes_waiting": self._waiting_bytes}

    def _opened(self) -> None:
        self._known.look(self._reading.identity)

    def _cleared(self, entries: int) -> int:
        if entries:
            self._take([Evicted(part="store", cause="cleared", entries=entries)])
        return entries


def open_sqlite(
    url: str, *, clock: Clock, sink: Sink, max_bytes: int, data_dir: Path
) -> SqliteStore:
    """Open `sqlite` (`exact.sqlite3` in data_dir) or `sqlite:///absolute/path`."""
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment:
        raise ConfigError(f"{url!r}: write sqlite:///absolute/path, or sqlite for the default file")
    path = Path(unquote(parts.path)) if parts.scheme and parts.path else data_dir / "exact.sqlite3"
    return SqliteStore(path, clock=clock, sink=sink, max_bytes=max_bytes)
