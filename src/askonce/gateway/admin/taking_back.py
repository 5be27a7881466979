"""Operations that take answers back, and the log of all that was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from askonce.errors import RequestError
from askonce.gateway.admin.operations import Asked, Operation, Place
from askonce.invalidation.desk import MOST_ALIKE, Request
from askonce.ports import Revocation, Selector
from askonce.units import Cosine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.invalidation.desk import InvalidationDesk
    from askonce.ports import Neighbour, RevocationLog


class TakeBack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to take back, and why."""

    what: Selector
    """Everything, when it names nothing."""
    why: str = ""


class TakenBack(msgspec.Struct, frozen=True):
    """The rule's number."""

    seq: int


class TakeBackAlike(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A meaning to take back."""

    text: str
    floor: Annotated[float, Meta(ge=0, le=1)] = 0.85
    """Least cosine similarity of a stored question."""
    limit: Annotated[int, Meta(ge=1, le=MOST_ALIKE)] = MOST_ALIKE
    dry_run: bool = True
    """Only list what would go."""
    why: str = ""


class Alike(msgspec.Struct, frozen=True):
    """One stored question."""

    key: str
    text: str
    score: float


class TakenBackAlike(msgspec.Struct, frozen=True):
    """What went, or would."""

    found: list[Alike]
    taken: bool


class Since(msgspec.Struct, frozen=True):
    """Part of the log."""

    after: Place = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class RuleList(msgspec.Struct, frozen=True):
    """Rules, oldest first."""

    rules: list[Revocation]
    last: int
    """The newest rule's number."""


class TakingBack:
    """Over the desk and the log."""

    def __init__(self, desk: InvalidationDesk, log: RevocationLog) -> None:
        self._desk = desk
        self._log = log

    async def take_back(self, asked: Asked) -> TakenBack:
        """Take back what a selector names."""
        request: TakeBack = asked.body
        refuse_bad_key(request.what.key)
        refuse_bad_key(request.what.tenant, "tenant")
        refuse_bad_key(request.what.prompt or None, "prompt")  # empty: without any prompt
        why = Request(by=asked.by, why=request.why)
        return TakenBack(await self._desk.take_back(request.what, why))

    async def take_back_alike(self, asked: Asked) -> TakenBackAlike:
        """Take back, or list, what means about the same as a text."""
        request: TakeBackAlike = asked.body
        found = await self._desk.alike(
            request.text, floor=Cosine(request.floor), limit=request.limit
        )
        if not request.dry_run:
            why = Request(by=asked.by, why=request.why)
            await self._desk.take_back_all(found, why)
        return TakenBackAlike([alike(each) for each in found], not request.dry_run)

    async def list_rules(self, asked: Asked) -> RuleList:
        """What was taken back, by whom and why."""
        query: Since = asked.query
        page = await self._log.read(query.after, query.limit)
        return RuleList(list(page.rules), page.last)

    def operations(self) -> Sequence[Operation]:
        """For the table."""
        return (
            Operation(
                method="POST",
                path="/invalidate",
                summary="Take back all that matches, on every replica",
                run=self.take_back,
                body=TakeBack,
                answer=TakenBack,
            ),
            Operation(
                method="POST",
                path="/invalidate/alike",
                summary="Take back, or list, answers to questions that mean about the same",
                run=self.take_back_alike,
                body=TakeBackAlike,
                answer=TakenBackAlike,
            ),
            Operation(
                method="GET",
                path="/invalidations",
                summary="All that was taken back, by whom and why",
                run=self.list_rules,
                query=Since,
                answer=RuleList,
            ),
        )


def alike(neighbour: Neighbour) -> Alike:
    """A neighbour as the API shows it."""
    return Alike(neighbour.item.key.hex(), neighbour.item.text, round(neighbour.score, 4))


def refuse_bad_key(key: str | None, facet: str = "key") -> None:
    """Raises RequestError for a key, or another digest, that none can be."""
    if key is None:
        return
    try:
        bad = len(bytes.fromhex(key)) != 32
    except ValueError:
        bad = True
    if bad:
        told = f"a {facet} has 64 hexadecimal digits"
        raise RequestError(told, code="invalid_key", param=facet)
