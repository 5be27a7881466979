"""Whether an answer that one caller brought about may serve another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from askonce.canonical.entry import Entry

OPERATOR = b"operator"
"""Vouches alone; no digest of a caller has this length."""
MOST = 8
"""Vouchers kept with an entry."""


def is_open(entry: Entry, caller: bytes, callers: int) -> bool:
    """callers: how many beside the author must have been told the same."""
    if entry.author == caller or OPERATOR in entry.vouched:
        return True
    return len(set(entry.vouched) - {entry.author}) >= callers


def vouched_by(entry: Entry, caller: bytes) -> Entry:
    """The entry with one more voucher."""
    others = (one for one in entry.vouched if one != caller)
    return msgspec.structs.replace(entry, vouched=(*others, caller)[-MOST:])
