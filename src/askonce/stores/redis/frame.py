"""A value as the server keeps it: bound to its key, with its length, digest, end and tags.

    "A" version key-length tags size expires      16 bytes
    key, then 16 bytes a tag, then a checksum of 4 bytes over all the rest, then the value

Above it every entry has a digest of its own; this one finds what rots or is cut on the way.

The scripts read what stands before the digest, and put 24 bytes of their own in front.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import TYPE_CHECKING

from askonce.errors import EntryUnreadable, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = struct.Struct(">2sBBId")
_MAGIC = b"A\x01"
_CHECK = struct.Struct(">I")
MOST_TAGS = 255


class Foreign(StoreError):
    """The bytes belong to another key: the connection mixes up its replies."""


def build(key: bytes, value: bytes, expires: float, tags: Sequence[bytes]) -> bytes:
    """The frame; tags: by `tag_digest`, no two alike."""
    head = HEAD.pack(_MAGIC, len(key), len(tags), len(value), expires) + key + b"".join(tags)
    return b"".join((head, _CHECK.pack(zlib.crc32(value, zlib.crc32(head))), value))


def open_frame(key: bytes, raw: bytes, now: float, *, start: int = 0) -> bytes | None:
    """The value in the frame that starts there, or None past its end.

    Raises Foreign, EntryUnreadable.
    """
    named = start + HEAD.size
    if len(raw) < named:
        raise EntryUnreadable("too short for a value")
    magic, key_length, tags, size, expires = HEAD.unpack_from(raw, start)
    if magic != _MAGIC:
        raise EntryUnreadable("not a value of this version")
    if raw[named : named + key_length] != key:
        raise Foreign("another key's value")
    end = named + key_length + 16 * tags
    value = raw[end + _CHECK.size :]
    check = _CHECK.pack(zlib.crc32(value, zlib.crc32(raw[start:end])))
    if len(value) != size or raw[end : end + _CHECK.size] != check:
        raise EntryUnreadable("damaged, or cut")
    return value if expires > now else None


def tag_digest(tag: str) -> bytes:
    """16 bytes that stand for a tag."""
    return hashlib.blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=16).digest()
