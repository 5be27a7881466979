"""Why a request hits or misses, without asking the engine or counting anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from askonce.canonical.difference import differences
from askonce.canonical.key import Scope, exact_key, partition_key
from askonce.canonical.request import parse_chat, question_of
from askonce.errors import CacheFault
from askonce.gateway.admin.entries import ShownEntry
from askonce.gateway.admin.operations import Asked, Operation
from askonce.gateway.chat import PATH
from askonce.trust.text.guards import veto

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.canonical.request import Call, Question
    from askonce.config import Config
    from askonce.gateway.admin.entries import Entries
    from askonce.gateway.envelope import Envelope
    from askonce.gateway.routing import Upstreams
    from askonce.ports import Embedder, Headers, Neighbour, VectorIndex


class Explain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request as its caller would send it."""

    request: dict[str, Any]
    headers: dict[str, str] = {}
    query: str = ""
    other: dict[str, Any] | None = None
    """Another body to tell it from."""


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """A stored question nearby."""

    key: str
    text: str
    score: float
    veto: str
    """The guard that speaks against it; empty for none."""
    entry: str
    """State of its entry."""


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """Where the request leads."""

    key: str
    upstream: str
    revision: str
    namespace: str
    tenant: str
    exact: ShownEntry
    semantic: Literal["hit", "miss", "off", "not_asked", "fault"]
    """What floor and guards say; evidence may decide otherwise."""
    why: str
    near: list[Near]
    differs: list[str]
    """JSON paths that differ from `other`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an explanation looks at."""

    config: Config
    entries: Entries
    upstreams: Upstreams
    read_envelope: Callable[[Headers], Envelope]
    embedder: Embedder | None
    index: VectorIndex | None


class Explainer:
    """Goes the way of a request as far as the engine."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def explain(self, asked: Asked) -> Explained:
        """Where a request leads, and why."""
        wanted: Explain = asked.body
        call = _call(wanted.request)
        scope = self._scope(wanted, call)
        key = exact_key(scope, call)
        semantic, why, near = await self._by_meaning(scope, call)
        return Explained(
            key=key.hex(),
            upstream=scope.upstream,
            revision=scope.revision,
            namespace=scope.namespace,
            tenant=scope.tenant.hex(),
            exact=await self._parts.entries.show(key),
            semantic=semantic,
            why=why,
            near=near,
            differs=[] if wanted.other is None else differences(call, _call(wanted.other)),
        )

    def operations(self) -> Sequence[Operation]:
        """For the table."""
        return (
            Operation(
                method="POST",
                path="/explain",
                summary="Say why a request hits or misses",
                run=self.explain,
                body=Explain,
                answer=Explained,
            ),
        )

    def _scope(self, wanted: Explain, call: Call) -> Scope:
        pairs = [(name.lower().encode(), text.encode()) for name, text in wanted.headers.items()]
        envelope = self._parts.read_envelope(pairs)
        upstream = self._parts.upstreams.for_model(call.model)
        return Scope(
            endpoint=f"{PATH}?{wanted.query}",
            upstream=upstream.name,
            revision=upstream.revision,
            tenant=envelope.partition,
            namespace=envelope.controls.namespace,
        )

    async def _by_meaning(
        self, scope: Scope, call: Call
    ) -> tuple[Literal["hit", "miss", "off", "not_asked", "fault"], str, list[Near]]:
        parts = self._parts
        if parts.embedder is None or parts.index is None:
            return "off", "the semantic tier is off", []
        question = question_of(call, max_temperature=parts.config.semantic.max_temperature)
        if isinstance(question, str):
            return "not_asked", question, []
        try:
            near = await self._near(parts.embedder, parts.index, scope, question)
        except CacheFault as fault:
            return "fault", str(fault), []
        floor = parts.config.semantic.floor
        served = next((one for one in near if _passes(one, floor)), None)
        if served is not None:
            return "hit", f"cosine {served.score} and no guard against it", near
        return "miss", _why_not(near, floor), near

    async def _near(
        self, embedder: Embedder, index: VectorIndex, scope: Scope, question: Question
    ) -> list[Near]:
        vector = await embedder.embed(question.text)
        partition = partition_key(scope, question)
        found = await index.search(partition, vector, k=self._parts.config.semantic.neighbours)
        return [await self._told(question, each) for each in found]

    async def _told(self, question: Question, neighbour: Neighbour) -> Near:
        shown = await self._parts.entries.show(neighbour.item.key)
        return Near(
            key=neighbour.item.key.hex(),
            text=neighbour.item.text,
            score=round(neighbour.score, 4),
            veto=veto(question.text, neighbour.item.text) or "",
            entry=shown.state,
        )


def _call(body: dict[str, Any]) -> Call:
    return parse_chat(msgspec.json.encode(body))


def _passes(one: Near, floor: float) -> bool:
    return one.score >= floor and not one.veto and one.entry == "live"


def _why_not(near: Sequence[Near], floor: float) -> str:
    """Why the nearest is not served."""
    if not near:
        return "no question is stored in its partition"
    best = near[0]
    if best.score < floor:
        return f"the nearest has cosine {best.score}, below {floor}"
    return f"the guard {best.veto!r} speaks against it" if best.veto else f"it is {best.entry}"
