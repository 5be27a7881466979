"""Operations on single entries: show, find by meaning, delete, retract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from askonce.cache.audits import text_of
from askonce.canonical.entry import unseal
from askonce.errors import EntryUnreadable, RequestError
from askonce.gateway.admin.operations import Asked, Operation
from askonce.gateway.admin.taking_back import Alike, alike, refuse_bad_key
from askonce.invalidation.desk import Request
from askonce.ports import Selector
from askonce.units import Cosine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.canonical.entry import Entry
    from askonce.invalidation.desk import InvalidationDesk
    from askonce.invalidation.watch import Watch
    from askonce.ports import Clock, EvidenceLog, Store

State = Literal["live", "expired", "taken_back", "unreadable", "absent"]


class ShownEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry, and whether it serves."""

    key: str
    state: State
    model: str = ""
    upstream: str = ""
    revision: str = ""
    namespace: str = ""
    tenant: str = ""
    prompt: str = ""
    tags: tuple[str, ...] = ()
    created_at: float = 0.0
    exact_until: float = 0.0
    semantic_until: float = 0.0
    question: str = ""
    answer: str | None = None
    """Its text; none where it is more than that."""


class FindAlike(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A meaning to look for."""

    text: str
    floor: Annotated[float, Meta(ge=0, le=1)] = 0.85
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


class FoundAlike(msgspec.Struct, frozen=True):
    """Stored questions, best first."""

    found: list[Alike]


class Gone(msgspec.Struct, frozen=True):
    """What went."""

    key: str
    was_there: bool
    evidence_marked: int = 0


class Entries:
    """Over the store, the watch and the desk."""

    def __init__(
        self,
        store: Store,
        watch: Watch,
        desk: InvalidationDesk,
        evidence: EvidenceLog | None,
        *,
        clock: Clock,
    ) -> None:
        """evidence: None where none is gathered; then nothing can be retracted."""
        self._store = store
        self._watch = watch
        self._desk = desk
        self._evidence = evidence
        self._clock = clock

    async def show(self, key: bytes) -> ShownEntry:
        """The entry as it is; raises StoreError."""
        sealed = await self._store.get(key)
        if sealed is None:
            return ShownEntry(key=key.hex(), state="absent")
        try:
            entry = unseal(key, sealed)
        except EntryUnreadable:
            return ShownEntry(key=key.hex(), state="unreadable")
        return _shown(entry, self._state(entry))

    async def show_entry(self, asked: Asked) -> ShownEntry:
        """One entry by its key."""
        shown = await self.show(_key_of(asked))
        if shown.state == "absent":
            raise RequestError("there is no such entry", status=404, code="unknown_entry")
        return shown

    async def delete_entry(self, asked: Asked) -> Gone:
        """Take one entry back."""
        key = _key_of(asked)
        there = (await self.show(key)).state
        await self._desk.take_back(Selector(key=key.hex()), Request(by=asked.by, why="deleted"))
        return Gone(key.hex(), there == "live")

    async def retract_entry(self, asked: Asked) -> Gone:
        """Take back a bad entry and all evidence about it."""
        if self._evidence is None:
            raise RequestError("no evidence is gathered here", status=409, code="not_configured")
        key = _key_of(asked)
        there = (await self.show(key)).state
        marked = await self._desk.retract(key, self._evidence, by=asked.by)
        return Gone(key.hex(), there == "live", marked)

    async def find_alike(self, asked: Asked) -> FoundAlike:
        """Stored questions that mean about the same as a text."""
        wanted: FindAlike = asked.body
        found = await self._desk.alike(wanted.text, floor=Cosine(wanted.floor), limit=wanted.limit)
        return FoundAlike([alike(each) for each in found])

    def operations(self) -> Sequence[Operation]:
        """For the table."""
        return (
            Operation(
                method="GET",
                path="/entries/{key}",
                summary="Show an entry",
                run=self.show_entry,
                answer=ShownEntry,
            ),
            Operation(
                method="DELETE",
                path="/entries/{key}",
                summary="Take an entry back",
                run=self.delete_entry,
                answer=Gone,
            ),
            Operation(
                method="POST",
                path="/entries/{key}/retract",
                summary="Take a wrong entry back, with all evidence about it",
                run=self.retract_entry,
                answer=Gone,
            ),
            Operation(
                method="POST",
                path="/entries/alike",
                summary="Find questions that mean about the same",
                run=self.find_alike,
                body=FindAlike,
                answer=FoundAlike,
            ),
        )

    def _state(self, entry: Entry) -> State:
        if not self._watch.serves(entry):
            return "taken_back"
        alive = max(entry.exact_until, entry.semantic_until) > self._clock.now()
        return "live" if alive else "expired"


def _shown(entry: Entry, state: State) -> ShownEntry:
    origin = entry.origin
    return ShownEntry(
        key=entry.key.hex(),
        state=state,
        model=entry.model,
        upstream=entry.upstream,
        revision=origin.revision,
        namespace=origin.namespace,
        tenant=origin.tenant,
        prompt=origin.prompt,
        tags=entry.tags,
        created_at=entry.created_at,
        exact_until=entry.exact_until,
        semantic_until=entry.semantic_until,
        question=entry.question,
        answer=text_of(entry.answer),
    )


def _key_of(asked: Asked) -> bytes:
    key = asked.path["key"]
    refuse_bad_key(key)
    return bytes.fromhex(key)
