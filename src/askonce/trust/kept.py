"""What an index keeps of a question beside text and vector: token vectors, and its reading.

Near questions come several at a time, and to read one anew takes five times as long as to unpack
what was read when it was stored. Only the same rules make the same readings, so each is marked
with the rules that made it; one of other rules is read anew.
"""

from __future__ import annotations

import hashlib
import unicodedata
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from askonce.trust.alignment import TokenVectors, from_bytes
from askonce.trust.text.reading import SHORT, Reading, analyse, lean, remembered, whole

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = b"read"


@cache
def mark() -> bytes:
    """Another one for other code, in which the tables are; the first call reads that code."""
    told = hashlib.blake2b(unicodedata.unidata_version.encode(), digest_size=8)
    here = resources.files("askonce.trust.text").iterdir()
    code = [each for each in here if each.name.endswith(".py")]
    for file in sorted(code, key=lambda each: each.name):
        told.update(file.name.encode() + b"\0" + file.read_bytes())
    return _HEAD + told.digest()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Reading).decode


def kept(tokens: bytes, text: str, read: Callable[[str], Reading] = analyse) -> bytes:
    """As an index is to keep them; tokens: of `alignment.to_bytes`. Long texts are read anew."""
    if not tokens or len(text) > SHORT or not _encodable(text):
        return tokens
    return b"".join((tokens, mark(), _encode(lean(read(text)))))


def parted(packed: bytes, text: str, dim: int) -> tuple[TokenVectors, Reading]:
    """What was kept of this text; no tokens where the bytes are none of its own for this dim."""
    end = 2 + int.from_bytes(packed[:2], "little") * (2 + dim)
    tokens = from_bytes(packed[:end] if packed.startswith(_HEAD, end) else packed, dim)
    own = mark()
    if not packed.startswith(own, end):
        return tokens, analyse(text)
    return tokens, remembered(text, lambda: _unpacked(packed[end + len(own) :], text))


def _unpacked(packed: bytes, text: str) -> Reading | None:
    """None for anything but this text's."""
    try:
        found = _decode(packed)
    except msgspec.MsgspecError:
        return None
    return whole(found) if found.surface.text == text else None


def _encodable(text: str) -> bool:
    """Whether it holds no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
