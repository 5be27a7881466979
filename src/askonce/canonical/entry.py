"""What a store keeps: an answer, sealed, with its two ends of life."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from askonce.canonical.answer import Answer
from askonce.canonical.conversation import Turn
from askonce.errors import EntryUnreadable
from askonce.units import Seconds, UnixTime

_MAGIC: Final = b"AOE\x01"
"""Three letters and the version of what follows."""
_DIGEST: Final = 16
_OPENING: Final = len(_MAGIC) + _DIGEST


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Where an answer comes from, beside its model and upstream."""

    revision: str = ""
    namespace: str = ""
    tenant: str = ""
    """The caller's partition in hexadecimal digits."""
    prompt: str = ""
    """Digest of the system prompt, as `prompt_digest` gives it; empty without one."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One cached answer."""

    key: bytes
    """Exact key, 32 bytes."""
    answer: Answer
    created_at: UnixTime
    exact_until: UnixTime
    semantic_until: UnixTime
    """0 when the answer may not serve other questions."""
    tags: tuple[str, ...]
    model: str
    upstream: str
    question: str
    """The last user text when semantic_until is not 0, else empty."""
    engine_time: Seconds
    """How long the engine took."""
    origin: Origin = Origin()
    stamp: int = 0
    """The newest revocation that was known when the engine was asked."""
    turns: tuple[Turn, ...] = ()
    """Earlier turns, where questions after other turns may find it."""
    author: bytes = b""
    """Digest of who asked, where others may be answered with it only once they are confirmed."""
    vouched: tuple[bytes, ...] = ()
    """Others whom the engine has told the same."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


def seal(entry: Entry) -> bytes:
    """Versioned bytes with a digest that binds them to the entry's key."""
    payload = _encode(entry)
    return b"".join((_MAGIC, _digest(entry.key, payload), payload))


def unseal(key: bytes, sealed: bytes) -> Entry:
    """The entry in sealed bytes; raises EntryUnreadable when wrong, foreign or of another age."""
    if sealed[: len(_MAGIC)] != _MAGIC:
        raise EntryUnreadable("not an entry of this version")
    payload = memoryview(sealed)[_OPENING:]
    if sealed[len(_MAGIC) : _OPENING] != _digest(key, payload):
        raise EntryUnreadable("damaged, or another key's entry")
    try:
        return _decode(payload)
    except ValueError as error:
        raise EntryUnreadable("not the fields of an entry") from error


def _digest(key: bytes, payload: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST, person=b"askonce entry")
    digest.update(len(key).to_bytes(8, "big") + key)
    digest.update(payload)
    return digest.digest()
