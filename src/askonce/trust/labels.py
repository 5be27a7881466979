"""Labels as evidence: what one must be, and the one that a retraction leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from askonce.ports import Evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Agreement, LabelSource
    from askonce.units import UnixTime

LOST = "lost"
"""How a comparison is marked that lacked one of the answers."""

RETRACTED = "retracted"
"""How the record is marked that tells of an entry marked bad."""

MOST_FEATURES = 64
"""Of two bytes each."""


def checked(record: Evidence) -> Evidence:
    """The record itself, for a log to take; raises ValueError for what would poison estimates."""
    if not 0 < record.probability <= 1:
        raise ValueError(f"a probability is above 0 and at most 1, not {record.probability}")
    if not math.isfinite(record.score):
        raise ValueError(f"a score is a number, not {record.score}")
    if len(record.features) > 2 * MOST_FEATURES or len(record.features) % 2:
        raise ValueError(f"at most {MOST_FEATURES} features of two bytes each")
    return record


def requests(packed: bytes, process: str, at: UnixTime, embedder: str = "") -> Evidence:
    """The record of requests that a process has decided, as packed by `trust.asked`."""
    return Evidence(
        at=at, namespace="", partition=b"", request_id=process, question=b"", entry=b"",
        score=0.0, verdict="unsure", source="asked", mode="on", look=packed, embedder=embedder,
    )  # fmt: skip


def retraction(entry: bytes, last: Evidence | None, at: UnixTime) -> Evidence:
    """The record that tells of an entry marked bad, placed where its last record was."""
    if last is None:
        last = Evidence(
            at=at, namespace="", partition=b"", request_id="", question=b"", entry=entry,
            score=0.0, verdict="different", source="operator", mode="off",
        )  # fmt: skip
    return msgspec.structs.replace(
        last,
        at=at,
        verdict="different",
        how=RETRACTED,
        source="operator",
        probability=1.0,
        retracted=True,
        request_id="",
        seq=0,
    )


def is_retraction(record: Evidence | None) -> bool:
    """Whether it tells that its entry is bad."""
    return record is not None and record.how == RETRACTED


def said_before(word: Evidence, records: Sequence[Evidence]) -> Evidence | None:
    """What stands in the request's records, oldest first, for this word; None where it is new.

    Who repeats it adds no evidence. A caller has one word; of an operator the latest one stands.
    """
    told = [each for each in records if each.source == word.source]
    if not told or (word.source != "caller" and told[-1].verdict != word.verdict):
        return None
    return told[-1]


def said(about: Evidence, agreement: Agreement, source: LabelSource, now: UnixTime) -> Evidence:
    """Somebody's word on what a record is about."""
    return msgspec.structs.replace(
        about,
        at=now,
        verdict=agreement,
        source=source,
        how="said",
        probability=1.0,
        look=b"",
        seq=0,
    )


def one_look(records: Sequence[Evidence]) -> list[Evidence]:
    """The look on the first record alone; none where no verdict was reached."""
    look = next((one.look for one in records if one.look), b"")
    return [
        msgspec.structs.replace(one, look=b"" if at else look) for at, one in enumerate(records)
    ]


def whole_requests(records: Sequence[Evidence]) -> Sequence[Evidence]:
    """Without the last request's, of which more may follow; what is learned is learned at once."""
    last, end = _group(records[-1]), len(records)
    while end and _group(records[end - 1]) == last:
        end -= 1
    return records[:end] or records


def _group(record: Evidence) -> tuple[str, str]:
    return record.request_id, record.source
