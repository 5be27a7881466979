"""How entries lie in Memcached: names of items, and what is in them; pure.

    namespace:e                     the namespace's epoch on this server
    namespace:n                     counts removals on this server
    namespace:r                     the log of what was taken back
    namespace:EPOCH:k:KEY           an entry: head, tags, and its value or the digests of its pieces
    namespace:EPOCH:c:BLOB:NUMBER   a piece of a long value
    namespace:EPOCH:t:TAG           a tag's epoch on this server

An epoch is random, and an item that lacks one gets a new one. So whatever Memcached forgets,
nothing that was taken away comes back.
"""

from __future__ import annotations

import struct
import zlib
from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH_BYTES = 12
"""Of an epoch, in letters that a name may have."""
ROOM = 512
"""Of an item's limit, kept for its name and Memcached's own head."""

_HEAD = struct.Struct(">2sBBHQd")
_CHECK = struct.Struct(">I")
HEAD_BYTES = _HEAD.size + _CHECK.size
"""Of an entry's item, besides tags and value."""

_MAGIC = b"AM"
_VERSION = 1
_TAG_BYTES = 16
_TAG = _TAG_BYTES + EPOCH_BYTES
_DIGEST = 8


class Names:
    """Names of one namespace's items; all are valid for Memcached, and under 250 bytes."""

    def __init__(self, namespace: str) -> None:
        """namespace: letters that a name may have, 64 at most."""
        self._namespace = namespace.encode()
        self.all = b"%b:" % self._namespace
        """What all begin with."""
        self.epoch = b"%b:e" % self._namespace
        self.removals = b"%b:n" % self._namespace
        self.revocations = b"%b:r" % self._namespace

    def entries(self, epoch: bytes) -> bytes:
        """What the names of all entries of an epoch begin with."""
        return b"%b:%b:k:" % (self._namespace, epoch)

    def entry(self, epoch: bytes, key: bytes) -> bytes:
        """Of an entry."""
        return b"%b:%b:k:%b" % (self._namespace, epoch, urlsafe_b64encode(key).rstrip(b"="))

    def pieces(self, epoch: bytes) -> bytes:
        """What the names of all pieces of an epoch begin with."""
        return b"%b:%b:c:" % (self._namespace, epoch)

    def piece(self, epoch: bytes, blob: int, number: int) -> bytes:
        """Of a piece of a long value."""
        return b"%b%x:%d" % (self.pieces(epoch), blob, number)

    def tag(self, epoch: bytes, tag: bytes) -> bytes:
        """Of a tag's epoch; tag: its digest."""
        return b"%b:%b:t:%b" % (self._namespace, epoch, tag.hex().encode())


def tag_digest(tag: str) -> bytes:
    """What stands for a tag in entries and names."""
    return blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=_TAG_BYTES).digest()


def bloom(tags: Sequence[bytes]) -> int:
    """Client flags of an entry's item: one bit for each tag, by which a sweep skips others."""
    bits = 0
    for tag in tags:
        bits |= 1 << (tag[0] & 31)
    return bits


class Record(msgspec.Struct, frozen=True, gc=False):
    """An entry's item, read."""

    expires_at: float
    tags: tuple[tuple[bytes, bytes], ...]
    """Digest and epoch of each."""
    blob: int
    pieces: tuple[bytes, ...]
    """Digests; empty when the value is inline."""
    inline: bytes


def pack(
    key: bytes,
    value: bytes | Sequence[bytes],
    *,
    expires_at: float,
    tags: Sequence[tuple[bytes, bytes]],
    blob: int = 0,
) -> bytes:
    """An entry's item; value: whole, or its pieces, which lie in items of their own."""
    parts = [value] if isinstance(value, bytes) else [digest(piece) for piece in value]
    pieces = 0 if isinstance(value, bytes) else len(parts)
    head = _HEAD.pack(_MAGIC, _VERSION, len(tags), pieces, blob, expires_at)
    rest = b"".join([*(part for tag in tags for part in tag), *parts])
    return b"".join((head, _CHECK.pack(_check(key, head, rest)), rest))


def unpack(key: bytes, item: bytes) -> Record | None:
    """What is in an entry's item, or None when it is damaged, another's or of another version."""
    if len(item) < HEAD_BYTES:
        return None
    magic, version, tags, pieces, blob, expires_at = _HEAD.unpack_from(item)
    at = tags * _TAG
    rest = item[HEAD_BYTES:]
    if (magic, version) != (_MAGIC, _VERSION) or len(rest) < at:
        return None
    if pieces and len(rest) != at + pieces * _DIGEST:
        return None
    if _CHECK.unpack_from(item, _HEAD.size) != (_check(key, item[: _HEAD.size], rest),):
        return None
    marks = [rest[start : start + _TAG] for start in range(0, at, _TAG)]
    ends = range(at, len(rest), _DIGEST) if pieces else ()
    return Record(
        expires_at=expires_at,
        tags=tuple((mark[:_TAG_BYTES], mark[_TAG_BYTES:]) for mark in marks),
        blob=blob,
        pieces=tuple(rest[start : start + _DIGEST] for start in ends),
        inline=b"" if pieces else rest[at:],
    )


def _check(key: bytes, head: bytes, rest: bytes) -> int:
    return zlib.crc32(rest, zlib.crc32(head, zlib.crc32(key)))


def digest(piece: bytes) -> bytes:
    """Of one piece of a long value."""
    return blake2b(piece, digest_size=_DIGEST).digest()


def split(value: bytes, size: int) -> list[bytes]:
    """The value in pieces of at most that many bytes."""
    return [value[start : start + size] for start in range(0, len(value), size)]
