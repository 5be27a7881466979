"""An operator's word on an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.errors import EntryUnreadable
from askonce.policy.confirmation import OPERATOR, vouched_by
from askonce.trust.labels import said

if TYPE_CHECKING:
    from askonce.ports import Agreement, Clock, EvidenceLog
    from askonce.tiers.exact import ExactTier


async def take_word(
    request_id: str, agreement: Agreement, *, log: EvidenceLog, exact: ExactTier, clock: Clock
) -> int | None:
    """Note it as evidence, once; a right answer needs no other confirmation from then on.

    Returns the record's seq, or None for a request that the log does not know; raises CacheFault.
    """
    records = await log.of_request(request_id)
    about = next((one for one in records if one.source == "hit"), next(iter(records), None))
    if about is None:
        return None
    seq = await log.say(said(about, agreement, "operator", clock.now()))
    if agreement == "same":
        await _vouch(exact, about.entry)
    return seq


async def _vouch(exact: ExactTier, key: bytes) -> None:
    try:
        entry = await exact.find(key)
    except EntryUnreadable:
        return
    if entry is not None:
        known = vouched_by(entry, OPERATOR)
        exact.hold(known)
        await exact.keep(known)
