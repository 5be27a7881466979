"""A value as the server keeps it: bound to its key, with its length, digest, end and tags.

    "AR" version key-length tags size expires      16 bytes
    key, then 16 bytes a tag, then a digest of 16 bytes over all the rest, then the value

The scripts read what stands before the digest, and put 24 bytes of their own in front.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

from askonce.errors import EntryUnreadable, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = struct.Struct(">2sBBId")
_MAGIC = b"A\x01"
_DIGEST = 16
MOST_TAGS = 255


class Foreign(StoreError):
    """The bytes belong to another key: the connection mixes up its replies."""


def build(key: bytes, value: bytes, expires: float, tags: Sequence[bytes]) -> bytes:
    """The frame; tags: by `tag_digest`, no two alike."""
    head = HEAD.pack(_MAGIC, len(key), len(tags), len(value), expires) + key + b"".join(tags)
    return b"".join((head, _digest(head, value), value))


def open_frame(key: bytes, frame: memoryview, now: float) -> bytes | None:
    """The value, or None past its end; raises Foreign, EntryUnreadable."""
    if len(frame) < HEAD.size:
        raise EntryUnreadable("too short for a value")
    magic, key_length, tags, size, expires = HEAD.unpack_from(frame)
    if magic != _MAGIC:
        raise EntryUnreadable("not a value of this version")
    if frame[HEAD.size : HEAD.size + key_length] != key:
        raise Foreign("another key's value")
    start = HEAD.size + key_length + 16 * tags
    value = frame[start + _DIGEST :]
    if len(value) != size or frame[start : start + _DIGEST] != _digest(frame[:start], value):
        raise EntryUnreadable("damaged, or cut")
    return bytes(value) if expires > now else None


def tag_digest(tag: str) -> bytes:
    """16 bytes that stand for a tag."""
    return hashlib.blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _digest(head: bytes | memoryview, value: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(head, digest_size=_DIGEST, person=b"askonce redis")
    digest.update(value)
    return digest.digest()
