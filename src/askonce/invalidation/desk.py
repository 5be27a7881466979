"""Takes answers back for an operator: by what they are, or by what they mean."""

from __future__ import annotations

import logging
import unicodedata
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import CacheFault, ConfigError
from askonce.ports import Revocation, Selector, SupportsSearchAll, SupportsTags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.invalidation.watch import Watch
    from askonce.ports import Clock, Embedder, EvidenceLog, Neighbour, Store, VectorIndex
    from askonce.units import Cosine

log = logging.getLogger(__name__)

MOST_ALIKE = 1000
"""Answers that one call takes back by meaning."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes back, and why; both are kept for good."""

    by: str = ""
    why: str = ""


class InvalidationDesk:
    """One rule an answer's kind; what it takes back is gone everywhere before its space is free."""

    def __init__(
        self,
        watch: Watch,
        store: Store,
        index: VectorIndex | None,
        embedder: Embedder | None,
        *,
        clock: Clock,
    ) -> None:
        """Build over open parts; index and embedder serve `alike` alone."""
        self._watch = watch
        self._store = store
        self._index = index
        self._embedder = embedder
        self._clock = clock

    async def take_back(self, what: Selector, request: Request) -> int:
        """Take back what matches; returns the rule's number; raises StoreError.

        When it returns, this replica serves none of it any more; others within a second.
        """
        return await self._take_back([what], request)

    async def retract(self, key: bytes, evidence: EvidenceLog, *, by: str) -> int:
        """Take back a wrong answer, and all evidence about it; returns how much that is."""
        await self.take_back(Selector(key=key.hex()), Request(by=by, why="retracted"))
        return await evidence.retract(key)

    async def alike(
        self, text: str, *, floor: Cosine, limit: int = MOST_ALIKE
    ) -> Sequence[Neighbour]:
        """Stored questions that mean about the same, best first.

        Raises ConfigError without an index that can search all partitions, and CacheFault.
        """
        index: object = self._index
        if self._embedder is None or not isinstance(index, SupportsSearchAll):
            raise ConfigError("answers cannot be found by meaning here")
        vector = await self._embedder.embed(text)
        return await index.search_all(vector, floor=floor, limit=limit)

    async def take_back_all(self, found: Sequence[Neighbour], request: Request) -> None:
        """Take back these, each by its key; raises StoreError."""
        if found:
            await self._take_back([Selector(key=each.item.key.hex()) for each in found], request)

    async def _take_back(self, whats: Sequence[Selector], request: Request) -> int:
        said = [_as_entries_say(what) for what in whats]
        now = self._clock.now()
        rules = [Revocation(what=what, at=now, by=request.by, why=request.why) for what in said]
        seq = await self._watch.revoke(*rules)
        try:
            for what in said:
                await self._free(what)
        except CacheFault as fault:
            log.warning("what rule %d took back still takes space: %s", seq, fault)
        return seq

    async def _free(self, what: Selector) -> None:
        """Remove at once what the store can find by itself; the rest goes at its end of life."""
        if what == Selector():
            await self._store.clear()
            if self._index is not None:
                await self._index.clear()
        elif what.key is not None:
            key = bytes.fromhex(what.key)
            await self._store.delete(key)
            if self._index is not None:
                await self._index.delete([key])
        elif what == Selector(tag=what.tag) and isinstance(self._store, SupportsTags):
            await self._store.delete_tag(what.tag or "")


def _as_entries_say(what: Selector) -> Selector:
    """Digests and names in the form that entries have: a rule compares letters."""
    digests = {name: getattr(what, name) for name in ("key", "tenant", "prompt")}
    told = {name: "".join(text.split()).lower() for name, text in digests.items() if text}
    names = {name: getattr(what, name) for name in ("namespace", "tag")}
    told |= {name: unicodedata.normalize("NFC", text) for name, text in names.items() if text}
    return msgspec.structs.replace(what, **told)
