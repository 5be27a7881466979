"""Operations on the evidence: read it, and say of an answer whether it was right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from askonce.cache.word import take_word
from askonce.errors import ConfigError, RequestError
from askonce.gateway.admin.operations import Asked, Operation, Place
from askonce.gateway.admin.taking_back import refuse_bad_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Agreement, Clock, Evidence, EvidenceLog
    from askonce.tiers.exact import ExactTier


class Wanted(msgspec.Struct, frozen=True):
    """Part of the log: of a request, of an entry, or in order."""

    request_id: str = ""
    key: str = ""
    after: Place = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record, without what verifiers learn from."""

    seq: int
    at: float
    namespace: str
    request_id: str
    key: str
    score: float
    verdict: str
    how: str
    source: str
    probability: float
    mode: str
    retracted: bool


class Records(msgspec.Struct, frozen=True):
    """Oldest first."""

    records: list[Record]


class Judgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator's word on the answer to a request."""

    request_id: str
    verdict: Literal["right", "wrong"]


class Noted(msgspec.Struct, frozen=True):
    """The record's place in the log."""

    seq: int


class EvidenceDesk:
    """Over the log; without one each operation raises ConfigError."""

    def __init__(self, log: EvidenceLog | None, exact: ExactTier, *, clock: Clock) -> None:
        """exact: where answers that are right are confirmed."""
        self._kept = log
        self._exact = exact
        self._clock = clock

    @property
    def _log(self) -> EvidenceLog:
        if self._kept is None:
            raise ConfigError("there is no evidence: [trust] or the semantic tier is off")
        return self._kept

    async def list_evidence(self, asked: Asked) -> Records:
        """Records, oldest first."""
        wanted: Wanted = asked.query
        if wanted.request_id:
            found = await self._log.of_request(wanted.request_id)
        elif wanted.key:
            refuse_bad_key(wanted.key)
            found = await self._log.of_entry(bytes.fromhex(wanted.key))
        else:
            found = await self._log.since(wanted.after, wanted.limit)
        return Records([_shown(one) for one in found[: wanted.limit]])

    async def judge_answer(self, asked: Asked) -> Noted:
        """Take an operator's word: it counts like an audit, and once."""
        word: Judgement = asked.body
        agreement: Agreement = "same" if word.verdict == "right" else "different"
        seq = await take_word(
            word.request_id, agreement, log=self._log, exact=self._exact, clock=self._clock
        )
        if seq is None:
            raise RequestError("nothing is known of this request", status=404, code="unknown")
        return Noted(seq)

    def operations(self) -> Sequence[Operation]:
        """For the table."""
        return (
            Operation(
                method="GET",
                path="/evidence",
                summary="What was judged, and how",
                run=self.list_evidence,
                query=Wanted,
                answer=Records,
            ),
            Operation(
                method="POST",
                path="/evidence/judge",
                summary="Say whether an answer by meaning was right",
                run=self.judge_answer,
                body=Judgement,
                answer=Noted,
            ),
        )


def _shown(one: Evidence) -> Record:
    return Record(
        seq=one.seq,
        at=one.at,
        namespace=one.namespace,
        request_id=one.request_id,
        key=one.entry.hex(),
        score=one.score,
        verdict=one.verdict,
        how=one.how,
        source=one.source,
        probability=one.probability,
        mode=one.mode,
        retracted=one.retracted,
    )
