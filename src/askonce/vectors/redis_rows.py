"""One hash an item, as both kinds of index in Redis keep it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from askonce.ports import IndexedText
from askonce.units import UnixTime
from askonce.vectors.ranking import Row, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

FIELDS = ("p", "x", "t", "k", "v")
"""Partition, end of life, text, tokens, vector."""

KEYS_AT_ONCE = 500
"""In one script, which holds up the server."""

_LONGEST_LIFE_MS = 10 * 365 * 86400 * 1000


def life_ms(item: IndexedText, now: UnixTime) -> int:
    """How long a hash may stay, by the server's own clock."""
    return max(1, min(math.ceil((item.expires_at - now) * 1000), _LONGEST_LIFE_MS))


def row_of(key: bytes, fields: Sequence[bytes | None], partition: bytes) -> Row | None:
    """A hash's fields as a row; None for what is gone, damaged or of another partition."""
    found, end, text, tokens, vector = fields
    if found != partition or end is None or text is None or tokens is None or vector is None:
        return None
    try:
        item = IndexedText(key, unpacked(text), UnixTime(float(end)), tokens)
    except ValueError:
        return None
    return Row(item, vector)


def fields_of(item: IndexedText, vector: bytes, partition: bytes) -> list[bytes]:
    """An item as field, value, field, value."""
    values = (partition, b"%r" % item.expires_at, packed(item.text), item.tokens, vector)
    named = zip(FIELDS, values, strict=True)
    return [word for name, value in named for word in (name.encode(), value)]
